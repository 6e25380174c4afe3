#include "engine/calibrate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/threads.hpp"
#include "generators/draw.hpp"
#include "oracle/oracle.hpp"

namespace attest::engine {
namespace {

using oracle::Calibration;
using oracle::CalibrationCell;

constexpr Index largest_problem = Index{1} << 16;
constexpr Index most_long = Index{1} << 19;  // of one problem in a hundred
// Results of few rows spread T most and are rare among random problems: a third of the problems has at most three rows,
// and a third at most 31.
constexpr Index any_rows = Index{1} << 40, row_limits[] = {any_rows, 31, 3};
constexpr Index most_of_lambda = Index{1} << 13;        // where the full formulas are asked of every element
constexpr std::uint64_t calibration_stream = 0x63616C;  // keeps the kernels apart from the problems

// One kernel on one problem.
struct Measured {
  attest::Problem problem;
  std::uint64_t kernel = 0;
  double t = 0, lambda = 0;
  Index elements = 0, lambda_elements = 0;
  std::optional<double> slow_t;  // once it was asked

  [[nodiscard]] bool has_t() const { return elements >= oracle::least_elements; }
  // The T that counts, or what it cannot exceed.
  [[nodiscard]] double smaller_t() const { return slow_t ? std::min(t, *slow_t) : t; }
};

attest::Domain domain_of(const attest::Policy& policy, Values values, Index most, Index most_rows) {
  attest::Domain domain(attest::Supports{}, {policy[Stage::storage]});
  domain.narrow("values", static_cast<Index>(values), static_cast<Index>(values));
  for (const char* field : {"b", "hq", "lq"}) domain.narrow(field, 1, most_rows);
  domain.assume([=](const attest::Problem& p) {
    const Index rows = p.b * p.hq * p.lq;
    return !oracle::outputs_alike(p) && rows <= most_rows && rows * p.dv >= oracle::least_elements &&
           p.multiply_adds() <= most;
  });
  return domain;
}

void add_lambda(oracle::Oracle& oracle, const Tensor& out, Measured& record) {
  for (const Index flat : judged_rows(record.problem)) {
    const RowIndex r = row_index(record.problem, flat);
    for (Index c = 0; c < record.problem.dv; ++c) {
      const double got = out.at(r.b, r.h, r.i, c);
      if (!std::isfinite(got)) continue;
      const double lambda = oracle.lambda_needed(r.b, r.h, r.i, c, record.problem.dtype, got);
      if (std::isnan(lambda)) continue;
      ++record.lambda_elements;
      record.lambda = std::max(record.lambda, lambda);
    }
  }
}

// A kernel's result on a problem, and its judge.
struct Run {
  Run(const attest::Problem& the_problem, const attest::EmulatedKernel& kernel)
      : problem(the_problem), inputs(materialise(problem)), out(make_out(problem)), lse(make_lse(problem)) {
    const auto call = kernel.on(problem);
    call.run(inputs.call(out, lse));
    contract = call.contract;
    oracle = oracle::make_oracle(contract, problem, inputs);
  }
  attest::Problem problem;
  Inputs inputs;
  Tensor out, lse;
  attest::Contract contract;
  std::unique_ptr<oracle::Oracle> oracle;
};

Measured measure(const attest::Problem& problem, const attest::EmulatedKernel& kernel) {
  Measured record;
  record.problem = problem;
  Run run(problem, kernel);
  oracle::Statistics statistics;
  if (run.oracle->judge(run.out, run.lse, &statistics).kind == VerdictKind::fail)
    throw internal_error("calibrate: an emulated kernel left the proven interval of its own contract on " +
                         to_text(problem));
  record.t = statistics.t();
  record.elements = statistics.elements;
  if (problem.multiply_adds() <= most_of_lambda) add_lambda(*run.oracle, run.out, record);
  return record;
}

// The place, from the largest down, of the value that a share `q` of `n` does not exceed.
std::size_t place(double q, std::size_t n) {
  return n - std::max<std::size_t>(1, static_cast<std::size_t>(std::ceil(q * static_cast<double>(n))));
}

using Look = std::function<double(const Measured&)>;

// Puts the `count` largest after a second look first, largest first. It only lowers T: it is taken where else one could be among
// them.
void sort_largest(std::vector<Measured*>& records, std::size_t count, const Look& slow_t, int jobs) {
  for (;;) {
    std::ranges::sort(records, [](const Measured* a, const Measured* b) {
      return a->smaller_t() != b->smaller_t() ? a->smaller_t() > b->smaller_t() : a < b;
    });
    std::vector<Measured*> unknown;
    for (std::size_t n = 0; n < count; ++n)
      if (!records[n]->slow_t) unknown.push_back(records[n]);
    if (unknown.empty()) return;
    on_all_threads(unknown.size(), jobs, [&](std::uint64_t n) { unknown[n]->slow_t = slow_t(*unknown[n]); });
  }
}

CalibrationCell cell_of(std::vector<Measured*> records, std::size_t kernels, const Look& slow_t, int jobs) {
  CalibrationCell cell;
  for (const Measured* record : records) {
    cell.lambda = std::max(cell.lambda, record->lambda);
    cell.lambda_elements += record->lambda_elements;
  }
  std::erase_if(records, [](const Measured* record) { return !record->has_t(); });
  const std::size_t n = records.size();
  cell.kernels = static_cast<std::int64_t>(kernels);
  cell.results = std::ssize(records);
  if (n == 0) return cell;
  for (const Measured* record : records) cell.elements += record->elements;
  const auto t_at = [&](double q) { return records[place(q, n)]->smaller_t(); };
  std::ranges::sort(records, std::ranges::greater{}, &Measured::t);
  cell.t50 = t_at(0.5);
  cell.t90 = t_at(0.9);
  sort_largest(records, place(0.99, n) + 1, slow_t, jobs);
  cell.t99 = t_at(0.99);
  cell.t999 = t_at(0.999);
  cell.t = records.front()->smaller_t();
  cell.worst = to_text(records.front()->problem);
  return cell;
}

// How many results of a group lie above t99 of their class.
class Shares {
 public:
  void add(std::uint64_t group, bool above) {
    Count& count = groups_[group];
    ++count.results;
    count.above += above;
  }
  [[nodiscard]] double largest() const {
    double most = 0;
    for (const auto& [group, count] : groups_)
      if (count.results >= least_of_group) most = std::max(most, count.above / count.results);
    return most;
  }

