#include "engine/evidence.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.hpp"

namespace attest::engine {

using nlohmann::json;
using nlohmann::ordered_json;

ordered_json real_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

double real_from_json(const json& value, std::string_view name) {
  if (value.is_number()) return value.get<double>();
  if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  throw usage_error(std::string(name) + " must be a number or one of \"nan\", \"inf\", \"-inf\"");
}

namespace {

ordered_json side_to_json(const Side& side) {
  return {{"got", real_to_json(side.got)}, {"exact", real_to_json(side.exact)}, {"lo", real_to_json(side.lo)},
          {"hi", real_to_json(side.hi)},   {"ratio", real_to_json(side.ratio)}, {"outside", side.outside}};
}

std::vector<Side> sides_from_json(const json& list) {
  const auto refuse = [] { return usage_error("sides of a witness must be two objects, A's and B's"); };
  if (!list.is_array() || list.size() != 2) throw refuse();
  std::vector<Side> sides;
  for (const json& object : list) {
    if (!object.is_object()) throw refuse();
    const auto real = [&](const char* key) { return real_from_json(object.value(key, json()), key); };
    const json outside = object.value("outside", json());
    if (!outside.is_boolean()) throw refuse();
    sides.push_back({real("got"), real("exact"), real("lo"), real("hi"), real("ratio"), outside.get<bool>()});
  }
  return sides;
}

}  // namespace

ordered_json to_json(const Evidence& evidence) {
  ordered_json object;
  object["tensor"] = evidence.tensor;
  object["index"] = evidence.index;
  object["got"] = real_to_json(evidence.got);
  object["expected"] = real_to_json(evidence.expected);
  object["lo"] = real_to_json(evidence.lo);
  object["hi"] = real_to_json(evidence.hi);
  object["ratio"] = real_to_json(evidence.ratio);
  object["wrong"] = name(evidence.wrong);
  if (!evidence.note.empty()) object["note"] = evidence.note;
  if (evidence.as_probed) object["as_probed"] = true;
  for (const Side& side : evidence.sides) object["sides"].push_back(side_to_json(side));
  return object;
}

Evidence evidence_from_json(const json& object) {
  if (!object.is_object()) throw usage_error("a witness must be an object");
  Evidence evidence;
  for (const auto& [key, value] : object.items()) {
    if (key == "tensor" && value.is_string()) {
      evidence.tensor = value.get<std::string>();
    } else if (key == "note" && value.is_string()) {
      evidence.note = value.get<std::string>();
    } else if (key == "index" && value.is_array() && value.size() == 4) {
      for (std::size_t axis = 0; axis < 4; ++axis) {
        if (!value[axis].is_number_integer()) throw usage_error("index of a witness must hold four integers");
        evidence.index[axis] = value[axis].get<std::int64_t>();
      }
    } else if (key == "wrong" && value.is_string()) {
      bool known = false;
      for (const Wrong wrong : {Wrong::none, Wrong::finite, Wrong::nan, Wrong::infinity, Wrong::memory})
        if (value == name(wrong)) {
          evidence.wrong = wrong;
          known = true;
        }
      if (!known) throw usage_error("wrong of a witness is no class of value that this version knows");
    } else if (key == "as_probed" && value.is_boolean()) {
      evidence.as_probed = value.get<bool>();
    } else if (key == "sides") {
      evidence.sides = sides_from_json(value);
    } else if (key == "got") {
      evidence.got = real_from_json(value, key);
    } else if (key == "expected") {
      evidence.expected = real_from_json(value, key);
    } else if (key == "lo") {
      evidence.lo = real_from_json(value, key);
    } else if (key == "hi") {
      evidence.hi = real_from_json(value, key);
    } else if (key == "ratio") {
      evidence.ratio = real_from_json(value, key);
    } else {
      throw usage_error("'" + key + "' of a witness is unknown or of the wrong type");
    }
  }
  return evidence;
}

std::optional<VerdictKind> verdict_kind_from_name(std::string_view text) noexcept {
  using enum VerdictKind;
  for (const VerdictKind kind : {pass, warn, fail, error, crash, timeout, poisoned, flaky, skip, vacuous})
    if (name(kind) == text) return kind;
  return std::nullopt;
}

}  // namespace attest::engine
