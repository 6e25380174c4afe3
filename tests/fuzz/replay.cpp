// replay PATH...: gives every file below the paths to a fuzz target, without libFuzzer. Exits 1 and names the file for
// a finding or for an input that takes longer than ten seconds, 2 if there was no file at all.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/target.hpp"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest{10};  // sanitizers and busy machines slow down what takes milliseconds

bool replay(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  const auto start = Clock::now();
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", file.c_str(), error.what());
    return false;
  }
  if (Clock::now() - start <= longest) return true;
  std::fprintf(stderr, "%s: it takes longer than %d s\n", file.c_str(), static_cast<int>(longest.count()));
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t files = 0, findings = 0;
  for (int i = 1; i < argc; ++i) {
    if (!fs::exists(argv[i])) continue;  // a target without regressions
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      ++files;
      findings += !replay(entry.path());
    }
  }
  std::printf("%zu inputs, %zu findings\n", files, findings);
  if (files == 0) return 2;
  return findings == 0 ? 0 : 1;
}
