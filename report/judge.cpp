#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "report/judge.hpp"
#include "report/text.hpp"

namespace attest::report {
namespace {

using engine::Judgement;
using ops::SavedCall;

std::string elements(std::int64_t n) {
  return fmt::format("{} {}", grouped(static_cast<std::uint64_t>(n)), n == 1 ? "element" : "elements");
}

// "b=1 hq=2 ... ", and the same as JSON: the extents of a call.
std::string shape_text(const ops::Problem& problem) {
  std::string text;
  for (const ops::Field& field : problem.op().fields())
    if (field.group == FieldGroup::shape) text += fmt::format("{}={} ", field.name, field.get(problem));
  return text;
}
nlohmann::ordered_json shape_json(const ops::Problem& problem) {
  nlohmann::ordered_json object;
  for (const ops::Field& field : problem.op().fields())
    if (field.group == FieldGroup::shape) object[std::string(field.name)] = field.get(problem);
  object["dtype"] = name(storage_of(problem));
  return object;
}

std::string verdict_text(const Judgement& judgement, const Look& look) {
  const Verdict& v = judgement.verdict;
  const std::string undetermined =
      v.counts.undetermined == 0 ? ""
                                 : fmt::format("; of {} the bound permits anything", elements(v.counts.undetermined));
  switch (v.kind) {
    case VerdictKind::fail:
      return fmt::format("  verdict    {}: no kernel that keeps this policy could have returned these numbers\n",
                         painted(look, Part::failed, "FAILED"));
    case VerdictKind::vacuous:
      return v.reason == "wide"
                 ? fmt::format(
                       "  verdict    nothing said: {} inside, and every bound is as wide as the values themselves\n",
                       elements(v.counts.judged))
                 : "  verdict    nothing said: the bound permits anything for every element\n";
    default:
      return fmt::format("  verdict    {}: {} inside what a correct kernel could return{}\n",
                         painted(look, Part::held, "held"), elements(v.counts.judged), undetermined);
  }
}

}  // namespace

std::string call_text(const SavedCall& call, const ops::Contract& contract) {
  const ops::Problem& p = call.exchange->problem();
  std::string text =
      fmt::format("  call       {}{}{}, {}\n  policy     {}\n",
                  &p.op() == ops::all_ops().front() ? "" : fmt::format("{} ", p.op().name()), shape_text(p),
                  name(storage_of(p)), p.op().options_in_words(*call.exchange), to_text(policy_of(contract)));
  if (const auto judged = call.exchange->judged(); judged.rows < judged.all_rows)
    text += fmt::format("  rows       {} of {}, spread evenly\n", grouped(static_cast<std::uint64_t>(judged.rows)),
                        grouped(static_cast<std::uint64_t>(judged.all_rows)));
  for (const std::string& note : call.notes) text += "  note       " + printable(note) + "\n";
  return text;
}

nlohmann::ordered_json call_json(const SavedCall& call) {
  const ops::Problem& p = call.exchange->problem();
  nlohmann::ordered_json object;
  if (&p.op() != ops::all_ops().front()) object["op"] = p.op().name();
  object["shape"] = shape_json(p);
  object["options"] = p.op().options_in_words(*call.exchange);
  return object;
}

std::string judgement_text(const SavedCall& call, const ops::Contract& contract, const Judgement& judgement,
                           const Look& look) {
  std::string text = call_text(call, contract);
  text += verdict_text(judgement, look);
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
  for (const engine::HeldIf& other : judgement.others.held)
    text += fmt::format("  held if    {} ({})\n", printable(other.words), printable(other.options));
  if (!judgement.others.complete)
    text += "  left out   not every other reading of the call was tried: the time was over\n";
  return text;
}

nlohmann::ordered_json judgement_json(const SavedCall& call, const ops::Contract& contract,
                                      const Judgement& judgement) {
  const Verdict& v = judgement.verdict;
  nlohmann::ordered_json object;
  object["format"] = 1;
  object["verb"] = "judge";
  object.update(call_json(call));
  object["policy"] = to_text(policy_of(contract));
  object["contract"] = to_json(contract);
  object["rows"] = call.exchange->judged().rows;
  object["all_rows"] = call.exchange->judged().all_rows;
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
  if (v.kind == VerdictKind::fail) {
    object["held_if"] = nlohmann::ordered_json::array();
    for (const engine::HeldIf& other : judgement.others.held)
      object["held_if"].push_back({{"words", other.words}, {"options", other.options}});
  }
  object["notes"] = call.notes;
  return object;
}

}  // namespace attest::report
