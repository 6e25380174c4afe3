#include "subjects/shipped.hpp"

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

}  // namespace attest
