#include "engine/calibrate.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "engine/threads.hpp"

namespace attest::engine {
namespace {

using oracle::Calibration;
using oracle::CalibrationCell;

constexpr std::uint64_t calibration_stream = 0x63616C;  // keeps the kernels apart from the problems

// One kernel on one problem.
struct Measured {
  Problem problem;
  std::uint64_t kernel = 0;
  double t = 0, lambda = 0;
  Index elements = 0, lambda_elements = 0;
  std::optional<double> slow_t;  // once it was asked

  [[nodiscard]] bool has_t() const { return elements >= oracle::least_elements; }
  // The T that counts, or what it cannot exceed.
  [[nodiscard]] double smaller_t() const { return slow_t ? std::min(t, *slow_t) : t; }
};

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
EmulatedKernel kernel_of(const CalibrateOptions& options, const Policy& policy, std::uint64_t number) {
  for (std::uint64_t key = extend(extend(mix(options.seed), calibration_stream), number);; key = mix(key)) {
    EmulatedKernel kernel = options.kernel(policy, key);
    if (options.op->calibrating()->refusal(kernel.contract).empty()) return kernel;
  }
}

// Every kernel on as many problems of this distribution. `step` counts distributions over all policies.
std::vector<Measured> measure_all(const CalibrateOptions& options, const Policy& policy,
                                  const std::vector<EmulatedKernel>& kernels, std::size_t distribution,
                                  std::uint64_t step) {
  const ops::Calibrating& op = *options.op->calibrating();
  const auto problem_of = op.problems(policy, distribution, extend(mix(options.seed), step));
  if (!problem_of) return {};
  std::vector<Measured> records(kernels.size() * options.cases);
  const auto measure_one = [&](std::uint64_t n) {
    const std::uint64_t number = n / options.cases;
    Measured& record = records[n];
    record.problem = problem_of(n);
    record.kernel = number;
    const EmulatedCall call = kernels[number].on(record.problem);
    const auto seen = op.measure(record.problem, call.contract, call.run);
    record.t = seen.t;
    record.lambda = seen.lambda;
    record.elements = seen.elements;
    record.lambda_elements = seen.lambda_elements;
  };
  on_all_threads(records.size(), options.jobs, measure_one, options.interrupt);
  return records;
}

// nullopt if it was interrupted before all of it was measured.
std::optional<oracle::PolicyCalibration> calibrate_policy(const CalibrateOptions& options, const Policy& policy,
                                                          std::size_t step) {
  const ops::Calibrating& op = *options.op->calibrating();
  oracle::PolicyCalibration calibrated;
  std::vector<EmulatedKernel> kernels;
  for (std::uint64_t number = 0; number < options.kernels; ++number)
    kernels.push_back(kernel_of(options, policy, number));
  Shares by_kernel, by_kin;
  const Look slow_t = [&](const Measured& record) {
    const EmulatedCall call = kernels[record.kernel].on(record.problem);
    return op.slow_t(record.problem, call.contract, call.run);
  };
  const std::size_t distributions = op.distributions();
  for (std::size_t n = 0; n < distributions; ++n, ++step) {
    if (options.progress) options.progress(to_text(policy), step, options.policies.size() * distributions);
    std::vector<Measured> records = measure_all(options, policy, kernels, n, step);
    if (is_set(options.interrupt)) return std::nullopt;
    std::map<std::string, std::vector<Measured*>> classes;
    for (Measured& record : records) classes[op.class_of(record.problem)].push_back(&record);
    for (const auto& [name, of_class] : classes) {
      const CalibrationCell& cell = calibrated.classes[name] = cell_of(of_class, kernels.size(), slow_t, options.jobs);
      for (const Measured* record : of_class) {
        if (!record->has_t()) continue;
        const bool above = record->smaller_t() > cell.t99;
        by_kernel.add(record->kernel, above);
        by_kin.add(op.kin(record->problem), above);
      }
    }
  }
  calibrated.share = std::max(by_kernel.largest(), by_kin.largest());
  return calibrated;
}

}  // namespace

oracle::Calibration calibrate(const CalibrateOptions& options) {
  if (options.op == nullptr || options.op->calibrating() == nullptr)
    throw internal_error("calibrate: an operation without statistical tiers was asked for");
  Calibration calibration;
  if (options.op != ops::all_ops().front()) calibration.op = options.op->name();
  calibration.seed = options.seed;
  std::size_t step = 0;
  for (const Policy& policy : options.policies) {
    std::optional<oracle::PolicyCalibration> calibrated = calibrate_policy(options, policy, step);
    if (!calibrated) {
      calibration.interrupted = true;
      break;
    }
    calibration.policies[to_text(policy)] = std::move(*calibrated);
    step += options.op->calibrating()->distributions();
  }
  return calibration;
}

}  // namespace attest::engine
