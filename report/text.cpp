#include "report/text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/problem.hpp"
#include "engine/bucket.hpp"
#include "engine/campaign.hpp"

namespace attest::report {
namespace {
constexpr std::size_t most_calls_shown = 8;
}  // namespace

std::string grouped(std::uint64_t n) {
  std::string digits = std::to_string(n);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string counted(std::uint64_t n, std::string_view noun) {
  std::string text = grouped(n) + " " + std::string(noun);
  if (n == 1) return text;
  const bool consonant_y = noun.ends_with('y') && !noun.ends_with("ey");  // "query", not "key"
  if (consonant_y) text.replace(text.size() - 1, 1, "ie");
  return text + "s";
}

std::string duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<std::uint64_t>(seconds);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} m", whole / 3600, whole / 60 % 60);
}

std::string number(double value) { return std::isnan(value) ? "nan" : fmt::format("{}", value); }

namespace {
std::string without_controls(std::string_view text, bool lines) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool second = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool control =
        (byte < ' ' && !(lines && text[i] == '\n')) || byte == 0x7F || second;  // U+0080..U+009F take two bytes
    line += control ? ' ' : text[i];
    i += second;
  }
  return line;
}
}  // namespace

std::string printable(std::string_view text) { return without_controls(text, false); }
std::string printable_lines(std::string_view text) { return without_controls(text, true); }

std::string ascii_line(std::string_view text) {
  std::string line(text);
  std::ranges::replace_if(
      line, [](char c) { return c < ' ' || c > '~'; }, ' ');
  return line;
}

std::string python_number(double value) {
  return value == 0 && std::signbit(value) ? "-0.0"
                                           : number(value);  // "-0" would be an integer, which has no such sign
}

