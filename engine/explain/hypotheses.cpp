// (d) Which planted faults give these numbers.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/tensor.hpp"
#include "engine/explain/parts.hpp"
#include "subjects/builtin.hpp"

namespace attest::engine::explaining {
namespace {

using Match = Hypothesis::Match;
using oracle::Outcome;

constexpr double least_share = 0.5;  // for a hypothesis that explains a part

std::vector<const KeptCall*> kept(std::span<const Heard> calls) {
  std::vector<const KeptCall*> all;
  for (const Heard& call : calls) all.push_back(call.call);
  return all;
}

// ---- how near its numbers are ---------------------------------------------------------------------------------------

const attest_tensor& tensor_named(const Call& call, std::string_view name) {
  const auto slots = call.shape().tensors;
  return call.tensor(*std::ranges::find(slots, name, &TensorSlot::name));
}

// Half of what the contract leaves open at an element, and one rounding.
double room(const Element& e) {
  const double rounding = std::max(std::fabs(e.got), std::fabs(e.exact)) * 0x1p-24;
  return std::max(e.hi - e.exact, e.exact - e.lo) + (std::isfinite(e.got) ? rounding : 0);
}

struct Nearness {
  double share = 0;        // over wrong elements
  bool everywhere = true;  // every element that says something lies within its room
};

void compare(const Heard& call, const Call& answer, Nearness& near, double& sum, Index& wrong) {
  Index strayed = 0, right = 0, wrong_here = 0;
  double explained = 0;
  for (const Element& e : call.elements) {
    if (e.outcome == Outcome::undetermined) continue;
    const double h = load(tensor_named(answer, e.tensor), e.index[0], e.index[1], e.index[2], e.index[3]);
    const bool finite = std::isfinite(h) && std::isfinite(e.got);
    const bool alike = finite ? std::fabs(h - e.got) <= room(e) : (std::isnan(h) && std::isnan(e.got)) || h == e.got;
    near.everywhere = near.everywhere && alike;
    if (e.outcome == Outcome::inside) {
      ++right;
      strayed += !alike;
      continue;
    }
    ++wrong_here;
    const double distance = std::fabs(e.got - e.exact);
    if (alike)
      explained += 1;
    else if (finite && std::isfinite(distance) && distance > 0)
      explained += std::max(0., 1 - std::fabs(h - e.got) / distance);
  }
  if (right > 0) explained *= 1 - static_cast<double>(strayed) / static_cast<double>(right);
  sum += explained;
  wrong += wrong_here;
}

Nearness nearness(std::span<const Heard> calls, const std::vector<CallCopy>& answers) {
  Nearness near;
  double sum = 0;
  Index wrong = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) compare(calls[i], answers[i].call(), near, sum, wrong);
  near.share = wrong > 0 ? sum / static_cast<double>(wrong) : 0;
  return near;
}

bool all_given(const std::vector<const KeptCall*>& asked, const std::vector<CallCopy>& answers) {
  for (std::size_t i = 0; i < asked.size(); ++i)
    if (!asked[i]->same(answers[i])) return false;
  return true;
}

bool all_same(const std::vector<CallCopy>& a, const std::vector<CallCopy>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!KeptCall::same(a[i], b[i])) return false;
  return true;
}

}  // namespace

Understudy::Understudy(const Op& op, const Contract& contract)
    : policy_(to_text(policy_of(contract))), semantics_(op.to_json(contract).dump()) {}

std::vector<CallCopy> Understudy::answers(const std::string& name, std::span<const KeptCall* const> calls) const {
  const auto factory = builtin_subject(name, policy_, semantics_);
  if (!factory) return {};
  const auto instance = factory->open();
  std::vector<CallCopy> given;
  for (const KeptCall* call : calls) {
    given.push_back(call->again());
    if (instance->run_one(given.back().call()).status != CallStatus::done) return {};
  }
  return given;
}

Index Heard::work() const {
  if (reading) return reading->work();
  return static_cast<Index>(call->bytes());
}

namespace {

// Compares the answers of a kernel and of the subject on another problem: bit for bit, each element as near as is open,
// or in part.
bool answers_too(const Understudy& understudy, const std::string& name, const Evidenced& other, Match match) {
  const std::vector<const KeptCall*> asked = kept(other.heard);
  const std::vector<CallCopy> answers = understudy.answers(name, asked);
  if (answers.empty()) return false;
  if (match == Match::same) return all_given(asked, answers);
  const Nearness near = nearness(other.heard, answers);
  return match == Match::near ? near.everywhere : near.share >= least_share;
}

}  // namespace

void find_hypotheses(std::span<const Evidenced> all, const Op& op, const Budget& budget, Explanation& into) {
  const std::span<const Heard> calls = all.front().heard;
  const Contract& contract = all.front().contract;
  const std::vector<ListedSubject> faults = fault_subjects(op.name());
  Index work = 0;
  for (const Heard& call : calls) {
    if (call.call->result().status != CallStatus::done) return;
    work += call.work();
  }
  if (calls.empty() || faults.empty()) return;
  if (work > budget.limits.hypothesis_work / static_cast<Index>(faults.size())) {
    into.notes.emplace_back("its calls are too large to run the catalogue of faults on them");
    return;
  }
  const Understudy understudy(op, contract);
  const auto original = std::ranges::find(all, true, &Evidenced::original);
  const Understudy before(op, original != all.end() ? original->contract : contract);
  const std::vector<const KeptCall*> asked = kept(calls);
  std::map<std::string, std::vector<CallCopy>> parents;
  for (const ListedSubject& fault : faults) {
    if (budget.limits.families_left_out.contains(fault.family)) continue;
    if (budget.over()) {
      into.notes.emplace_back("not every fault of the catalogue was run: the time was over");
      break;
    }
    ++into.hypotheses_run;
    const std::vector<CallCopy> answers = understudy.answers(fault.name, asked);
    if (answers.empty()) continue;
    const auto [parent, first] = parents.try_emplace(fault.parent);
    if (first) parent->second = understudy.answers(fault.parent, asked);
    if (parent->second.empty() || all_same(parent->second, answers)) continue;  // it says nothing here
    Hypothesis h{fault.name, fault.doc, fault.family, fault.stage, fault.report, Match::same, 1, 0, 0};
    if (!all_given(asked, answers)) {
      const Nearness near = nearness(calls, answers);
      h.match = near.everywhere && near.share > 0 ? Match::near : Match::partly;
      h.share = near.share;
      if (h.match == Match::partly && !(h.share >= least_share)) continue;
    }
    // A problem that was shrunk has few elements, and many faults give them.
    if (original != all.end() && (budget.over() || !answers_too(before, h.name, *original, h.match))) continue;
    into.hypotheses.push_back(std::move(h));
  }
  for (Hypothesis& h : into.hypotheses) {
    if (h.match == Match::partly) continue;
    for (const Evidenced& other : all.subspan(1)) {
      if (budget.over() || !other.complete()) continue;
      ++h.asked;
      h.also += answers_too(Understudy(op, other.contract), h.name, other, h.match);
    }
  }
  std::ranges::stable_sort(into.hypotheses, [](const Hypothesis& a, const Hypothesis& b) {
    if (a.match != b.match) return a.match < b.match;
    return a.match == Match::partly ? a.share > b.share : a.also > b.also;
  });
}

}  // namespace attest::engine::explaining
