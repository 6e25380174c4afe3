#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/verdict.hpp"
#include "ops/op.hpp"
#include "ops/probe/questions.hpp"

// The law narrow-stage, which all operations have: it asks a probe's question about a stage, once, at the sizes and
// with the options of a drawn problem.
//
// It is a proof, whatever the contract leaves free, since it is the policy bound's: the inputs are a problem as any
// other, the oracle encloses the results of kernels that keep the contract (docs/bounds.md, docs/layer-norm.md,
// docs/mha.md), and the verdict is that of this enclosure alone. Nothing here says where the answer must lie. Its power
// is special: with these inputs a stage of few bits loses about as much as it can, while all errors that the contract
// permits are small (a sum of ones and of two large numbers that cancel has errors of n u 2^(p+3) for n terms in f32,
// and of n - 2 in a format of p bits).
namespace attest::ops::probing {

inline constexpr std::string_view narrow_stage_name = "narrow-stage";

// The questions about a stage that is promised to be wider than some formats.
struct NarrowQuestion {
  std::string_view part, what;  // as StageQuestions has them
  std::vector<Format> excludes;
  // The calls to choose from, each made when it is asked for; none where the sizes do not carry the question, and
  // nullopt where the subject takes no such call.
  std::function<std::vector<std::function<std::optional<Problem>()>>()> calls;
};

// The entries of the list whose formats have fewer bits than `promised`, or less of a range where that is asked.
std::vector<Against> against_promise(std::vector<Against> list, Format promised);

// The key by which the law makes its problem of a drawn one, from that one's seed.
std::uint64_t narrow_stage_key(std::uint64_t seed);
// True if it does so at sizes that people use, whatever was drawn.
bool at_usual_sizes(std::uint64_t key);

// Its number among the laws of each operation, behind all others, so that which further laws a problem is drawn does
// not hang on it.
inline constexpr std::size_t narrow_stage = 1000;
Law narrow_stage_law(const Op* op);

// Asks one of the questions, drawn by `key` among those that have calls. Adds to the calls and to the nanoseconds that
// the subject took. Throws CallFailed.
Verdict check_narrow_stage(const std::vector<NarrowQuestion>& questions, std::uint64_t key, const Contract& contract,
                           Subject& subject, std::int64_t& calls, std::int64_t& elapsed);

}  // namespace attest::ops::probing
