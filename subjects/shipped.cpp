#include "subjects/shipped.hpp"

namespace attest {
namespace {

namespace fs = std::filesystem;

// PREFIX/`installed` for a program in PREFIX/bin, if that exists, else `built`.
fs::path find(const char* installed, const char* built) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path candidate = program.parent_path().parent_path() / installed;
  return !error && fs::exists(candidate, error) ? candidate : fs::path(built);
}

}  // namespace

fs::path plugin_host() { return find(ATTEST_INSTALLED_HOST, ATTEST_BUILT_HOST); }
fs::path python_folder() { return find(ATTEST_INSTALLED_PYTHON, ATTEST_BUILT_PYTHON); }

}  // namespace attest
