#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "report/judge.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Judgement;
using engine::SavedCall;

std::string elements(std::int64_t n) {
  return fmt::format("{} {}", grouped(static_cast<std::uint64_t>(n)), n == 1 ? "element" : "elements");
}

std::string options_text(const SavedCall& call) {
  const Problem& p = call.problem;
  std::string text = fmt::format("scale {}{}", number(p.effective_scale()), p.scale ? "" : " (1/sqrt(d))");
  if (p.softcap != 0) text += fmt::format(", softcap {}", number(p.softcap));
  const bool diagonal = p.causal || p.window_left >= 0 || p.window_right >= 0;
  if (p.causal) text += ", causal";
  if (p.window_left >= 0) text += fmt::format(", window_left {}", p.window_left);
  if (p.window_right >= 0) text += fmt::format(", window_right {}", p.window_right);
  if (diagonal) text += p.align == Align::top_left ? " (top_left)" : " (bottom_right)";
  if (call.inputs.bias.present()) text += ", bias";
  if (call.inputs.keep.present()) text += ", keep";
  if (call.inputs.kv_lengths.present()) text += ", kv_lengths";
  return text;
}

std::string verdict_text(const Judgement& judgement) {
  const Verdict& v = judgement.verdict;
  const std::string undetermined =
      v.counts.undetermined == 0 ? ""
                                 : fmt::format("; of {} the bound permits anything", elements(v.counts.undetermined));
  switch (v.kind) {
    case VerdictKind::fail:
      return "  verdict    FAILED: no kernel that keeps this policy could have returned these numbers\n";
    case VerdictKind::vacuous:
      return v.reason == "wide"
                 ? fmt::format(
                       "  verdict    nothing said: {} inside, and every bound is as wide as the values themselves\n",
                       elements(v.counts.judged))
                 : "  verdict    nothing said: the bound permits anything for every element\n";
    default:
      return fmt::format("  verdict    held: {} inside what a correct kernel could return{}\n",
                         elements(v.counts.judged), undetermined);
  }
}

constexpr std::string_view law = "statistical-bound";

// What tier two says; nothing where the proven bound failed, which it lies within.
std::string statistical_text(const Judgement& judgement) {
  if (judgement.verdict.kind == VerdictKind::fail) return {};
  const Verdict& v = judgement.statistical;
  std::string text = fmt::format("  tier two   {} ", law);
  switch (v.kind) {
    case VerdictKind::fail:
      text += "FAILED: a kernel that keeps this policy hardly ever returns such a number\n";
      break;
    case VerdictKind::warn:
      text += "WARNS: a kernel that keeps this policy seldom returns such a number\n";
      break;
    case VerdictKind::skip:
      return text + "skipped: " + v.reason + "\n";
    case VerdictKind::vacuous:
      return text + "says nothing: " + v.reason + "\n";
    default:
      text += "held: where it has an estimate, elements lie where those of conforming kernels do\n";
  }
  if (v.evidence) text += "  witness    " + evidence_line(*v.evidence) + "\n";
  if (judgement.elements > 0)
    text +=
        fmt::format("  T          {:.3g} over {}; it has no limit here, since saved tensors have no class of values\n",
                    judgement.t, elements(judgement.elements));
  return text;
}

nlohmann::ordered_json statistical_json(const Judgement& judgement) {
  const Verdict& v = judgement.statistical;
  nlohmann::ordered_json object{{"law", law}, {"verdict", name(v.kind)}};
  if (!v.reason.empty()) object["reason"] = v.reason;
  if (v.evidence) object["witness"] = engine::to_json(*v.evidence);
  if (judgement.elements > 0) {
    object["t"] = engine::real_to_json(judgement.t);
    object["elements"] = judgement.elements;
  }
  return object;
}

}  // namespace

std::string judgement_text(const SavedCall& call, const Contract& contract, const Judgement& judgement) {
  const Problem& p = call.problem;
  std::string text =
      fmt::format("  call       b={} hq={} hkv={} lq={} lk={} d={} dv={} {}, {}\n  policy     {}\n", p.b, p.hq, p.hkv,
                  p.lq, p.lk, p.d, p.dv, name(p.dtype), options_text(call), to_text(contract.policy));
  if (p.rows > 0)
    text += fmt::format("  rows       {} of {}, spread evenly\n", grouped(judged_rows(p).size()),
                        grouped(static_cast<std::uint64_t>(p.b * p.hq * p.lq)));
  for (const std::string& note : call.notes) text += "  note       " + printable(note) + "\n";
  text += verdict_text(judgement);
  if (judgement.verdict.evidence) text += "  first      " + evidence_line(*judgement.verdict.evidence) + "\n";
  if (judgement.survey) {
    const engine::Survey& s = *judgement.survey;
    text += "  worst      " + evidence_line(s.worst) + "\n";
    text +=
        fmt::format("  counted    {} outside, {} inside, {} undetermined", elements(s.outside),
                    grouped(static_cast<std::uint64_t>(s.inside)), grouped(static_cast<std::uint64_t>(s.undetermined)));
    text += s.rows == s.all_rows
                ? ", in all rows\n"
                : fmt::format(", in {} of {} rows, spread evenly\n", grouped(static_cast<std::uint64_t>(s.rows)),
                              grouped(static_cast<std::uint64_t>(s.all_rows)));
  }
  return text + statistical_text(judgement);
}

nlohmann::ordered_json judgement_json(const SavedCall& call, const Contract& contract, const Judgement& judgement) {
  const Problem& p = call.problem;
  const Verdict& v = judgement.verdict;
  nlohmann::ordered_json object;
  object["format"] = 1;
  object["verb"] = "judge";
  object["shape"] = {{"b", p.b},   {"hq", p.hq}, {"hkv", p.hkv}, {"lq", p.lq},
                     {"lk", p.lk}, {"d", p.d},   {"dv", p.dv},   {"dtype", name(p.dtype)}};
  object["options"] = options_text(call);
  object["policy"] = to_text(contract.policy);
  object["contract"] = to_json(contract);
  object["rows"] = judged_rows(p).size();
  object["all_rows"] = p.b * p.hq * p.lq;
  object["verdict"] = name(v.kind);
  if (!v.reason.empty()) object["reason"] = v.reason;
  object["judged"] = v.counts.judged;
  object["undetermined"] = v.counts.undetermined;
  object["wide"] = v.counts.wide;
  if (v.evidence) object["witness"] = engine::to_json(*v.evidence);
  if (judgement.survey) {
    const engine::Survey& s = *judgement.survey;
    object["survey"] = {{"rows", s.rows},     {"all_rows", s.all_rows},         {"outside", s.outside},
                        {"inside", s.inside}, {"undetermined", s.undetermined}, {"worst", engine::to_json(s.worst)}};
  }
  object["statistical"] = statistical_json(judgement);
  object["notes"] = call.notes;
  return object;
}

}  // namespace attest::report
