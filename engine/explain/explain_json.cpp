#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/evidence.hpp"
#include "engine/explain/explain.hpp"

namespace attest::engine {
namespace {

using nlohmann::ordered_json;
using Match = Hypothesis::Match;

ordered_json hypothesis_to_json(const Hypothesis& h) {
  constexpr std::string_view words[] = {"same", "near", "partly"};
  ordered_json object{{"name", h.name},   {"doc", h.doc},       {"family", h.family},
                      {"stage", h.stage}, {"report", h.report}, {"match", words[static_cast<std::size_t>(h.match)]}};
  if (h.match == Match::partly) object["share"] = h.share;
  if (h.asked > 0) object["further"] = {{"problems", h.asked}, {"same", h.also}};
  return object;
}

ordered_json errors_to_json(const WrongPlace& place) {
  ordered_json octaves = ordered_json::array();
  for (const auto& [octave, count] : place.errors) octaves.push_back({octave, count});
  return {{"octaves", std::move(octaves)}, {"exact", place.exact}, {"no_number", place.no_number}};
}

}  // namespace

ordered_json to_json(const Explanation& e) {
  ordered_json object;
  object["fails"] = e.fails;
  object["verdict"] = name(e.verdict.kind);
  if (!e.verdict.reason.empty()) object["reason"] = e.verdict.reason;
  if (e.verdict.evidence) object["witness"] = to_json(*e.verdict.evidence);
  object["calls"] = e.calls;
  object["outside"] = e.outside;
  object["in_part"] = e.in_part;
  object["was_shrunk"] = e.was_shrunk;
  if (e.outside) object["wrong_call"] = e.wrong_call;
  object["where"] = ordered_json::array();
  for (const WrongPlace& place : e.where)
    object["where"].push_back({{"tensor", place.tensor},
                               {"wrong", place.wrong},
                               {"judged", place.judged},
                               {"words", place.words},
                               {"relation", place.relation},
                               {"axes", place.axes},
                               {"extents", place.extents},
                               {"wrong_at", place.wrong_at},
                               {"errors", errors_to_json(place)}});
  object["in_memory"] = e.lies;
  object["hypotheses_run"] = e.hypotheses_run;
  object["alike"] = e.alike();
  object["hypotheses"] = ordered_json::array();
  for (const Hypothesis& h : e.hypotheses) object["hypotheses"].push_back(hypothesis_to_json(h));
  object["fits"] = ordered_json::array();
  constexpr std::string_view kinds[] = {"format", "number", "semantics"};
  for (const Fit& fit : e.fits)
    object["fits"].push_back({{"words", fit.words},
                              {"stage", fit.stage},
                              {"kind", kinds[static_cast<std::size_t>(fit.kind)]},
                              {"fill", real_to_json(fit.fill)},
                              {"exact", fit.exact > 0},
                              {"everywhere", fit.everywhere()}});
  object["policies_that_fit"] = e.policies_that_fit;
  object["policies_excluded"] = e.policies_excluded;
  object["stages"] = ordered_json::array();
  for (const StageSeen& stage : e.stages) {
    ordered_json one{{"name", stage.name}, {"wrong", stage.wrong}, {"judged", stage.judged}};
    if (stage.first) one["first"] = to_json(*stage.first);
    object["stages"].push_back(std::move(one));
  }
  if (!e.fits_of_stage.empty()) {
    for (const Fit& fit : e.fits_of_stage)
      object["fits_of_stage"].push_back(
          {{"words", fit.words}, {"stage", fit.stage}, {"kind", kinds[static_cast<std::size_t>(fit.kind)]}});
  }
  object["passes_at"] = e.passes_at;
  object["fails_at"] = e.fails_at;
  object["changes_complete"] = e.changes_complete;
  object["stage"] = e.stage;
  object["stage_by"] = e.stage_by;
  object["left_out"] = e.notes;
  return object;
}

}  // namespace attest::engine
