#include "ops/calibrating.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/error.hpp"
#include "core/mha/call.hpp"
#include "core/mha/inputs.hpp"
#include "generators/mha/domain.hpp"
#include "ops/mha/parts.hpp"
#include "oracle/mha/calibration.hpp"
#include "oracle/mha/mha.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Weights;
using oracle::MhaOracle;

constexpr Weights calibrated[] = {Weights::dense, Weights::dense_in, Weights::dense_out};

constexpr Index largest_calibrated = Index{1} << 16;
constexpr Index most_long = Index{1} << 19;  // of one problem in a hundred
// Of few rows T spreads most, and a third of all problems has no more than this many.
constexpr Index any_tokens = Index{1} << 40, token_limits[] = {any_tokens, 31, 3};
constexpr Index most_of_lambda = 1024;  // elements of a problem whose lambda is asked of each

attest::mha::Domain calibrated_domain(const Policy& policy, Weights weights, Index most, Index most_tokens) {
  attest::mha::Domain domain(Supports{}, {policy.attention[Stage::storage]});
  domain.narrow("weights", static_cast<Index>(weights), static_cast<Index>(weights));
  domain.assume([=](const Problem& p) {
    return !oracle::outputs_alike(p) && p.b * p.l <= most_tokens && p.b * p.l * p.e >= oracle::least_elements &&
           p.multiply_adds() <= most;
  });
  return domain;
}

class MhaCalibrating final : public Calibrating {
 public:
  [[nodiscard]] std::size_t distributions() const noexcept override { return std::size(calibrated); }
  [[nodiscard]] Problems problems(const ops::Policy& policy, std::size_t distribution,
                                  std::uint64_t seed) const override {
    const auto& own = policy.as<Policy>();
    std::vector<attest::mha::Domain> domains;
    for (const Index tokens : token_limits)
      domains.push_back(calibrated_domain(own, calibrated[distribution], largest_calibrated, tokens));
    return [domains, large = calibrated_domain(own, calibrated[distribution], most_long, any_tokens),
            seed](std::uint64_t n) {
      return ops::Problem(draw_counted(n % 100 == 0 ? large : domains[n % domains.size()], seed, n, 1).problem);
    };
  }
  [[nodiscard]] std::string class_of(const ops::Problem& problem) const override {
    return oracle::calibration_class(problem.as<Problem>());
  }
  // About as many products in a sum.
  [[nodiscard]] std::uint64_t kin(const ops::Problem& problem) const override {
    return static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(problem.as<Problem>().e)));
  }
  [[nodiscard]] std::string_view refusal(const ops::Contract& contract) const override {
    return oracle::statistical_refusal(contract.as<Contract>());
  }
  [[nodiscard]] Measured measure(const ops::Problem& problem, const ops::Contract& contract,
                                 const Run& run) const override {
    const auto& own = problem.as<Problem>();
    const attest::mha::Inputs inputs = materialise(own);
    const Tensor out = make_out(own);
    const attest::mha::Call call = inputs.call(out);
    run(as_plugin(call, own.self));
    MhaOracle oracle(contract.as<Contract>(), call);
    if (oracle.judge(out).kind == VerdictKind::fail)
      throw internal_error("calibrate: an emulated kernel left the proven interval of its own contract on " +
                           attest::mha::to_text(own));
    const oracle::Statistics statistics = oracle.statistics_of(out);
    Measured measured{statistics.t(), statistics.largest_lambda, statistics.elements, 0};
    if (own.b * own.l * own.e > most_of_lambda || oracle.ways() > 1) return measured;
    // Of the elements that T is of each is asked; of the others statistics_of() gave those that need more than near_lambda.
    const oracle::StatisticalSample sample = oracle::statistical_sample(own);
    const Index elements = static_cast<Index>(sample.rows.size()) * own.e;
    for (Index n = 0; n < elements; n += sample.step) {
      const Index row = sample.rows[static_cast<std::size_t>(n / own.e)];
      const double lambda = oracle.lambda_needed(0, row / own.l, row % own.l, n % own.e, out);
      if (std::isnan(lambda)) continue;
      ++measured.lambda_elements;
      measured.lambda = std::max(measured.lambda, lambda);
    }
    return measured;
  }
  [[nodiscard]] const oracle::Calibration& shipped() const override { return oracle::shipped_block_calibration(); }
};

}  // namespace

const Calibrating& calibrating() {
  static const MhaCalibrating one;
  return one;
}

}  // namespace attest::ops::of_mha
