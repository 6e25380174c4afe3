#include "oracle/calibration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "core/distribution.hpp"
#include "core/error.hpp"
#include "core/field.hpp"
#include "core/json_text.hpp"
#include "oracle/oracle.hpp"

namespace attest::oracle {

// oracle/calibration.json, made by the build.
extern const std::string_view shipped_calibration_text;

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int format_version = 1;
// Room above the largest that was seen.
constexpr double t_margin = 1.3, lambda_margin = 1.2, share_margin = 2;
constexpr std::int64_t least_results = 100;  // fewer say nothing of how large T may be
constexpr double least_limit = 1;            // of T: errors as large as s says of itself are no objection
constexpr double least_share = 0.25;         // however rare it is among conforming kernels

void set_lambda(Thresholds& thresholds, const CalibrationCell& cell) {
  const double lambda = lambda_margin * cell.lambda;
  thresholds.warn = std::max(thresholds.warn, lambda);
  thresholds.fail = std::max(thresholds.fail, lambda);
  thresholds.cell = &cell;
}

// The numbers of a cell in the order in which they are written.
template <class Cell, class Visit>
void each_number(Cell& cell, Visit&& visit) {
  visit("kernels", cell.kernels);
  visit("results", cell.results);
  visit("elements", cell.elements);
  visit("lambda", cell.lambda);
  visit("lambda_elements", cell.lambda_elements);
  visit("t50", cell.t50);
  visit("t90", cell.t90);
  visit("t99", cell.t99);
  visit("t999", cell.t999);
  visit("t", cell.t);
}

template <class Number>
void read_number(const json& object, const char* name, const std::string& where, Number& value) {
  const auto found = object.find(name);
  const bool fits =
      found != object.end() && (std::is_integral_v<Number> ? found->is_number_integer() : found->is_number());
  if (!fits) throw usage_error(where + " has no number '" + name + "': write the file anew with `attest calibrate`");
  value = found->get<Number>();
  if (!(value >= 0))
    throw usage_error(where + ": " + name + " is negative: write the file anew with `attest calibrate`");
}

CalibrationCell cell_from_json(const json& object, const std::string& where) {
  if (!object.is_object()) throw usage_error(where + " must be an object");
  CalibrationCell cell;
  each_number(cell, [&](const char* name, auto& value) { read_number(object, name, where, value); });
  if (const auto worst = object.find("worst"); worst != object.end() && worst->is_string())
    cell.worst = worst->get<std::string>();
  return cell;
}

Index judged_row_count(const Problem& p) {
  const Index rows = p.b * p.hq * p.lq;
  return p.rows > 0 ? std::min(p.rows, rows) : rows;
}

}  // namespace

std::optional<double> largest_t(const CalibrationCell& cell) {
  if (cell.results < least_results) return std::nullopt;
  return std::max(least_limit, t_margin * cell.t);
}

double largest_t(double t, const Statistics& statistics) {
  constexpr double once_in_10_6 = 4.753;  // standard deviations
  const double part = 2 / (9 * std::max(1.0, std::min(statistics.errors, static_cast<double>(statistics.elements))));
  const double most = std::max(t, std::pow(1 - part + once_in_10_6 * std::sqrt(part), 1.5));
  const double alike = statistics.alike / static_cast<double>(statistics.elements);
  return std::sqrt((1 - alike) * most * most + alike * std::max(6.0, most * most));
}

namespace {

bool same_everywhere(Form form) { return form == Form::zero || form == Form::one; }
// Whether q and k are so small that no two weights of a row differ by a sixteenth of a rounding of out, a bias left aside. Of tiny_scores
// all are, and what kernels then give is measured: they are a class of their own.
bool scores_vanish(const Problem& p) {
  if (p.values == Values::file || p.values == Values::tiny_scores || p.q_form != Form::drawn ||
      p.k_form != Form::drawn || !p.edits.empty())
    return false;
  const double q = largest_magnitude(distribution_of(p, Edit::Tensor::q)),
               k = largest_magnitude(distribution_of(p, Edit::Tensor::k));
  return 2 * std::fabs(p.effective_scale()) * static_cast<double>(p.d) * q * k <= unit_roundoff(p.dtype) / 16;
}
// Whether the keys of a row have one score, but for a bias.
bool keys_alike(const Problem& p) {
  return p.effective_scale() == 0 || p.q_form == Form::zero || same_everywhere(p.k_form) ||
         p.k_layout == Layout::broadcast_rows || scores_vanish(p);
}
bool weights_alike(const Problem& p) { return keys_alike(p) && p.bias == Bias::none; }

}  // namespace

