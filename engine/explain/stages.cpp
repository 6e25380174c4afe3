// (e) The first stage out of its bound.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>

#include "core/tensor.hpp"
#include "engine/explain/parts.hpp"

namespace attest::engine::explaining {
namespace {

// Judges each stage of `names`, with their tensors, in the order in which they are computed.
std::vector<StageSeen> seen_in(const Reading& reading, const std::vector<std::string_view>& names,
                               const std::vector<Tensor>& tensors, const Contract& contract) {
  std::vector<StageSeen> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    StageSeen& stage = seen.emplace_back();
    stage.name = reading.stage_name(names[i]);
    for (const Element& e : reading.stage_elements(names[i], tensors[i], contract)) {
      if (e.outcome == oracle::Outcome::undetermined) continue;
      ++stage.judged;
      if (e.outcome != oracle::Outcome::outside) continue;
      if (stage.wrong++ == 0) {
        Evidence evidence;
        evidence.tensor = e.tensor;
        evidence.index = e.index;
        evidence.got = e.got;
        evidence.expected = e.exact;
        evidence.lo = e.lo;
        evidence.hi = e.hi;
        const double room = e.got > e.exact ? e.hi - e.exact : e.exact - e.lo;
        evidence.ratio = std::isfinite(e.got) && room > 0 ? std::fabs(e.got - e.exact) / room
                                                          : std::numeric_limits<double>::infinity();
        stage.first = std::move(evidence);
      }
    }
  }
  std::erase_if(seen, [](const StageSeen& stage) { return stage.judged == 0; });
  return seen;
}

// The stages that a call has given, and their tensors.
struct Given {
  std::vector<std::string_view> names;
  std::vector<Tensor> tensors;
};
Given given_by(const Heard& call) {
  Given given;
  if (!call.reading) return given;
  const CallCopy answered = call.call->answered();
  const std::span<const TensorSlot> slots = answered.call().shape().tensors;
  for (const std::string_view name : call.reading->stages(ops::Supports::giving_every_stage())) {
    const auto slot = std::ranges::find(slots, name, &TensorSlot::name);
    if (slot == slots.end() || !attest_present(&answered.call().tensor(*slot))) continue;
    given.names.push_back(name);
    given.tensors.push_back(copied_packed(answered.call().tensor(*slot)));
  }
  return given;
}

bool is_wrong(const StageSeen& stage) { return stage.wrong > 0; }

}  // namespace

std::vector<StageSeen> stages_of(const Heard& call, const Contract& contract, Subject& subject) {
  if (!call.reading) return {};
  const std::vector<std::string_view> names = call.reading->stages(subject.info());
  if (names.empty()) return {};
  const CallCopy again = call.call->again();
  Call asked = again.call();
  std::vector<Tensor> tensors;
  tensors.reserve(names.size());
  for (const std::string_view name : names) {
    const auto slots = asked.shape().tensors;
    asked.tensor(*std::ranges::find(slots, name, &TensorSlot::name)) =
        tensors.emplace_back(call.reading->stage_tensor(name)).view();
  }
  if (subject.run_one(asked).status != CallStatus::done) return {};
  return seen_in(*call.reading, names, tensors, contract);
}

std::vector<StageSeen> stages_given(const Heard& call, const Contract& contract) {
  const Given given = given_by(call);
  return given.names.empty() ? std::vector<StageSeen>() : seen_in(*call.reading, given.names, given.tensors, contract);
}

std::vector<Fit> fits_of_stage(const Heard& call, const Contract& contract, const Budget& budget) {
  std::vector<Fit> fits;
  const Given given = given_by(call);
  if (given.names.empty()) return fits;
  const auto first_wrong = [&](const std::vector<StageSeen>& seen) {
    const auto at = std::ranges::find_if(seen, is_wrong);
    return at == seen.end() ? std::string() : at->name;
  };
  const std::string wrong = first_wrong(seen_in(*call.reading, given.names, given.tensors, contract));
  if (wrong.empty()) return fits;
  const auto at = static_cast<std::size_t>(
      std::ranges::find(given.names, wrong, [&](std::string_view name) { return call.reading->stage_name(name); }) -
      given.names.begin());
  const auto elements = [&](const Contract& of) {
    return call.reading->stage_elements(given.names[at], given.tensors[at], of);
  };
  const std::vector<Element> declared = elements(contract);
  std::map<std::string_view, double> least;  // by group: the least departure that fits
  for (const ops::Departure& departure : call.reading->departures(contract)) {
    if (budget.over()) break;
    if (departure.variant != 0 || !call.reading->lies_within(departure.stage, wrong)) continue;
    const auto of_group = least.find(departure.group);
    if (of_group != least.end() && departure.size > of_group->second) continue;
    if (!first_wrong(seen_in(*call.reading, given.names, given.tensors, departure.contract)).empty()) continue;
    least.emplace(departure.group, departure.size);
    const double fill = filled(declared, elements(departure.contract));
    if (!(fill >= Fit::least_fill)) continue;
    fits.push_back({departure.words, std::string(departure.stage), departure.kind, fill, 0, 0, 0});
  }
  // The interval that the error fills most says most; but a stage is sooner in the format of the tensors than in
  // another one.
  const std::string stored = fmt::format("={})", name(storage_of(policy_of(contract))));
  std::ranges::stable_sort(fits, [&](const Fit& a, const Fit& b) {
    const bool a_stored = a.words.ends_with(stored), b_stored = b.words.ends_with(stored);
    return a_stored != b_stored ? a_stored : a.fill > b.fill;
  });
  return fits;
}

}  // namespace attest::engine::explaining
