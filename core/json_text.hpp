#pragma once
#include <limits>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

// JSON from text and to text. nlohmann's parser and writer are templates that take a compiler seconds: they are
// compiled once, here, and called from everywhere else.
namespace attest {

// Returns the value of `text`. Leaves out values nested deeper than `deepest` levels, and sets `deeper`. Throws
// nlohmann's parse_error, which knows the byte, and out_of_range for a number that no double can hold.
nlohmann::json parse_json(std::string_view text, int deepest = std::numeric_limits<int>::max(), bool* deeper = nullptr);
// The same with the order of keys kept.
nlohmann::ordered_json parse_ordered_json(std::string_view text);
// The same as parse_json(); a value that is_discarded() where `text` is no JSON.
nlohmann::json parse_json_or_discard(std::string_view text, int deepest = std::numeric_limits<int>::max());

// On one line, or indented by `indent` blanks a level. Bytes that are no UTF-8 come out as U+FFFD.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace attest
