#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "core/error.hpp"

// The parts of every fuzz target. A target reads any bytes and either accepts them or throws attest::Error; any other
// exception that leaves it is a finding, and ends the process under libFuzzer.
namespace attest::fuzz {

struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Finding(what);
}

// Tells whether `parse` accepts its input. A refusal must be one clear line that blames the input, not attest.
template <class Parse>
bool accepts(Parse&& parse) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    const std::string sentence = error.what();
    require(!sentence.empty() && sentence.size() < 2100, "a refusal of " + std::to_string(sentence.size()) + " bytes");
    for (const char c : sentence)
      require(static_cast<unsigned char>(c) >= ' ' && c != '\x7f', "a refusal with control characters: " + sentence);
    require(error.exit() == Exit::usage || error.exit() == Exit::no_subject, "attest blames itself: " + sentence);
    return false;
  }
}

inline std::string_view as_text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
