#include "report/explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Explanation;
using engine::Fit;
using engine::Hypothesis;
using engine::WrongPlace;
using Match = Hypothesis::Match;
using Kind = ops::Departure::Kind;

constexpr std::size_t most_named = 4, most_fits = 5, most_changes = 6;

std::string line(std::string_view label, const std::string& text) {
  return text.empty() ? std::string() : fmt::format("  {:<11}{}\n", label, printable(text));
}

// The first few, and how many more there are.
std::string few(const std::vector<std::string>& words, std::size_t most, std::string_view between = ", ") {
  const std::size_t told = std::min(most, words.size());
  std::string text =
      fmt::format("{}", fmt::join(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(told), between));
  if (words.size() > told) text += fmt::format("{}and {} more", between, words.size() - told);
  return text;
}

// Empty where there is nothing to say.
std::string of_place(const WrongPlace& place) {
  if (place.words.empty() && place.relation.empty()) return {};
  const std::string_view between = place.words.empty() || place.relation.empty() ? "" : "; ";
  return fmt::format("{}: {}{}{}", place.tensor, place.words, between, place.relation);
}

std::string_view words_of(Match match) {
  switch (match) {
    case Match::same:
      return "the same numbers, bit for bit";
    case Match::near:
      return "its numbers within the rounding left open";
    case Match::partly:
      return "in part";
  }
  return "";
}

std::string of_hypothesis(const Hypothesis& h) {
  const std::string share = h.match == Match::partly ? fmt::format(" ({:.0f} % of the distance)", 100 * h.share) : "";
  return fmt::format("{} ({}{}): {}", h.name, words_of(h.match), share, h.doc);
}

std::vector<std::string> names(const std::vector<Hypothesis>& all, std::size_t first, std::size_t count) {
  std::vector<std::string> found;
  for (std::size_t i = first; i < std::min(all.size(), first + count); ++i) found.push_back(all[i].name);
  return found;
}

// The hypotheses that give the same numbers as the first, and the problems that tell them from the others.
std::string ambiguity(const Explanation& e) {
  const std::size_t alike = e.alike();
  if (alike < 2) return {};
  return fmt::format("these {} give the same numbers here: {}", alike, few(names(e.hypotheses, 0, alike), 6));
}
std::string told_apart(const Explanation& e) {
  const std::size_t alike = e.alike();
  if (e.hypotheses.empty() || e.hypotheses.front().asked == 0) return {};
  std::vector<std::string> others;
  for (std::size_t i = alike; i < e.hypotheses.size(); ++i)
    if (e.hypotheses[i].match == e.hypotheses.front().match && e.hypotheses[i].asked > 0)
      others.push_back(e.hypotheses[i].name);
  if (others.empty()) return {};
  return fmt::format("as {} on this problem, but not on others: {}", alike < 2 ? "it does" : "they do",
                     few(others, most_named));
}

std::string nothing_of_the_catalogue(const Explanation& e) {
  if (e.hypotheses_run == 0) return {};
  return fmt::format("none of the {} planted faults that were run here{}", e.hypotheses_run,
                     e.was_shrunk ? " and before it was shrunk" : "");
}

std::string looks_like_text(const Explanation& e) {
  if (e.hypotheses.empty()) return line("looks like", nothing_of_the_catalogue(e));
  const Hypothesis& first = e.hypotheses.front();
  std::string text = line("looks like", of_hypothesis(first));
  text += line("", fmt::format("family {}, stage {}{}", first.family, first.stage,
                               first.report.empty() || first.report == "common slip" ? "" : ", as in " + first.report));
  text += line("", ambiguity(e));
  text += line("", told_apart(e));
  // The next best of another kind.
  const auto next = std::ranges::find_if(e.hypotheses, [&](const Hypothesis& h) { return h.match != first.match; });
  if (first.match != Match::same && next != e.hypotheses.end()) text += line("", of_hypothesis(*next));
  if (first.match == Match::partly && e.hypotheses.size() > 1) text += line("", of_hypothesis(e.hypotheses[1]));
  return text;
}

// The fits that hold on every problem that was asked, if any does.
std::vector<std::string> fits_of(const Explanation& e, bool formats) {
  const bool some = std::ranges::any_of(e.fits, &Fit::everywhere);
  std::vector<std::string> words;
  for (const Fit& fit : e.fits)
    if ((fit.kind == Kind::format) == formats && (fit.everywhere() || !some))
      words.push_back(fit.words + (fit.exact > 0 ? ": a right kernel that does so gives these very numbers" : ""));
  return words;
}

std::string fits_text(const Explanation& e) {
  if (!e.outside) {
    return e.calls_kept == 0
               ? std::string()
               : line("fits", e.in_part ? "no result that was looked at is one that the contract excludes: of "
                                          "large calls those are some rows"
                                        : "each result by itself is one that the contract permits; what fails "
                                          "is a relation between results, or the memory around them");
  }
  std::string text;
  const auto add = [&](const std::vector<std::string>& words) {
    for (std::size_t i = 0; i < std::min(words.size(), most_fits); ++i)
      text += line(text.empty() ? "fits" : "", words[i]);
    if (words.size() > most_fits) text += line("", fmt::format("and {} more", words.size() - most_fits));
  };
  add(fits_of(e, false));
  add(fits_of(e, true));
  if (text.empty() && e.notes.empty()) text = line("fits", "no single departure from the contract that attest knows");
  if (!e.policies_that_fit.empty()) text += line("policies", "it fits " + few(e.policies_that_fit, 8));
  if (!e.policies_excluded.empty())
    text += line(e.policies_that_fit.empty() ? "policies" : "",
                 "excluded, besides the declared one: " + few(e.policies_excluded, 8));
  return text;
}