Index distinct_rows(const Problem& p) {
  const bool of_scores = !keys_alike(p), q = of_scores && !same_everywhere(p.q_form);
  // A mask, or a bias that is one, does not count: which keys it leaves have the scores that they have in the other rows, with the same
  // errors. ALiBi is of heads: its distances repeat from query to query. A bias that all keys share moves no weight.
  const auto has_axis = [&p](Index axis) { return (p.bias_axes & (Index{1} << axis)) != 0; };
  const bool moves_weights = p.bias != Bias::none && p.bias != Bias::zero && !closes_keys(p.bias) && has_axis(3);
  const auto of_bias = [&](Index axis) {
    return moves_weights && has_axis(axis) && (p.bias != Bias::alibi || axis == 1);
  };
  const bool by_batch = (q && p.q_layout != Layout::broadcast_batch) ||
                        (of_scores && p.k_layout != Layout::broadcast_batch) || of_bias(0);
  const bool by_head = (q && p.q_layout != Layout::broadcast_heads) || of_bias(1);
  const bool by_kv_head = of_scores && p.k_layout != Layout::broadcast_heads;
  const bool by_query = (q && p.q_layout != Layout::broadcast_rows) || of_bias(2);
  const Index rows = (by_batch ? p.b : 1) * (by_head ? p.hq : by_kv_head ? p.hkv : 1) * (by_query ? p.lq : 1);
  return std::min(rows, judged_row_count(p));
}

std::string calibration_class(const Problem& p) {
  const Index rows = distinct_rows(p);
  return std::string(field_of<&Problem::values>().labels[static_cast<std::size_t>(p.values)]) + (rows < 4    ? "+rows1"
                                                                                                 : rows < 32 ? "+rows4"
                                                                                                             : "");
}

bool outputs_alike_by_form(const Problem& p) {
  constexpr Index few_columns = 4, few_weights = 64;
  return p.dv < few_columns || distinct_rows(p) * p.lk < few_weights || weights_alike(p) || p.v_form == Form::one ||
         p.v_form == Form::zero || p.v_layout == Layout::broadcast_rows || !p.edits.empty();
}

bool outputs_alike(const Problem& p) { return p.values == Values::constant || outputs_alike_by_form(p); }

Thresholds Calibration::thresholds(const Policy& policy, const Problem& problem) const {
  // Problem after problem has one policy.
  thread_local std::optional<std::pair<Policy, std::string>> last;
  if (!last || last->first != policy) last.emplace(policy, to_text(policy));
  return thresholds_of(last->second, calibration_class(problem));
}

Thresholds Calibration::thresholds_of(std::string_view policy, std::string_view calibrated_class) const {
  Thresholds thresholds;
  const auto of_policy = policies.find(policy);
  if (of_policy == policies.end()) return thresholds;
  const auto found = of_policy->second.classes.find(std::string(calibrated_class));
  if (found == of_policy->second.classes.end()) return thresholds;
  set_lambda(thresholds, found->second);
  thresholds.t = largest_t(found->second);
  thresholds.share = std::max(least_share, share_margin * of_policy->second.share);
  return thresholds;
}

Thresholds Calibration::thresholds_of_any_class(const Policy& policy) const {
  Thresholds thresholds;
  const auto of_policy = policies.find(to_text(policy));
  if (of_policy == policies.end() || of_policy->second.classes.empty()) return thresholds;
  set_lambda(thresholds, std::ranges::max_element(of_policy->second.classes, {}, [](const auto& entry) {
                           return entry.second.lambda;
                         })->second);
  return thresholds;
}

