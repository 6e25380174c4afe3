#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

// The parts that reports of kernels and of models share. All throw nlohmann's exceptions for a record that is none.
namespace attest::report {

using Count = std::uint64_t;

// A value as a reader would say it: text as it is, all else as JSON; empty where an object has no such key.
std::string said(const nlohmann::json& value);
std::string said(const nlohmann::json& object, const char* key);
Count count_of(const nlohmann::json& object, std::string_view key);
std::string percent(Count part, Count of);
// Joins up to `most` entries of a list, by `key` where they are objects, with "; " between.
std::string joined(const nlohmann::json& list, std::string_view key, std::size_t most);

// HTML, of text that is escaped here.
std::string code(std::string_view text);
std::string command(std::string_view text);
// A term and what is said of it, which is HTML; nothing where that is empty.
std::string row(std::string_view label, const std::string& html);
// A table may be wider than a phone: it scrolls by itself, by keyboard too.
std::string scrolled(std::string_view label, const std::string& table);
std::string reasons_html(const nlohmann::json& reasons);

// One tensor of a failure: which elements are wrong, and how far all of them are off. `panel`: the part of a tensor of
// four axes that each picture shows; `beside`: the measure of errors.
std::string place_html(const nlohmann::json& place, std::string_view panel, std::string_view beside);
// Sections: counts law by law; regions and fields of the problems drawn.
std::string laws_html(const nlohmann::json& record);
std::string drawn_html(const nlohmann::json& record);
// A whole page; header and sections are HTML. Sections are #defects, #laws, #drawn and #given-up.
std::string page(std::string_view subject, const std::string& header, const std::string& sections);

// Tells whether the record is that of a campaign of a model (report/models.hpp).
bool is_of_model(const nlohmann::json& record);
std::string model_html_page(const nlohmann::json& record);

}  // namespace attest::report
