#pragma once
#include <filesystem>
#include <string>

namespace attest {

// Ends the test program with 125 (skipped), aloud, where $ATTEST_PYTHON, else python3, cannot import `module`.
void need_python_with(const std::string& module);

// The output of the script, stderr included, when run in `folder`; a status other than 0 ends it as "status N".
std::string run_python(const std::string& script, const std::filesystem::path& folder);

// A new folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace attest