ordered_json to_json(const Calibration& calibration) {
  ordered_json object;
  object["format"] = format_version;
  if (!calibration.op.empty()) object["op"] = calibration.op;
  object["seed"] = calibration.seed;
  if (calibration.interrupted) object["interrupted"] = true;
  ordered_json& policies = object["policies"] = ordered_json::object();
  for (const auto& [name, policy] : calibration.policies) {
    policies[name]["share"] = policy.share;
    for (const auto& [values, cell] : policy.classes) {
      ordered_json& written = policies[name]["classes"][values] = ordered_json::object();
      each_number(cell, [&](const char* key, auto value) { written[key] = value; });
      written["worst"] = cell.worst;
    }
  }
  return object;
}

std::string to_file_text(const Calibration& calibration) {
  const ordered_json object = to_json(calibration);
  std::string text = "{\n\"format\": " + json_text(object["format"]) +
                     (calibration.op.empty() ? "" : ",\n\"op\": " + json_text(object["op"])) +
                     ",\n\"seed\": " + json_text(object["seed"]) +
                     (calibration.interrupted ? ",\n\"interrupted\": true" : "") + ",\n\"policies\": {";
  std::string between_policies = "\n";
  for (const auto& [name, policy] : object["policies"].items()) {
    text +=
        between_policies + json_text(json(name)) + ": {\"share\": " + json_text(policy["share"]) + ", \"classes\": {";
    between_policies = ",\n";
    std::string between = "\n";
    if (policy.contains("classes"))
      for (const auto& [values, cell] : policy["classes"].items()) {
        text += between + json_text(json(values)) + ": " + json_text(cell);
        between = ",\n";
      }
    text += "}}";
  }
  return text + "}\n}\n";
}

Calibration calibration_from_text(std::string_view text, std::string_view origin) {
  return calibration_from_text(text, origin, [](std::string_view op, std::string_view name) {
    if (!op.empty()) throw usage_error("it is of another operation, " + std::string(op));
    return to_text(policy_from_text(name));
  });
}

Calibration calibration_from_text(std::string_view text, std::string_view origin,
                                  std::string (*policy_name)(std::string_view op, std::string_view policy)) {
  const std::string file(origin);
  const json object = parse_json_or_discard(text);
  if (!object.is_object()) throw usage_error(file + " is no JSON object: `attest calibrate --out FILE` writes one");
  const auto version = object.find("format");
  if (version == object.end() || *version != format_version)
    throw usage_error(file + " is no calibration of format " + std::to_string(format_version) +
                      ": write it anew with `attest calibrate`");
  const auto policies = object.find("policies");
  if (policies == object.end() || !policies->is_object())
    throw usage_error(file + " has no object 'policies': write it anew with `attest calibrate`");
  Calibration calibration;
  if (const auto op = object.find("op"); op != object.end()) {
    if (!op->is_string()) throw usage_error(file + ": 'op' must be the name of an operation");
    calibration.op = op->get<std::string>();
  }
  if (const auto seed = object.find("seed"); seed != object.end() && seed->is_number_unsigned())
    calibration.seed = seed->get<std::uint64_t>();
  if (const auto interrupted = object.find("interrupted"); interrupted != object.end())
    calibration.interrupted = *interrupted == true;
  for (const auto& [text_of_policy, written] : policies->items()) {
    const std::string where = file + ": policy " + text_of_policy;
    std::string name;
    try {
      name = policy_name(calibration.op, text_of_policy);
    } catch (const Error& error) {
      throw usage_error(file + ": " + error.what());
    }
    const auto classes = written.is_object() ? written.find("classes") : written.end();
    if (!written.is_object() || classes == written.end() || !classes->is_object())
      throw usage_error(where + " has no object 'classes': write the file anew with `attest calibrate`");
    PolicyCalibration& policy = calibration.policies[name];
    read_number(written, "share", where, policy.share);
    for (const auto& [values, cell] : classes->items())
      policy.classes[values] = cell_from_json(cell, where + ", " + values);
  }
  return calibration;
}

const Calibration& shipped_calibration() {
  static const Calibration shipped = calibration_from_text(shipped_calibration_text, "the shipped calibration");
  return shipped;
}

}  // namespace attest::oracle
