// (e) The first stage out of its bound.
#include <algorithm>

#include "core/tensor.hpp"
#include "engine/explain/parts.hpp"

namespace attest::engine::explaining {

std::vector<StageSeen> stages_of(const Heard& call, const Contract& contract, Subject& subject) {
  std::vector<StageSeen> seen;
  if (!call.reading) return seen;
  const std::vector<std::string_view> names = call.reading->stages(subject.info());
  if (names.empty()) return seen;
  const CallCopy again = call.call->again();
  Call asked = again.call();
  std::vector<Tensor> tensors;
  tensors.reserve(names.size());
  for (const std::string_view name : names) {
    const auto slots = asked.shape().tensors;
    asked.tensor(*std::ranges::find(slots, name, &TensorSlot::name)) =
        tensors.emplace_back(call.reading->stage_tensor(name)).view();
  }
  if (subject.run_one(asked).status != CallStatus::done) return seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    StageSeen& stage = seen.emplace_back();
    stage.name = call.reading->stage_name(names[i]);
    for (const Element& e : call.reading->stage_elements(names[i], tensors[i], contract)) {
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
        stage.first = std::move(evidence);
      }
    }
  }
  std::erase_if(seen, [](const StageSeen& stage) { return stage.judged == 0; });
  return seen;
}

}  // namespace attest::engine::explaining
