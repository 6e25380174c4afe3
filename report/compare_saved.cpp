#include "report/compare_saved.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

std::string_view in_a_word(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::pass:
      return "held";
    case VerdictKind::warn:
      return "open";
    case VerdictKind::fail:
      return "differs";
    case VerdictKind::skip:
      return "skipped";
    default:
      return name(kind);
  }
}

}  // namespace

std::string saved_comparison_text(const std::string& name, const Verdict& verdict) {
  std::string text = fmt::format("{:<9}{}\n", in_a_word(verdict.kind), printable(name));
  const auto line = [&](std::string_view label, const std::string& said) {
    if (!said.empty()) text += fmt::format("         {:<9}{}\n", label, printable(said));
  };
  line("", verdict.reason);
  if (!verdict.evidence) return text;
  line("witness", evidence_line(*verdict.evidence));
  if (verdict.evidence->sides.size() != 2 || verdict.evidence->wrong == Wrong::memory) return text;
  line("A", side_line(verdict.evidence->sides[0]));
  line("B", side_line(verdict.evidence->sides[1]));
  return text;
}

nlohmann::ordered_json saved_comparison_json(const std::string& name, const Verdict& verdict) {
  nlohmann::ordered_json object{{"file", name},
                                {"verdict", attest::name(verdict.kind)},
                                {"reason", verdict.reason},
                                {"judged", verdict.counts.judged},
                                {"undetermined", verdict.counts.undetermined},
                                {"witness", nullptr}};
  if (verdict.evidence) object["witness"] = engine::to_json(*verdict.evidence);
  return object;
}

}  // namespace attest::report
