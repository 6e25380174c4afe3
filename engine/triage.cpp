#include "engine/triage.hpp"

namespace attest::engine {
namespace {
constexpr std::uint64_t shrunk_one_in = 50;
// Chosen of a key until then.
constexpr std::uint64_t three_each = 10, one_each = 100;
constexpr std::uint64_t three_each_of_costly = 3, one_each_of_costly = 6;
}  // namespace

bool Triage::ask(const FailureKey& key, const std::string& signature, std::uint64_t understood) {
  const std::uint64_t before = states[signature].failures++;
  std::uint64_t& of_key = chosen[to_text(key)];
  const bool costly = key.kind != VerdictKind::fail;
  const std::uint64_t three = costly ? three_each_of_costly : three_each;
  const std::uint64_t one = costly ? one_each_of_costly * (1 + understood) : one_each;
  const std::uint64_t first = of_key < three ? 3 : of_key < one ? 1 : 0;
  if (before >= first && (before + 1) % shrunk_one_in != 0) return false;
  ++of_key;
  return true;
}

}  // namespace attest::engine
