#include "subjects/shipped.hpp"

#include <cstdlib>
#include <string>

namespace attest {
namespace {

namespace fs = std::filesystem;

// A program where it was built uses the parts of that build; an installed one, moved or not, those that lie `installed`
// from its folder, and never what an old build left.
fs::path find(const char* installed, const char* built) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (fs::equivalent(folder, fs::path(ATTEST_BUILT_HOST).parent_path(), error)) return built;
  return (folder / installed).lexically_normal();
}

}  // namespace

fs::path plugin_host() { return find(ATTEST_INSTALLED_HOST, ATTEST_BUILT_HOST); }
fs::path python_folder() { return find(ATTEST_INSTALLED_PYTHON, ATTEST_BUILT_PYTHON); }
fs::path adapter_folder() { return find(ATTEST_INSTALLED_ADAPTERS, ATTEST_SOURCE_ADAPTERS); }

fs::path adapter_plugin(std::string_view prefix) {
  const char* named = std::getenv("ATTEST_ADAPTERS");
  const fs::path folder =
      named != nullptr && *named != '\0' ? fs::path(named) : find(ATTEST_INSTALLED_PLUGINS, ATTEST_BUILT_PLUGINS);
  return folder / (std::string(prefix) + ".so");
}

}  // namespace attest