std::string shell_quoted(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

namespace {
std::string how_far(const Evidence& evidence) {
  if (std::isnan(evidence.ratio)) return {};
  if (std::isinf(evidence.ratio)) return " (nothing else is permitted)";
  return fmt::format(" ({:.3g} x the permitted distance)", evidence.ratio);
}
}  // namespace

std::string element_name(const Evidence& evidence) {
  const auto& i = evidence.index;
  if (evidence.tensor == "T" || evidence.tensor == "R") return evidence.tensor;  // the evidence is of no single element
  return evidence.tensor == "lse" ? fmt::format("lse[{},{},{}]", i[0], i[1], i[2])
                                  : fmt::format("{}[{},{},{},{}]", evidence.tensor, i[0], i[1], i[2], i[3]);
}

namespace {
// "A = 1, B = 0: they differ by 1, ... x what both bounds allow; B is outside its own".
std::string both_sides(const Evidence& evidence) {
  const Side &a = evidence.sides[0], &b = evidence.sides[1];
  std::string line = fmt::format("A = {}, B = {}", number(a.got), number(b.got));
  if (!a.outside && !b.outside) return line + (evidence.note.empty() ? "" : ": " + evidence.note);
  if (std::isfinite(a.got) && std::isfinite(b.got)) line += fmt::format(", {:.3g} apart", std::fabs(a.got - b.got));
  if (std::isfinite(evidence.ratio)) line += fmt::format(", {:.3g} x what both bounds allow", evidence.ratio);
  return line + fmt::format("; {} its own bound", a.outside && b.outside ? "each is outside"
                                                  : a.outside            ? "A is outside"
                                                                         : "B is outside");
}
}  // namespace

std::string happened(std::string_view verdict, std::string_view kind, std::string_view tensor) {
  if (verdict == "crash") return "a crash";
  if (verdict == "timeout") return "a timeout";
  if (verdict == "error") return "an error in place of an answer";
  if (verdict == "poisoned") return "a call that spoils the calls after it";
  if (verdict == "flaky") return "a failure seen once";
  if (kind.empty()) return "a failure";
  if (kind == "memory") return "wrong memory accesses";
  const std::string_view what = kind == "nan"        ? "NaN"
                                : kind == "infinity" ? "infinity"
                                : kind == "shape"    ? "a wrong shape"
                                : kind == "two"      ? "different numbers"
                                                     : "wrong numbers";
  return tensor.empty() || tensor == "T" || tensor == "R" ? std::string(what) : fmt::format("{} in {}", what, tensor);
}

std::string side_line(const Side& side) {
  const std::string got = number(side.got);
  if (!std::isfinite(side.got) || std::isnan(side.exact)) {
    if (!side.outside) return got + ": within its bound, as the contract permits";
    const std::string due = std::isnan(side.exact) ? "a NaN or an infinity" : "the number " + number(side.exact);
    return fmt::format("{}: outside its bound, {} is due", got, due);
  }
  const double off = std::fabs(side.got - side.exact);
  const double radius = side.got > side.exact ? side.hi - side.exact : side.exact - side.lo;
  if (!side.outside) {
    const std::string within =
        fmt::format("{}: within its bound, {:.3g} off the exact {}", got, off, number(side.exact));
    return std::isfinite(radius) && radius > 0
               ? fmt::format("{}, with a radius of {:.3g} before it is rounded", within, radius)
               : within;
  }
  if (!(radius > 0) || !std::isfinite(side.ratio))
    return fmt::format("{}: outside its bound, {:.3g} off the exact {}, which alone is permitted", got, off,
                       number(side.exact));
  return fmt::format("{}: outside its bound, {:.3g} off the exact {}, {:.3g} x the radius {:.3g}", got, off,
                     number(side.exact), side.ratio, radius);
}

std::string evidence_line(const Evidence& evidence) {
  std::string line = element_name(evidence);
  if (evidence.wrong == Wrong::memory) return line + ": " + evidence.note;
  if (evidence.sides.size() == 2) return line + ": " + both_sides(evidence);
  line += fmt::format(" = {}, expected {}", number(evidence.got), number(evidence.expected));
  if (evidence.lo != evidence.hi) line += fmt::format(", permitted {} .. {}", number(evidence.lo), number(evidence.hi));
  line += how_far(evidence);
  if (!evidence.note.empty()) line += "; " + evidence.note;
  return line;
}

std::string conditions_text(const engine::Entry& entry, std::string_view indent, std::size_t width) {
  const auto line = [&](std::string_view label, const std::string& text) {
    return fmt::format("{}{:<{}}{}\n", indent, label, width, text);
  };
  std::string text;
  if (entry.as_probed)
    text = line("assumes", fmt::format("{} in every call, as its probes showed: it fails the accuracy that they saw, "
                                       "and no promise of its own",
                                       to_text(policy_of(entry.contract))));
  if (entry.shown)
    return text + line("shows", fmt::format("in {} of {} runs: answers differ from call to call", entry.shown->seen,
                                            entry.shown->runs));
  const std::size_t count = entry.after.size();
  if (entry.seen == VerdictKind::poisoned && !entry.with.empty())
    text += line("calls", fmt::format("those that {} makes of it", fmt::join(entry.with, ", ")));
  if (count == 0) return text;
  text += line("after", fmt::format("{} on the same instance: answers differ from call to call",
                                    count == 1 ? "this call" : fmt::format("these {} calls", count)));
  for (std::size_t i = 0; i < std::min(count, most_calls_shown); ++i) {
    const engine::EarlierCall& call = entry.after[i];
    const std::string laws =
        call.laws.empty() ? "" : fmt::format(" (and the further calls of {})", fmt::join(call.laws, ", "));
    text += line("", to_text(call.problem) + laws);
  }
  if (count > most_calls_shown)
    text += line("", fmt::format("and {} more, which the reproducer holds", count - most_calls_shown));
  return text;
}

std::string triage_line(const std::filesystem::path& folder, std::string_view subject) {
  std::string line = "attest triage " + shell_quoted(folder.string());
  if (engine::portable_subject(subject) != subject) line += " --subject " + shell_quoted(subject);
  return line;
}

std::string check_line(const engine::Summary& summary, std::string_view law, std::string_view problem) {
  const bool two = !summary.subject_b.empty();
  std::string line = (two ? "attest compare " : "attest check ") + shell_quoted(summary.subject);
  if (two) line += " " + shell_quoted(summary.subject_b);
  if (!summary.policy.empty()) line += " --policy " + shell_quoted(summary.policy);
  if (!two) line += " --property " + shell_quoted(law);
  if (law == engine::compare_bits_name) line += " --bits";
  return line + " --problem " + shell_quoted(problem);
}

std::string rerun_line(const engine::Summary& summary, const engine::Finding& finding) {
  const bool portable = summary.subject.empty() || finding.entry.subject == summary.subject;
  const auto& b = finding.entry.subject_b;
  const bool portable_b = !b || b->subject == summary.subject_b;
  if (!finding.reproducer.empty())
    return "attest replay " + (portable ? std::string() : "--subject " + shell_quoted(summary.subject) + " ") +
           (portable_b ? std::string() : "--subject-b " + shell_quoted(summary.subject_b) + " ") +
           shell_quoted(finding.reproducer);
  return check_line(summary, finding.entry.property, to_text(finding.entry.problem)) +
         (finding.entry.as_probed ? " --probe-first" : "");
}

nlohmann::ordered_json summary_json(const engine::Summary& summary) {
  return engine::to_json(summary, [&](const engine::Finding& finding) { return rerun_line(summary, finding); });
}

std::string policy_text(const engine::CampaignOptions& campaign, const SubjectInfo& info) {
  const ops::Op& op = engine::op_of(campaign, info);
  if (campaign.policy) return {};
  if (campaign.subject_b) return op.policy_declared(info) ? "" : std::string(undeclared_policies);
  if (op.policy_declared(info)) return {};
  if (!info.declared) {
    std::string text(undeclared_policy);
    if (campaign.observed)
      text += fmt::format(
          "  {} ({})\n",
          campaign.observed->seconds ? "there was no time for its probes" : "its probes show no wider stage",
          campaign.observed_whence);
    return text + op.undeclared_reach(info);
  }
  std::string text = fmt::format(
      "it declares no policy: it is held to what its probes showed ({}), as if it computed alike in every call:\n",
      campaign.observed_whence);
  for (const auto& [dtype, policy] : engine::assumed_of(*campaign.observed, *info.declared, op))
    text += fmt::format("  {}: {}\n", name(dtype), policy);
  for (const auto& [forms, why] :
       {std::pair{&campaign.observed->apart, "show less"}, {&campaign.observed->unasked, "there was no time to ask"}}) {
    std::vector<std::string> said;
    for (const FormChoice& choice : *forms) said.push_back(choice.name + "=" + choice.value);
    if (!said.empty()) text += fmt::format("  most generous reading in {}, which {}\n", fmt::join(said, ", "), why);
  }
  return text;
}

std::string waiver_text(const engine::Waiver& waiver) {
  return fmt::format("waived until {}{}: {}", waiver.until, waiver.over ? ", which is over" : "", waiver.reason);
}

}  // namespace attest::report
