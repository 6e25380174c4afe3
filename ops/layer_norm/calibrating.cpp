#include "ops/calibrating.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/layer_norm/inputs.hpp"
#include "generators/layer_norm/domain.hpp"
#include "ops/layer_norm/parts.hpp"
#include "oracle/layer_norm/calibration.hpp"
#include "oracle/layer_norm/oracle.hpp"

namespace attest::ops::of_layer_norm {
namespace {

using attest::layer_norm::Stage;
using attest::layer_norm::Values;
using oracle::layer_norm::LayerNormOracle;

// The values that the tier speaks of, moved away from 0 or not; those at the ends of the range are not moved.
struct Distribution {
  Values values;
  bool offset;
};
constexpr Distribution calibrated[] = {
    {Values::uniform, false},     {Values::uniform, true},      {Values::normal, false}, {Values::normal, true},
    {Values::roots_large, false}, {Values::roots_small, false}, {Values::huge, false}};

constexpr double least_offset = 0.125;  // generators/layer_norm/draw.cpp
constexpr Index largest_calibrated = Index{1} << 13;
constexpr Index most_long = Index{1} << 16;                                   // of one problem in fifty
constexpr Index any_rows = Index{1} << 40, row_limits[] = {any_rows, 31, 3};  // as attention has it
constexpr Index most_of_lambda = 1024;  // elements of a problem whose lambda is asked of each

attest::layer_norm::Domain calibrated_domain(const Policy& policy, const Distribution& of, Index most,
                                             Index most_rows) {
  attest::layer_norm::Domain domain(Supports{}, {policy[Stage::storage]});
  domain.narrow("values", static_cast<Index>(of.values), static_cast<Index>(of.values));
  domain.narrow("rows", 1, most_rows);
  domain.assume([=](const Problem& p) {
    return (p.offset != 0) == of.offset && !oracle::layer_norm::outputs_alike(p) && p.rows <= most_rows &&
           p.elements() >= oracle::least_elements && p.elements() <= most;
  });
  return domain;
}

void add_lambda(LayerNormOracle& oracle, const Problem& problem, const Tensor& out, Calibrating::Measured& measured) {
  for (const Index row : oracle::layer_norm::statistical_rows(problem))
    for (Index column = 0; column < problem.hidden; ++column) {
      const double lambda = oracle.lambda_needed(row, column, out.at(row, column));
      if (std::isnan(lambda)) continue;
      ++measured.lambda_elements;
      measured.lambda = std::max(measured.lambda, lambda);
    }
}

class LayerNormCalibrating final : public Calibrating {
 public:
  [[nodiscard]] std::size_t distributions() const noexcept override { return std::size(calibrated); }
  [[nodiscard]] Problems problems(const ops::Policy& policy, std::size_t distribution,
                                  std::uint64_t seed) const override {
    const auto& own = policy.as<Policy>();
    const Distribution& of = calibrated[distribution];
    Problem least;  // with the least offset that is drawn
    least.dtype = own[Stage::storage];
    least.values = of.values;
    least.offset = of.offset ? least_offset : 0;
    if (oracle::layer_norm::outputs_alike(least)) return {};
    std::vector<attest::layer_norm::Domain> domains;
    for (const Index rows : row_limits) domains.push_back(calibrated_domain(own, of, largest_calibrated, rows));
    return [domains, large = calibrated_domain(own, of, most_long, any_rows), seed](std::uint64_t n) {
      return ops::Problem(draw_counted(n % 50 == 0 ? large : domains[n % domains.size()], seed, n, 1).problem);
    };
  }
  [[nodiscard]] std::string class_of(const ops::Problem& problem) const override {
    return oracle::layer_norm::calibration_class(problem.as<Problem>());
  }
  // Rows about as long.
  [[nodiscard]] std::uint64_t kin(const ops::Problem& problem) const override {
    return static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(problem.as<Problem>().hidden)));
  }
  [[nodiscard]] std::string_view refusal(const ops::Contract& contract) const override {
    return oracle::layer_norm::statistical_refusal(contract.as<Contract>());
  }
  [[nodiscard]] Measured measure(const ops::Problem& problem, const ops::Contract& contract,
                                 const Run& run) const override {
    const auto& own = problem.as<Problem>();
    const attest::layer_norm::Inputs inputs = materialise(own);
    const Tensor out = make_out(own), sum_out = make_sum_out(own);
    run(inputs.call(out, sum_out));
    LayerNormOracle judge(contract.as<Contract>(), own, inputs);
    oracle::Statistics statistics;
    if (judge.judge(out, sum_out, &statistics).kind == VerdictKind::fail)
      throw internal_error("calibrate: an emulated kernel left the proven interval of its own contract on " +
                           attest::layer_norm::to_text(own));
    Measured measured{statistics.t(), statistics.largest_lambda, statistics.elements, 0};
    if (own.elements() <= most_of_lambda) add_lambda(judge, own, out, measured);
    return measured;
  }
  [[nodiscard]] const oracle::Calibration& shipped() const override {
    return oracle::layer_norm::shipped_calibration();
  }
};

}  // namespace

const Calibrating& calibrating() {
  static const LayerNormCalibrating one;
  return one;
}

}  // namespace attest::ops::of_layer_norm
