// calibrate: conforming emulated kernels, and from them the thresholds of the statistical tiers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "cli/campaign_option.hpp"
#include "cli/interrupt.hpp"
#include "cli/outputs.hpp"
#include "cli/policy_option.hpp"
#include "cli/settings.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/calibrate.hpp"
#include "report/calibration.hpp"

namespace attest::cli {
namespace {

const std::vector<Option>& calibrate_options() {
  static const std::vector<Option> all{
      {"op", "OP", "attention, layer_norm or mha (attention)"},
      {"policy", "NAME|STAGE=FORMAT,...", "this precision policy alone (all named ones)"},
      {"kernels", "N", "conforming kernels per policy (40)"},
      {"cases", "N", "problems per kernel and class of values (40)"},
      {"seed", "N", "of kernels and problems (1)"},
      {"jobs", "N", "threads (all cores)"},
      {"out", "FILE", "the calibration data, for --calibration; - is stdout"},
  };
  return all;
}

engine::CalibrateOptions read_calibrate_options(const Settings& settings) {
  engine::CalibrateOptions calibrate;
  const ops::Op* asked = asked_op(settings);
  const ops::Op& op = asked != nullptr ? *asked : *ops::all_ops().front();
  if (op.calibrating() == nullptr)
    throw usage_error(fmt::format("{} {}: its results have no statistical tiers, and nothing to calibrate",
                                  settings.origin("op"), op.name()));
  calibrate.op = &op;
  calibrate.kernel = engine::emulated_kernel;
  if (const auto policy = read_policy(settings, op))
    calibrate.policies = {*policy};
  else
    for (const ops::NamedPolicy& named : op.named_policies())
      if (op.calibrating()->refusal(op.grading()->silent(named.policy)).empty())
        calibrate.policies.push_back(named.policy);
  for (const ops::Policy& policy : calibrate.policies)
    if (const std::string_view why = op.calibrating()->refusal(op.grading()->silent(policy)); !why.empty())
      throw usage_error(fmt::format("--policy {}: the statistical tiers do not speak of it: {}", to_text(policy), why));
  calibrate.kernels = settings.integer("kernels", 1, 100'000).value_or(calibrate.kernels);
  calibrate.cases = settings.integer("cases", 1, 100'000).value_or(calibrate.cases);
  calibrate.seed = settings.integer("seed", 0, ~std::uint64_t{0}).value_or(calibrate.seed);
  calibrate.jobs = read_jobs(settings);
  return calibrate;
}

// A live line where stderr is a terminal; else one per policy.
void tell_calibrating(std::size_t distributions, std::string_view what, std::size_t done, std::size_t of) {
  if (progress_is_live())
    std::cerr << fmt::format("\r\033[Kcalibrating {} ({} of {})", what, done + 1, of) << std::flush;
  else if (done % distributions == 0)
    std::cerr << fmt::format("calibrating {}\n", what) << std::flush;
}

// Says aloud which policies an interrupted run leaves out.
std::string missing_text(const oracle::Calibration& calibration, const std::vector<ops::Policy>& policies) {
  std::vector<std::string> missing;
  for (const ops::Policy& policy : policies)
    if (!calibration.policies.contains(to_text(policy))) missing.push_back(to_text(policy));
  return fmt::format("INTERRUPTED: {} of {} policies calibrated; there are no data for {}\n",
                     calibration.policies.size(), policies.size(), fmt::join(missing, " "));
}

int run_calibrate(const Settings& settings) {
  engine::CalibrateOptions calibrate = read_calibrate_options(settings);
  std::unique_ptr<OutputFile> out;
  if (const auto path = settings.text("out"))
    out = std::make_unique<OutputFile>(*path, "--out", OutputFile::Before::what_it_held);
  calibrate.progress = [distributions = calibrate.op->calibrating()->distributions()](
                           std::string_view what, std::size_t done, std::size_t of) {
    tell_calibrating(distributions, what, done, of);
  };
  calibrate.interrupt = end_on_interrupt();
  const oracle::Calibration calibration = engine::calibrate(calibrate);
  if (progress_is_live()) std::cerr << "\r\033[K" << std::flush;
  if (calibration.policies.empty())
    throw internal_error("interrupted before a policy was complete: there are no data, and none were written");
  if (out) write_text(*out, oracle::to_file_text(calibration));
  const bool stdout_taken = out && out->is_stdout();
  if (!stdout_taken) std::cout << report::calibration_text(calibration);
  if (calibration.interrupted) (stdout_taken ? std::cerr : std::cout) << missing_text(calibration, calibrate.policies);
  return 0;
}

}  // namespace

void add_calibrate(CLI::App& app, Run& run) {
  auto* verb =
      app.add_subcommand("calibrate", "thresholds of the statistical tiers, from emulated kernels that conform");
  auto settings = std::make_shared<Settings>();
  settings->declare(*verb, calibrate_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("calibrate");
      return run_calibrate(*settings);
    };
  });
}

}  // namespace attest::cli
