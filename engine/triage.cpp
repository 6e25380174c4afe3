#include "engine/triage.hpp"

namespace attest::engine {
namespace {
constexpr std::uint64_t agreeing_reproducers = 3;
constexpr std::uint64_t shrunk_one_in = 50;
}  // namespace

std::string Triage::ask(const std::string& signature) {
  State& state = states[signature];
  if (state.agreeing < agreeing_reproducers) return {};
  return ++state.counted % shrunk_one_in == 0 ? std::string() : state.bucket;
}

void Triage::learn(const std::string& signature, const std::string& bucket) {
  State& state = states[signature];
  state.agreeing = state.bucket == bucket ? state.agreeing + 1 : 1;
  state.bucket = bucket;
}

}  // namespace attest::engine
