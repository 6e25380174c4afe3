#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
// The key of a bucket, in small: people read the headline.
std::string key_html(std::string_view key);
// A term and what is said of it, which is HTML; nothing where that is empty.
std::string row(std::string_view label, const std::string& html);
// A row for each waiver of a defect.
std::string waiver_rows(const nlohmann::json& defect);
// A table may be wider than a phone: it scrolls by itself, by keyboard too.
std::string scrolled(std::string_view label, const std::string& table);
std::string reasons_html(const nlohmann::json& reasons);

// One tensor of a failure: which elements are wrong, and how far all of them are off. `panel`: the part of a tensor of
// four axes that each picture shows; `beside`: the measure of errors.
std::string place_html(const nlohmann::json& place, std::string_view panel, std::string_view beside);
// The sentence of a law, from the one table of its operation's laws or of models'; its name where it is in none.
std::string law_sentence(const std::string& law, bool of_model);
// "b 1 to 64, lq 0 to 4,096": the sizes that were drawn; empty where they are not on record.
std::string sizes_drawn(const nlohmann::json& record);
// happened() of a kernel's finding, with its reason where there are no numbers: "a crash: the worker was killed by
// SIGFPE".
std::string happened(const nlohmann::json& finding);
// "out[0,0,0,1] = 2, expected 1, permitted 0.9 .. 1.1 (9 x the permitted distance)" of a finding or a warning; else
// empty.
std::string witness_text(const nlohmann::json& finding);
// A finding of either record in one line: what happened and its witness, else its reason, else its bucket.
std::string finding_line(const nlohmann::json& finding);
// The contents of a page: a link to each of its defects, by headlines, which are HTML, and numbers of failures. Empty
// for fewer than two.
struct Headline {
  std::string html, count;
};
std::string contents_html(const std::vector<Headline>& defects);
// The section of a campaign in which nothing failed: what was judged, and what was not.
std::string held_html(const nlohmann::json& record);
// Facts about the run: who, when, on which machine, by which command and versions (cli/provenance.hpp). `further`: more
// rows.
std::string run_html(const nlohmann::json& record, const std::string& further);
// Sections: counts law by law; regions and fields of the problems drawn.
std::string laws_html(const nlohmann::json& record);
std::string drawn_html(const nlohmann::json& record);
// A whole page; header and sections are HTML. Sections are #defects, #laws, #drawn and #given-up.
std::string page(std::string_view subject, const std::string& header, const std::string& sections);

// Tells whether the record is that of a campaign of a model (report/models.hpp).
bool is_of_model(const nlohmann::json& record);
std::string model_html_page(const nlohmann::json& record);

}  // namespace attest::report
