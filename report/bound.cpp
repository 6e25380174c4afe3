#include "report/bound.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "report/judge.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Reference;
using engine::Rule;
using engine::Spread;

constexpr double shares[] = {0.5, 0.9, 0.99, 1};
constexpr int digits = 3;

std::vector<double> quantiles(std::vector<double> values) {
  std::vector<double> found;
  for (const double share : shares) found.push_back(engine::quantile(values, share));
  return found;
}

Tolerance tolerance(const Spread& spread, Reference reference, Rule rule, double rtol) {
  Tolerance t;
  t.rtol = rtol;
  t.atol = engine::rounded_up(engine::least_atol(spread, reference, rule, rtol), digits);
  t.blind = engine::blindness(spread, rule, t.atol, rtol);
  return t;
}

double median_difference(const Spread& spread) {
  std::vector<double> relative;
  for (const auto& range : spread.ranges) {
    const double smaller = std::min(std::fabs(range.lo), std::fabs(range.hi));
    if (smaller > 0 && range.hi > range.lo) relative.push_back((range.hi - range.lo) / smaller);
  }
  return std::min(engine::rounded_up(engine::quantile(relative, 0.5), digits), 0.5);
}

std::string share_of(std::int64_t n, std::int64_t all) {
  return fmt::format("{} ({:.3g} %)", grouped(static_cast<std::uint64_t>(n)),
                     all > 0 ? 100 * static_cast<double>(n) / static_cast<double>(all) : 0.0);
}

std::string row(const std::vector<double>& q) {
  return fmt::format("median {:.3g}, 90 % {:.3g}, 99 % {:.3g}, largest {:.3g}", q[0], q[1], q[2], q[3]);
}

std::string row(const Tolerance& t) {
  return fmt::format("atol={:<9} rtol={:<9} lets an element be off by {:.3g} x its radius (median), by {:.3g} x (most)",
                     number(t.atol), number(t.rtol), t.blind.median, t.blind.largest);
}

std::string stage_row(const BoundReport::OfStage& of) {
  const BoundReport& r = of.report;
  const auto bounded = static_cast<std::int64_t>(r.spread.ranges.size());
  std::string text =
      fmt::format("  {:<10} {} elements", of.stage, grouped(static_cast<std::uint64_t>(r.spread.elements)));
  if (bounded < r.spread.elements) text += fmt::format(", {} bounded", grouped(static_cast<std::uint64_t>(bounded)));
  if (bounded == 0) return text + "\n";
  return text + fmt::format(
                    ": two kernels atol={} rtol=0, one against the exact result atol={}; radius median {:.3g}, largest "
                    "{:.3g}\n",
                    number(r.kernels_sum_atol_alone.atol), number(r.exact_sum_atol_alone.atol), r.absolute[0],
                    r.absolute.back());
}

nlohmann::ordered_json to_json(const Tolerance& t) {
  return {{"atol", t.atol}, {"rtol", t.rtol}, {"blind", {{"median", t.blind.median}, {"largest", t.blind.largest}}}};
}

}  // namespace

BoundReport bound_report(Spread spread, std::optional<double> asked, std::vector<engine::StageSpread> stages) {
  BoundReport report;
  for (engine::StageSpread& of : stages) report.stages.push_back({of.stage, bound_report(std::move(of.spread), asked)});
  std::vector<double> absolute, relative;
  for (const auto& range : spread.ranges) {
    absolute.push_back(range.radius());
    if (range.y != 0) relative.push_back(range.radius() / std::fabs(range.y));
  }
  report.absolute = quantiles(std::move(absolute));
  report.relative = quantiles(std::move(relative));
  const double rtol = asked.value_or(median_difference(spread));
  report.kernels_sum = tolerance(spread, Reference::kernel, Rule::sum, rtol);
  report.kernels_sum_atol_alone = tolerance(spread, Reference::kernel, Rule::sum, 0);
  report.kernels_either = tolerance(spread, Reference::kernel, Rule::either, rtol);
  report.exact_sum = tolerance(spread, Reference::exact, Rule::sum, rtol);
  report.exact_sum_atol_alone = tolerance(spread, Reference::exact, Rule::sum, 0);
  report.spread = std::move(spread);
  return report;
}

