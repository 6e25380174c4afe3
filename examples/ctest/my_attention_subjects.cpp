// my_attention as attest sees it: what it takes, what it promises, and how it is called.
#include <attest/attest.hpp>

#include "my_attention.hpp"

namespace {

constexpr const char* describe = R"({
  "ops": ["attention"], "dtypes": ["f32"],
  "supports": {"align": ["top_left"], "gqa": false, "bias": false, "keep": false, "kv_lengths": false, "window": false,
               "softcap": false, "lse": false, "strides": "contiguous", "dims": {"dv": "=d"}},
  "contract": {"policy": "f32", "batch_invariant": "bitwise", "deterministic": "threads"}})";

void run(const attest::Attention& call, double scale) {
  my_attention(call.q.as<const float>().data(), call.k.as<const float>().data(), call.v.as<const float>().data(),
               call.out.as<float>().data(), {call.batch(), call.heads(), call.queries(), call.keys(), call.width()},
               static_cast<float>(scale), call.causal);
}

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  static const attest::Plugin plugin{
      attest::subject("plain", describe, [](const attest::Attention& call) { run(call, call.scale); }),
      attest::subject("forgets-scale", describe, [](const attest::Attention& call) { run(call, 1); }),
  };
  return plugin.table(abi, count);
}