 private:
  static constexpr double least_of_group = 100;
  struct Count {
    double results = 0, above = 0;
  };
  std::map<std::uint64_t, Count> groups_;
};

// The kernel with this number, of those whose contract has statistics.
attest::EmulatedKernel kernel_of(const CalibrateOptions& options, const attest::Policy& policy, std::uint64_t number) {
  for (std::uint64_t key = extend(extend(mix(options.seed), calibration_stream), number);; key = mix(key)) {
    attest::EmulatedKernel kernel = options.kernel(policy, key);
    if (oracle::statistical_refusal(kernel.contract).empty()) return kernel;
  }
}

// Every kernel on as many problems with these values.
std::vector<Measured> measure_all(const CalibrateOptions& options, const attest::Policy& policy,
                                  const std::vector<attest::EmulatedKernel>& kernels, Values values,
                                  std::uint64_t step) {
  std::vector<attest::Domain> domains;
  for (const Index rows : row_limits) domains.push_back(domain_of(policy, values, largest_problem, rows));
  const attest::Domain large = domain_of(policy, values, most_long, any_rows);
  const std::uint64_t seed = extend(mix(options.seed), step);
  std::vector<Measured> records(kernels.size() * options.cases);
  const auto measure_one = [&](std::uint64_t n) {
    const std::uint64_t number = n / options.cases;
    const attest::Domain& domain = n % 100 == 0 ? large : domains[n % domains.size()];
    records[n] = measure(draw_problem(domain, seed, n, 1), kernels[number]);
    records[n].kernel = number;
  };
  on_all_threads(records.size(), options.jobs, measure_one, options.interrupt);
  return records;
}

// nullopt if it was interrupted before all of it was measured. `step` counts distributions of values over all policies.
std::optional<oracle::PolicyCalibration> calibrate_policy(const CalibrateOptions& options, const attest::Policy& policy,
                                                          std::size_t step) {
  oracle::PolicyCalibration calibrated;
  std::vector<attest::EmulatedKernel> kernels;
  for (std::uint64_t number = 0; number < options.kernels; ++number)
    kernels.push_back(kernel_of(options, policy, number));
  Shares by_kernel, by_keys;
  const Look slow_t = [&](const Measured& record) {
    Run run(record.problem, kernels[record.kernel]);
    return run.oracle->slow_t(run.out);
  };
  for (std::size_t values = 0; values < values_count; ++values, ++step) {
    if (options.progress) options.progress(to_text(policy), step, options.policies.size() * values_count);
    std::vector<Measured> records = measure_all(options, policy, kernels, static_cast<Values>(values), step);
    if (is_set(options.interrupt)) return std::nullopt;
    std::map<std::string, std::vector<Measured*>> classes;
    for (Measured& record : records) classes[oracle::calibration_class(record.problem)].push_back(&record);
    for (const auto& [name, of_class] : classes) {
      const CalibrationCell& cell = calibrated.classes[name] = cell_of(of_class, kernels.size(), slow_t, options.jobs);
      for (const Measured* record : of_class) {
        if (!record->has_t()) continue;
        const bool above = record->smaller_t() > cell.t99;
        by_kernel.add(record->kernel, above);
        by_keys.add(static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(record->problem.lk))), above);
      }
    }
  }
  calibrated.share = std::max(by_kernel.largest(), by_keys.largest());
  return calibrated;
}

}  // namespace

oracle::Calibration calibrate(const CalibrateOptions& options) {
  Calibration calibration;
  calibration.seed = options.seed;
  std::size_t step = 0;
  for (const attest::Policy& policy : options.policies) {
    std::optional<oracle::PolicyCalibration> calibrated = calibrate_policy(options, policy, step);
    if (!calibrated) {
      calibration.interrupted = true;
      break;
    }
    calibration.policies[to_text(policy)] = std::move(*calibrated);
    step += values_count;
  }
  return calibration;
}

}  // namespace attest::engine
