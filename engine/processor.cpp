#include "engine/processor.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <vector>

namespace attest::engine {
namespace {

// x86-64, then 64-bit Arm.
constexpr std::array<std::string_view, 21> arithmetic{
    "f16c",        "fma",         "avx",         "avx2",     "avx_vnni", "avx512f",  "avx512bw",
    "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimdhp",     "bf16",        "i8mm",        "sve",      "sve2",     "svebf16",  "sme"};

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(std::move(word));
  return words;
}

// The instructions that the first processor of /proc/cpuinfo lists.
std::vector<std::string> listed() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return words_of(line);
  return {};
}

}  // namespace

std::string processor() {
  utsname names{};
  std::string text = uname(&names) == 0 ? names.machine : "unknown";
  const std::vector<std::string> here = listed();
  for (const std::string_view word : arithmetic)
    if (std::ranges::find(here, word) != here.end()) text += " " + std::string(word);
  return text;
}

std::string lacking(std::string_view needed, std::string_view here) {
  const std::vector<std::string> has = words_of(here);
  std::string missing;
  for (const std::string& word : words_of(needed))
    if (std::ranges::find(has, word) == has.end()) missing += (missing.empty() ? "" : " ") + word;
  return missing;
}

bool is_processor(std::string_view text) {
  constexpr std::size_t most_words = 64;
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789_ ";
  return text.find_first_not_of(letters) == std::string_view::npos && words_of(text).size() <= most_words;
}

}  // namespace attest::engine
