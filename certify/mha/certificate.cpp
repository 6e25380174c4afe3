#include "certify/mha/certificate.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "certify/rounding.hpp"
#include "core/error.hpp"

namespace attest::certify::mha {
namespace {

void check_claim(const attest::mha::Problem& problem, const Claim& claim) {
  constexpr std::array<std::string_view, 5> names{"out", "q", "k", "v", "heads"};
  const bool out = claim.tensor == Claim::Tensor::out, q = claim.tensor == Claim::Tensor::q;
  const std::vector<Index> extent = out ? std::vector<Index>{problem.b, problem.l, problem.e}
                                    : claim.tensor == Claim::Tensor::heads
                                        ? std::vector<Index>{problem.b, problem.l, problem.q_width()}
                                        : std::vector<Index>{problem.b, q ? problem.heads : problem.kv_heads,
                                                             q ? problem.l : problem.m, problem.head_dim};
  for (std::size_t axis = 0; axis < extent.size(); ++axis)
    if (claim.index[axis] < 0 || claim.index[axis] >= extent[axis])
      throw usage_error(fmt::format("claim: element [{}] lies outside {} [{}]",
                                    fmt::join(std::span(claim.index).first(extent.size()), ","),
                                    names[static_cast<std::size_t>(claim.tensor)], fmt::join(extent, ",")));
  if (out && std::isfinite(claim.value) && round_to(problem.dtype, claim.value) != claim.value)
    throw usage_error(fmt::format("claim: {} is no number of {}", claim.value, name(problem.dtype)));
}

Block::Projection projection_of(Claim::Tensor tensor) {
  return tensor == Claim::Tensor::q   ? Block::Projection::q
         : tensor == Claim::Tensor::k ? Block::Projection::k
                                      : Block::Projection::v;
}

}  // namespace

Certificate certify(const Contract& contract, const attest::mha::Problem& problem, const Claim& claim) {
  const attest::mha::Inputs inputs = materialise(problem);
  check_claim(problem, claim);
  const bool of_out = claim.tensor == Claim::Tensor::out;
  const bool flush = contract.attention.arithmetic.flush_to_zero;
  Certificate certificate;
  certificate.arithmetic = library_version();
  for (std::int64_t bits = first_bits; bits <= most_bits; bits *= 2) {
    const Precision precision(bits);
    certificate.bits = bits;
    certificate.ways.clear();
    certificate.answer = Answer::stands;
    for (const Going going : goings_of(contract)) {
      Block block(contract, inputs, going, 0);
      const auto [b, i, e, unused] = claim.index;
      const Enclosure enclosure = of_out ? block.element(b, i, e)
                                  : claim.tensor == Claim::Tensor::heads
                                      ? block.head(b, i, e)
                                      : block.projected(projection_of(claim.tensor), claim.index);
      // Beside a wider stage of one way a narrower one of another has its numbers, too.
      const Format left = claim.tensor == Claim::Tensor::heads ? block.heads_left() : block.left();
      const Rounding round = of_out ? Rounding{contract.attention.policy[Stage::output], problem.dtype, flush}
                                    : Rounding{left, left, flush};
      Judgement judgement = judge(enclosure, round, claim.value);
      // Ends that were rounded outwards prove that a claim stands, and not that it falls.
      if (judgement.answer == Answer::falls && block.uncertain() && bits < most_bits)
        judgement = {Answer::undecided, "an end of a stage is too near to where its rounding changes"};
      Certificate::Way way{going, judgement.answer, {}, {}, {}};
      if (enclosure.expect == Expect::number && !enclosure.undetermined) {
        way.exact = enclosure.y.text();
        way.lo = enclosure.lo.text();
        way.hi = enclosure.hi.text();
        way.rounded_lo = round(enclosure.lo).least;
        way.rounded_hi = round(enclosure.hi).most;
      }
      if (certificate.ways.empty() || (judgement.answer != Answer::stands && certificate.answer != Answer::falls))
        certificate.why = judgement.why;
      if (judgement.answer != Answer::stands && certificate.answer != Answer::falls)
        certificate.answer = judgement.answer;
      certificate.ways.push_back(std::move(way));
    }
    if (certificate.answer != Answer::undecided) break;
  }
  return certificate;
}

}  // namespace attest::certify::mha
