#include "ops/calibrating.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/inputs.hpp"
#include "generators/domain.hpp"
#include "generators/draw.hpp"
#include "ops/attention/parts.hpp"
#include "oracle/oracle.hpp"

namespace attest::ops::of_attention {
namespace {

constexpr Index largest_calibrated = Index{1} << 16;
constexpr Index most_long = Index{1} << 19;  // of one problem in a hundred
// Results of few rows spread T most and are rare among random problems: a third of the problems has at most three rows,
// and a third at most 31.
constexpr Index any_rows = Index{1} << 40, row_limits[] = {any_rows, 31, 3};
constexpr Index most_of_lambda = Index{1} << 13;  // where the full formulas are asked of every element

attest::Domain calibrated_domain(const Policy& policy, Values values, Index most, Index most_rows) {
  attest::Domain domain(attest::Supports{}, {policy[Stage::storage]});
  domain.narrow("values", static_cast<Index>(values), static_cast<Index>(values));
  for (const char* field : {"b", "hq", "lq"}) domain.narrow(field, 1, most_rows);
  domain.assume([=](const Problem& p) {
    const Index rows = p.b * p.hq * p.lq;
    return !oracle::outputs_alike_by_form(p) && rows <= most_rows && rows * p.dv >= oracle::least_elements &&
           p.multiply_adds() <= most;
  });
  return domain;
}

// A kernel's result on a problem, and its judge.
struct Judged {
  Judged(const ops::Problem& of, const ops::Contract& promise, const Calibrating::Run& run)
      : problem(of.as<Problem>()),
        contract(promise.as<Contract>()),
        inputs(materialise(problem)),
        out(make_out(problem)),
        lse(make_lse(problem)) {
    run(inputs.call(out, lse));
    oracle = oracle::make_oracle(contract, problem, inputs);
  }
  const Problem& problem;
  const Contract& contract;
  Inputs inputs;
  Tensor out, lse;
  std::unique_ptr<oracle::Oracle> oracle;
};

void add_lambda(Judged& judged, Calibrating::Measured& measured) {
  for (const Index flat : judged_rows(judged.problem)) {
    const RowIndex r = row_index(judged.problem, flat);
    for (Index c = 0; c < judged.problem.dv; ++c) {
      const double got = judged.out.at(r.b, r.h, r.i, c);
      if (!std::isfinite(got)) continue;
      const double lambda = judged.oracle->lambda_needed(r.b, r.h, r.i, c, judged.problem.dtype, got);
      if (std::isnan(lambda)) continue;
      ++measured.lambda_elements;
      measured.lambda = std::max(measured.lambda, lambda);
    }
  }
}

class AttentionCalibrating final : public Calibrating {
 public:
  [[nodiscard]] std::size_t distributions() const noexcept override { return values_count; }
  [[nodiscard]] Problems problems(const ops::Policy& policy, std::size_t distribution,
                                  std::uint64_t seed) const override {
    const auto& own = policy.as<Policy>();
    const auto values = static_cast<Values>(distribution);
    std::vector<attest::Domain> domains;
    for (const Index rows : row_limits) domains.push_back(calibrated_domain(own, values, largest_calibrated, rows));
    return [domains, large = calibrated_domain(own, values, most_long, any_rows), seed](std::uint64_t n) {
      return ops::Problem(draw_problem(n % 100 == 0 ? large : domains[n % domains.size()], seed, n, 1));
    };
  }
  [[nodiscard]] std::string class_of(const ops::Problem& problem) const override {
    return oracle::calibration_class(problem.as<Problem>());
  }
  // About as many keys.
  [[nodiscard]] std::uint64_t kin(const ops::Problem& problem) const override {
    return static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(problem.as<Problem>().lk)));
  }
  [[nodiscard]] std::string_view refusal(const ops::Contract& contract) const override {
    return oracle::statistical_refusal(contract.as<Contract>());
  }
  [[nodiscard]] Measured measure(const ops::Problem& problem, const ops::Contract& contract,
                                 const Run& run) const override {
    Judged judged(problem, contract, run);
    oracle::Statistics statistics;
    if (judged.oracle->judge(judged.out, judged.lse, &statistics).kind == VerdictKind::fail)
      throw internal_error("calibrate: an emulated kernel left the proven interval of its own contract on " +
                           attest::to_text(judged.problem));
    Measured measured{statistics.t(), 0, statistics.elements, 0};
    if (judged.problem.multiply_adds() <= most_of_lambda) add_lambda(judged, measured);
    return measured;
  }
  [[nodiscard]] double slow_t(const ops::Problem& problem, const ops::Contract& contract,
                              const Run& run) const override {
    Judged judged(problem, contract, run);
    return judged.oracle->slow_t(judged.out);
  }
  [[nodiscard]] const oracle::Calibration& shipped() const override { return oracle::shipped_calibration(); }
};

}  // namespace

const Calibrating& calibrating() {
  static const AttentionCalibrating one;
  return one;
}

}  // namespace attest::ops::of_attention