// "q, k, v lie within their bounds; 3 of 48 heads are out of theirs, first heads[0,1,5,0] = ...".
std::string stages_text(const Explanation& e) {
  std::vector<std::string_view> right;
  for (const engine::StageSeen& stage : e.stages) {
    if (stage.wrong == 0) {
      right.push_back(stage.name);
      continue;
    }
    const std::string before =
        right.empty() ? std::string() : fmt::format("{} lie within their bounds; ", fmt::join(right, ", "));
    return line("stages",
                fmt::format("{}{} of {} {} are out of {}, first {}", before, stage.wrong, stage.judged, stage.name,
                            right.empty() ? "their bounds" : "theirs", evidence_line(*stage.first)));
  }
  return right.empty() ? std::string()
                       : line("stages", fmt::format("{} lie within their bounds", fmt::join(right, ", ")));
}

std::string fits_of_stage_text(const Explanation& e) {
  std::string text;
  for (std::size_t i = 0; i < std::min(e.fits_of_stage.size(), most_fits); ++i)
    text += line(i == 0 ? "they fit" : "", e.fits_of_stage[i].words);
  return text;
}

std::string where_text(const Explanation& e) {
  std::string text;
  for (const WrongPlace& place : e.where)
    if (const std::string words = of_place(place); !words.empty()) text += line(text.empty() ? "where" : "", words);
  return text;
}

std::string stage_text(const Explanation& e) {
  return e.stage.empty() ? std::string() : line("stage", fmt::format("{}, by: {}", e.stage, e.stage_by));
}

}  // namespace

std::string saved_explanation_text(const Explanation& e) {
  if (!e.fails) return {};
  std::string text = where_text(e) + line("in memory", few(e.lies, 5, "; "));
  if (e.outside) text += looks_like_text(e) + fits_text(e);
  text += stages_text(e) + fits_of_stage_text(e) + stage_text(e);
  for (const std::string& note : e.notes) text += line("left out", note);
  return text;
}

std::string explanation_text(const engine::Entry& entry, const Explanation& e) {
  std::string text = line("problem", to_text(entry.problem));
  if (!e.fails) {
    const std::string reason = e.verdict.reason.empty() ? "" : " (" + e.verdict.reason + ")";
    return text + line("verdict", fmt::format("nothing to explain: {} {}{}", entry.property,
                                              e.verdict.kind == VerdictKind::pass || e.verdict.kind == VerdictKind::warn
                                                  ? "holds, it passes"
                                                  : "says " + std::string(name(e.verdict.kind)),
                                              reason));
  }
  text += line("verdict", fmt::format("{} {}{}", entry.property, name(e.verdict.kind),
                                      e.verdict.reason.empty() ? "" : ": " + e.verdict.reason));
  if (e.verdict.evidence) text += line("witness", evidence_line(*e.verdict.evidence));
  text += where_text(e);
  if (e.outside && !e.own_call)
    text += line("", fmt::format("in call {} of the {} that {} makes", e.wrong_call, e.calls, entry.property));
  text += line("in memory", few(e.lies, 5, "; "));
  text += looks_like_text(e);
  text += fits_text(e);
  text += stages_text(e);
  std::vector<std::string> passing = e.passes_at;
  if (passing.empty() && entry.minimal) passing = entry.neighbours;
  text += line("passes at", few(passing, most_changes));
  text += line("fails at", few(e.fails_at, most_changes));
  text += stage_text(e);
  for (const std::string& note : e.notes) text += line("left out", note);
  return text;
}

std::string brief_text(const Explanation& e,
                       const std::function<std::string(std::string_view, const std::string&)>& label) {
  if (!e.fails) return {};
  std::string text;
  if (!e.hypotheses.empty() && e.hypotheses.front().match != Match::partly) {
    const Hypothesis& first = e.hypotheses.front();
    const std::size_t alike = e.alike();
    text += label("looks like", fmt::format("{}: {}{}", first.name, first.doc,
                                            alike > 1 ? fmt::format(" ({} more give the same numbers: {})", alike - 1,
                                                                    few(names(e.hypotheses, 1, alike - 1), 3))
                                                      : ""));
  }
  if (!e.where.empty())
    if (const std::string words = of_place(e.where.front()); !words.empty()) text += label("wrong are", words);
  if (e.outside && !e.fits.empty()) {
    std::vector<std::string> words = fits_of(e, false);
    std::ranges::copy(fits_of(e, true), std::back_inserter(words));
    text += label("fits", few(words, 2, "; "));
  }
  return text;
}

nlohmann::ordered_json explanation_json(const engine::Entry& entry, const Explanation& e) {
  nlohmann::ordered_json object{{"format", 1},
                                {"verb", "explain"},
                                {"subject", entry.subject},
                                {"problem", to_text(entry.problem)},
                                {"property", entry.property}};
  object.update(engine::to_json(e));
  return object;
}

}  // namespace attest::report
