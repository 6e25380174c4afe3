#include "core/json_text.hpp"

#include <nlohmann/json.hpp>

namespace attest {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json parse_shallow(std::string_view text, int deepest, bool* deeper, bool throws) {
  const json::parser_callback_t shallow = [&](int depth, json::parse_event_t, const json&) {
    if (depth > deepest && deeper != nullptr) *deeper = true;
    return depth <= deepest;
  };
  return json::parse(text, shallow, throws);
}

}  // namespace

json parse_json(std::string_view text, int deepest, bool* deeper) { return parse_shallow(text, deepest, deeper, true); }
json parse_json_or_discard(std::string_view text, int deepest) { return parse_shallow(text, deepest, nullptr, false); }
ordered_json parse_ordered_json(std::string_view text) { return ordered_json::parse(text); }

std::string json_text(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}
std::string json_text(const ordered_json& value, int indent) {
  return value.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace attest
