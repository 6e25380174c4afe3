#include "engine/calibrate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/grade/threads.hpp"
#include "generators/draw.hpp"
#include "oracle/attention.hpp"

namespace attest::engine {
namespace {

using oracle::Calibration;
using oracle::CalibrationCell;

constexpr Index most_multiply_adds = Index{1} << 16;
constexpr Index most_long = Index{1} << 19;             // of one problem in a hundred
constexpr Index most_of_lambda = Index{1} << 13;        // where the full formulas are asked of every element
constexpr std::uint64_t calibration_stream = 0x63616C;  // keeps the kernels apart from the problems

// One kernel on one problem.
struct Record {
  Problem problem;
  std::uint64_t kernel = 0;
  double t = 0, lambda = 0;
  Index elements = 0, lambda_elements = 0;
};

Domain domain_of(const Policy& policy, Values values, Index most) {
  Domain domain(Supports{}, {policy[Stage::storage]});
  domain.narrow("values", static_cast<Index>(values), static_cast<Index>(values));
  domain.assume([most](const Problem& p) {
    return !oracle::outputs_alike(p) && p.b * p.hq * p.lq * p.dv >= oracle::least_elements && p.multiply_adds() <= most;
  });
  return domain;
}

void add_lambda(oracle::AttentionOracle& oracle, const Tensor& out, Record& record) {
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

Record measure(const Problem& problem, const EmulatedKernel& kernel) {
  Record record;
  record.problem = problem;
  const Inputs inputs = materialise(problem);
  Tensor out = make_out(problem), lse = make_lse(problem);
  const Contract contract = kernel.run(problem, inputs, out, lse);
  oracle::AttentionOracle oracle(contract, problem, inputs);
  oracle::Statistics statistics;
  if (oracle.judge(out, lse, &statistics).kind == VerdictKind::fail)
    throw internal_error("calibrate: an emulated kernel left the proven interval of its own contract on " +
                         to_text(problem));
  record.t = statistics.t();
  record.elements = statistics.elements;
  if (problem.multiply_adds() <= most_of_lambda) add_lambda(oracle, out, record);
  return record;
}

// The value that a share `q` of an ascending list does not exceed.
double quantile(const std::vector<double>& sorted, double q) {
  const auto n = static_cast<double>(sorted.size());
  return sorted[static_cast<std::size_t>(std::min(n - 1, std::ceil(q * n)))];
}

CalibrationCell cell_of(const std::vector<const Record*>& records, std::size_t kernels) {
  CalibrationCell cell;
  std::vector<double> all;
  for (const Record* record : records) {
    cell.lambda = std::max(cell.lambda, record->lambda);
    cell.lambda_elements += record->lambda_elements;
    if (record->elements < oracle::least_elements) continue;
    if (record->t > cell.t || all.empty()) cell.worst = to_text(record->problem);
    cell.t = std::max(cell.t, record->t);
    cell.elements += record->elements;
    all.push_back(record->t);
  }
  cell.kernels = static_cast<std::int64_t>(kernels);
  cell.results = std::ssize(all);
  if (all.empty()) return cell;
  std::ranges::sort(all);
  cell.t50 = quantile(all, 0.5);
  cell.t90 = quantile(all, 0.9);
  cell.t99 = quantile(all, 0.99);
  cell.t999 = quantile(all, 0.999);
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
EmulatedKernel kernel_of(const CalibrateOptions& options, const Policy& policy, std::uint64_t number) {
  for (std::uint64_t key = extend(extend(mix(options.seed), calibration_stream), number);; key = mix(key)) {
    EmulatedKernel kernel = options.kernel(policy, key);
    if (oracle::statistical_refusal(kernel.contract).empty()) return kernel;
  }
}

// Every kernel on as many problems with these values.
std::vector<Record> measure_all(const CalibrateOptions& options, const Policy& policy, Values values,
                                std::uint64_t step) {
  const Domain domain = domain_of(policy, values, most_multiply_adds), large = domain_of(policy, values, most_long);
  const std::uint64_t seed = extend(mix(options.seed), step);
  std::vector<Record> records(options.kernels * options.cases);
  on_all_threads(records.size(), options.jobs, [&](std::uint64_t n) {
    const std::uint64_t number = n / options.cases;
    const EmulatedKernel kernel = kernel_of(options, policy, number);
    records[n] = measure(draw_problem(n % 100 == 0 ? large : domain, seed, n, 1), kernel);
    records[n].kernel = number;
  });
  return records;
}

}  // namespace

oracle::Calibration calibrate(const CalibrateOptions& options) {
  Calibration calibration;
  calibration.seed = options.seed;
  const std::size_t steps = options.policies.size() * values_count;
  std::size_t step = 0;
  for (const Policy& policy : options.policies) {
    oracle::PolicyCalibration& calibrated = calibration.policies[to_text(policy)];
    Shares by_kernel, by_keys;
    for (std::size_t values = 0; values < values_count; ++values, ++step) {
      if (options.progress) options.progress(to_text(policy), step, steps);
      const std::vector<Record> records = measure_all(options, policy, static_cast<Values>(values), step);
      std::map<std::string, std::vector<const Record*>> classes;
      for (const Record& record : records) classes[oracle::calibration_class(record.problem)].push_back(&record);
      for (const auto& [name, of_class] : classes) {
        const CalibrationCell& cell = calibrated.classes[name] = cell_of(of_class, options.kernels);
        for (const Record* record : of_class) {
          if (record->elements < oracle::least_elements) continue;
          by_kernel.add(record->kernel, record->t > cell.t99);
          by_keys.add(static_cast<std::uint64_t>(std::bit_width(static_cast<std::uint64_t>(record->problem.lk))),
                      record->t > cell.t99);
        }
      }
    }
    calibrated.share = std::max(by_kernel.largest(), by_keys.largest());
  }
  return calibration;
}

}  // namespace attest::engine
