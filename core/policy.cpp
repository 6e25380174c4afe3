#include "core/policy.hpp"

#include <fmt/format.h>

#include "core/policy_text.hpp"

namespace attest {
namespace {

constexpr std::array<StageText, stage_count> stages{{
    {"storage", "q, k, v in memory"},
    {"operand", "what q, k, the weights and v are rounded to on entering a product"},
    {"scale", "a scale folded into q, k or the score"},
    {"qk", "accumulation of q.k"},
    {"score", "the stored score, and the score after the bias"},
    {"softcap", "c tanh(s/c)"},
    {"softmax", "maximum, exp and sum"},
    {"weights", "the weights on entering the second product"},
    {"pv", "accumulation of weights times v"},
    {"partial", "split-KV partial results"},
    {"output", "the output tensor"},
}};

// 16-bit storage around f32 arithmetic, as most fused kernels promise it.
Policy mixed(Format storage) {
  return Policy(Format::f32)
      .set(Stage::storage, storage)
      .set(Stage::operand, storage)
      .set(Stage::weights, storage)
      .set(Stage::output, storage);
}

const std::array<NamedPolicy, 9>& named_table() {
  static const std::array<NamedPolicy, 9> rows{{
      {"f32", Policy(Format::f32), "every stage f32; what f32 is held to where no policy is declared"},
      {"f64", Policy(Format::f64), "every stage f64; likewise for f64"},
      {"f16", mixed(Format::f16), "f16 storage and weights, f32 arithmetic"},
      {"bf16", mixed(Format::bf16), "bf16 storage and weights, f32 arithmetic"},
      {"f16-scores16", mixed(Format::f16).set(Stage::scale, Format::f16).set(Stage::score, Format::f16),
       "as f16, with the scale and the stored scores in f16"},
      {"f16-acc16",
       mixed(Format::f16)
           .set(Stage::scale, Format::f16)
           .set(Stage::qk, Format::f16)
           .set(Stage::score, Format::f16)
           .set(Stage::pv, Format::f16),
       "as f16, with both products accumulated in f16"},
      {"f16-softmax16", mixed(Format::f16).set(Stage::softcap, Format::f16).set(Stage::softmax, Format::f16),
       "as f16, with softcap and softmax in f16"},
      {"f16-all", Policy(Format::f16), "every stage f16; likewise for f16"},
      {"bf16-all", Policy(Format::bf16), "every stage bf16; likewise for bf16"},
  }};
  return rows;
}

const PolicyText<Stage, stage_count>& policies() {
  static const PolicyText<Stage, stage_count> text("attention", stages, named_table(), true,
                                                   {"names no format", "matches no stage"});
  return text;
}

bool lives_in_memory(Stage stage) { return stage == Stage::storage || stage == Stage::output; }

}  // namespace

std::string_view name(Stage stage) noexcept { return stages[static_cast<std::size_t>(stage)].name; }
std::string_view describe(Stage stage) noexcept { return stages[static_cast<std::size_t>(stage)].doc; }
std::span<const NamedPolicy> named_policies() noexcept { return named_table(); }

Policy policy_for(Format storage) { return policies().named_like(storage); }

Policy policy_from_text(std::string_view text) {
  const Policy policy = policies().read(text);
  for (std::size_t i = 0; i < stage_count; ++i)
    if (policy[static_cast<Stage>(i)] == Format::tf32 && lives_in_memory(static_cast<Stage>(i)))
      throw usage_error(fmt::format("policy '{}' puts tf32 in memory ({}): tf32 is an operand format, use f32 there",
                                    text, stages[i].name));
  return policy;
}

std::string to_text(const Policy& policy) { return policies().write(policy); }

}  // namespace attest
