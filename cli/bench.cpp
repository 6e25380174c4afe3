// bench: how fast a subject answers, and how much of a problem's time that is, beside a built-in kernel.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>
#include <memory>
#include <span>

#include <nlohmann/json.hpp>

#include "cli/campaign_option.hpp"
#include "cli/outputs.hpp"
#include "cli/policy_option.hpp"
#include "cli/settings.hpp"
#include "cli/subject_option.hpp"
#include "cli/verbs.hpp"
#include "core/error.hpp"
#include "engine/measure.hpp"

namespace attest::cli {
namespace {

// Shapes as people's kernels meet them, from a handful of numbers up; without a dtype.
constexpr std::array<std::string_view, 7> attention_sizes{
    "op=attention b=1 hq=1 hkv=1 lq=4 lk=8 d=8 dv=8 values=normal seed=1",
    "op=attention b=2 hq=4 hkv=4 lq=16 lk=16 d=16 dv=16 values=normal seed=1",
    "op=attention b=2 hq=4 hkv=2 lq=17 lk=33 d=16 dv=16 causal=1 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=128 lk=128 d=64 dv=64 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=128 lk=128 d=64 dv=64 causal=1 values=normal seed=1",
    "op=attention b=1 hq=8 hkv=8 lq=512 lk=512 d=64 dv=64 values=normal seed=1",
    "op=attention b=1 hq=16 hkv=16 lq=1 lk=4096 d=128 dv=128 values=normal seed=1"};
constexpr std::array<std::string_view, 4> layer_norm_sizes{
    "op=layer_norm rows=1 hidden=16 values=normal seed=1", "op=layer_norm rows=16 hidden=64 values=normal seed=1",
    "op=layer_norm rows=128 hidden=768 values=normal seed=1", "op=layer_norm rows=64 hidden=4096 values=normal seed=1"};
constexpr std::array<std::string_view, 3> mha_sizes{
    "op=mha b=1 l=4 m=4 e=16 heads=2 kv_heads=2 head_dim=8 self=1 weights=dense seed=1",
    "op=mha b=1 l=16 m=16 e=64 heads=4 kv_heads=4 head_dim=16 self=1 weights=dense seed=1",
    "op=mha b=2 l=64 m=64 e=256 heads=4 kv_heads=4 head_dim=64 self=1 weights=dense seed=1"};

std::span<const std::string_view> usual_sizes(const ops::Op& op) {
  if (op.name() == "layer_norm") return layer_norm_sizes;
  if (op.name() == "mha") return mha_sizes;
  if (op.name() == "attention") return attention_sizes;
  return {};
}

// The kernel beside which subjects of an operation are measured by default.
std::string usual_peer(const ops::Op& op) {
  return op.name() == "layer_norm" ? "builtin:ln-fused" : op.name() == "mha" ? "builtin:mha-fused" : "builtin:fused";
}

std::vector<Option> bench_options() {
  std::vector<Option> all{policy_option(),
                          {"op", "OP", "attention, layer_norm or mha (the first that the subject offers)"},
                          {"beside", "SUBJECT", "compared with this one (the operation's built-in fused kernel)"},
                          {"problem", "TEXT", "this one problem instead of the usual sizes"},
                          {"json", "FILE", "one JSON object; - is stdout"}};
  for (const Option& option : subject_options()) all.push_back(option);
  return all;
}

// A multiply-add is two operations; other work is counted as it is.
double per_work(const ops::Op& op) { return op.unit_of_work() == "multiply-adds" ? 2e-9 : 1e-9; }
std::string rate_unit(const ops::Op& op) {
  return op.unit_of_work() == "multiply-adds" ? "GFLOP/s" : fmt::format("10^9 {}/s", op.unit_of_work());
}

std::string said(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
         : seconds < 1  ? fmt::format("{:.2f} ms", seconds * 1e3)
                        : fmt::format("{:.2f} s", seconds);
}

std::string text_of(const std::vector<engine::Measured>& all, const ops::Op& op, const std::string& subject,
                    const std::string& beside) {
  std::string text =
      fmt::format("{} compared with {}, one job\n\n  {:>10} {:>10} {:>10} {:>20} {:>9} {:>11} {:>9}  problem\n",
                  subject, beside, "median", "p90", "p99", rate_unit(op), "times", "problems/s", "times");
  for (const engine::Measured& at : all) {
    const std::string problem = engine::to_text(at.problem);
    if (!at.skipped.empty()) {
      text += fmt::format("  left out: {}  {}\n", at.skipped, problem);
      continue;
    }
    const auto times = [&](double engine::Cost::*cost) {
      return at.beside ? fmt::format("{:.2f}", (*at.beside).*cost / at.subject.*cost) : std::string("-");
    };
    text += fmt::format("  {:>10} {:>10} {:>10} {:>20.3g} {:>9} {:>11.0f} {:>9}  {}{}\n", said(at.subject.call),
                        said(at.subject.call_p90), said(at.subject.call_p99),
                        static_cast<double>(at.work) * per_work(op) / at.subject.call, times(&engine::Cost::call),
                        1 / at.subject.problem, times(&engine::Cost::problem), problem,
                        at.held == false ? "  (outside its bound)" : "");
  }
  return text +
         fmt::format(
             "\nmedian, p90, p99: percentiles of the time of one call. problems/s: values, one\ncall and the verdict. "
             "times: the median of {}\nover that of the subject; above 1 the subject is faster.\n",
             beside);
}

nlohmann::ordered_json json_of(const engine::Cost& cost) {
  return {{"call_seconds", cost.call},
          {"call_p90_seconds", cost.call_p90},
          {"call_p99_seconds", cost.call_p99},
          {"problem_seconds", cost.problem},
          {"repeats", cost.repeats}};
}

nlohmann::ordered_json json_of(const std::vector<engine::Measured>& all, const ops::Op& op, const std::string& subject,
                               const std::string& beside) {
  auto sizes = nlohmann::ordered_json::array();
  for (const engine::Measured& at : all) {
    nlohmann::ordered_json size{{"problem", engine::to_text(at.problem)}, {"work", at.work}};
    if (!at.skipped.empty()) {
      size["skipped"] = at.skipped;
    } else {
      size["subject"] = json_of(at.subject);
      if (at.beside) size["beside"] = json_of(*at.beside);
      if (at.held) size["held"] = *at.held;
    }
    sizes.push_back(std::move(size));
  }
  return {{"format", 1},      {"verb", "bench"}, {"subject", subject},
          {"beside", beside}, {"op", op.name()}, {"unit_of_work", op.unit_of_work()},
          {"sizes", sizes}};
}

int run_bench(const Settings& settings, const std::string& text) {
  std::optional<OutputFile> json;
  if (const auto path = settings.text("json")) json.emplace(*path, "--json");
  engine::MeasureOptions options;
  options.op = asked_op(settings);
  const auto subject = open_subject(settings, text);
  if (options.op == nullptr) options.op = &ops::first_op(subject->info());
  const ops::Op& op = *options.op;
  if (!op.offered(subject->info())) throw usage_error(fmt::format("{} does not offer {}", text, op.name()));
  options.policy = read_policy(settings, op);
  const Format dtype = options.policy ? op.storage(*options.policy) : op.dtypes(subject->info()).front();
  if (const auto problem = settings.text("problem"))
    options.problems.push_back(*problem);
  else
    for (const std::string_view size : usual_sizes(op))
      options.problems.push_back(fmt::format("{} dtype={}", size, format_names[static_cast<std::size_t>(dtype)]));
  const std::string beside_text = settings.text("beside").value_or(usual_peer(op));
  const auto beside = open_subject(settings, beside_text);

  const std::vector<engine::Measured> all = engine::measure(*subject, *beside, options);
  if (json) write_json(*json, json_of(all, op, text, beside_text));
  if (!json || !json->is_stdout()) std::cout << text_of(all, op, text, beside_text);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  auto* verb = app.add_subcommand("bench", "how fast a subject answers, compared with a built-in kernel");
  auto settings = std::make_shared<Settings>();
  auto subject = std::make_shared<std::string>();
  verb->add_option("SUBJECT", *subject, subject_help())->type_name("")->required();
  settings->declare(*verb, bench_options());
  verb->callback([=, &run] {
    run = [=] {
      settings->complete("bench");
      return run_bench(*settings, *subject);
    };
  });
}

}  // namespace attest::cli
