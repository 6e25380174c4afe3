#include "engine/triage.hpp"

namespace attest::engine {
namespace {
constexpr std::uint64_t shrunk_one_in = 50;
constexpr std::uint64_t three_each = 10, one_each = 40;  // chosen of a key until then
}  // namespace

bool Triage::ask(const std::string& key, const std::string& signature) {
  const std::uint64_t before = states[signature].failures++;
  std::uint64_t& of_key = chosen[key];
  const std::uint64_t first = of_key < three_each ? 3 : of_key < one_each ? 1 : 0;
  if (before >= first && (before + 1) % shrunk_one_in != 0) return false;
  ++of_key;
  return true;
}

}  // namespace attest::engine