namespace {

// `of`: the lines that say what the numbers are of.
std::string tolerances_text(const BoundReport& r, std::string of, std::string_view values) {
  const Spread& s = r.spread;
  std::string text = std::move(of);
  text += fmt::format("  elements   {} of out{}: {} undetermined, {} wide, {} may be NaN or infinite\n",
                      grouped(static_cast<std::uint64_t>(s.elements)), s.all ? "" : " (of the judged rows)",
                      share_of(s.undetermined, s.elements), share_of(s.wide, s.elements),
                      share_of(s.nonfinite, s.elements));
  if (s.ranges.empty()) return text + "  nothing is bounded here: no tolerance is safe, and any is blind\n";
  text += "  radius     " + row(r.absolute) + "\n  of |y|     " + row(r.relative) + "\n";
  text +=
      "\ntwo correct kernels against each other, whichever is the reference: both round, so the tolerance holds both\n";
  text += "  " + row(r.kernels_sum_atol_alone) + "\n  " + row(r.kernels_sum) + "\n";
  text += fmt::format("    torch.testing.assert_close(got, expected, atol={}, rtol={})\n", number(r.kernels_sum.atol),
                      number(r.kernels_sum.rtol));
  text += fmt::format("    numpy.testing.assert_allclose(got, expected, atol={}, rtol={})\n",
                      number(r.kernels_sum.atol), number(r.kernels_sum.rtol));
  text += "  " + row(r.kernels_either) + "\n";
  text += fmt::format(
      "    polygraphy run ... --atol {} --rtol {}      (it passes an element that keeps either of the two)\n",
      number(r.kernels_either.atol), number(r.kernels_either.rtol));
  text += "\none correct kernel against the exact result (float64) as `expected`\n";
  text += "  " + row(r.exact_sum_atol_alone) + "\n  " + row(r.exact_sum) + "\n\n";
  if (!r.stages.empty()) {
    text += "the same of stages on the way, each whatever the others are\n";
    for (const BoundReport::OfStage& of : r.stages) text += stage_row(of);
    text += "\n";
  }
  if (s.unsafe > 0)
    text += fmt::format("of {} elements no tolerance is safe: a correct kernel may return anything, or NaN, there\n",
                        grouped(static_cast<std::uint64_t>(s.unsafe)));
  text += fmt::format("these numbers are for {} alone; a fault that stays below them passes\n", values);
  return text;
}

nlohmann::ordered_json tolerances_json(const BoundReport& r, const nlohmann::ordered_json& of,
                                       const ops::Contract& contract) {
  const auto named = [](const std::vector<double>& q) {
    return nlohmann::ordered_json{{"median", q[0]}, {"p90", q[1]}, {"p99", q[2]}, {"largest", q[3]}};
  };
  nlohmann::ordered_json object;
  object["format"] = 1;
  object["verb"] = "bound";
  object.update(of);
  object["policy"] = to_text(policy_of(contract));
  object["contract"] = ops::to_json(contract);
  object["elements"] = r.spread.elements;
  object["undetermined"] = r.spread.undetermined;
  object["wide"] = r.spread.wide;
  object["nonfinite"] = r.spread.nonfinite;
  object["radius"] = named(r.absolute);
  object["relative_radius"] = named(r.relative);
  object["two_kernels"] = {{"sum", to_json(r.kernels_sum)},
                           {"sum_atol_alone", to_json(r.kernels_sum_atol_alone)},
                           {"either", to_json(r.kernels_either)}};
  object["exact_reference"] = {{"sum", to_json(r.exact_sum)}, {"sum_atol_alone", to_json(r.exact_sum_atol_alone)}};
  for (const BoundReport::OfStage& stage : r.stages)
    object["stages"].push_back({{"stage", stage.stage},
                                {"elements", stage.report.spread.elements},
                                {"undetermined", stage.report.spread.undetermined},
                                {"radius", named(stage.report.absolute)},
                                {"two_kernels", to_json(stage.report.kernels_sum_atol_alone)},
                                {"exact_reference", to_json(stage.report.exact_sum_atol_alone)}});
  return object;
}

}  // namespace

std::string bound_text(const BoundReport& r, const ops::Problem& problem, const ops::Contract& contract) {
  return tolerances_text(
      r, fmt::format("  problem    {}\n  policy     {}\n", to_text(problem), to_text(policy_of(contract))),
      "the values of this problem");
}
std::string bound_text(const BoundReport& r, const ops::SavedCall& call, const ops::Contract& contract) {
  return tolerances_text(r, call_text(call, contract), "the values that were saved");
}
nlohmann::ordered_json bound_json(const BoundReport& r, const ops::Problem& problem, const ops::Contract& contract) {
  return tolerances_json(r, {{"problem", to_text(problem)}}, contract);
}
nlohmann::ordered_json bound_json(const BoundReport& r, const ops::SavedCall& call, const ops::Contract& contract) {
  nlohmann::ordered_json of = call_json(call);
  of["notes"] = call.notes;
  return tolerances_json(r, of, contract);
}

}  // namespace attest::report
