#include "core/call.hpp"

#include <algorithm>
#include <string>

#include "core/attention/call.hpp"
#include "core/error.hpp"
#include "core/layer_norm/call.hpp"
#include "core/mha/call.hpp"

namespace attest {

std::span<const CallShape* const> call_shapes() noexcept {
  static const CallShape* const shapes[] = {&call_shape<attest_attention>(), &call_shape<attest_layer_norm>(),
                                            &call_shape<attest_mha>()};
  return shapes;
}

const CallShape* find_call_shape(std::string_view op) noexcept {
  const auto found = std::ranges::find(call_shapes(), op, &CallShape::op);
  return found == call_shapes().end() ? nullptr : *found;
}

const CallShape* find_call_shape(std::uint32_t number) noexcept {
  const auto found = std::ranges::find(call_shapes(), number, &CallShape::number);
  return found == call_shapes().end() ? nullptr : *found;
}

std::array<Index, 4> extents_of(const TensorSlot& tensor, const Problem& problem) noexcept {
  std::array<Index, 4> extents{1, 1, 1, 1};
  for (std::size_t axis = 0; axis < tensor.axes.size(); ++axis) extents[axis] = tensor.axes[axis](problem);
  return extents;
}

Call::Call(const CallShape& shape) : shape_(&shape), bytes_{} {
  part<Head>(0).struct_size = static_cast<std::uint32_t>(shape.bytes);
}

std::int64_t Call::integer(const ScalarSlot& slot) const noexcept {
  switch (slot.kind) {
    case ScalarSlot::Kind::flag:
      return part<std::int32_t>(slot.at) != 0;
    case ScalarSlot::Kind::small:
      return part<std::int32_t>(slot.at);
    case ScalarSlot::Kind::whole:
      return part<std::int64_t>(slot.at);
    case ScalarSlot::Kind::bit:
      return static_cast<std::int64_t>(part<Head>(0).flags >> slot.at & 1);
    case ScalarSlot::Kind::real:
      break;
  }
  return 0;
}

void Call::set_integer(const ScalarSlot& slot, std::int64_t value) noexcept {
  switch (slot.kind) {
    case ScalarSlot::Kind::flag:
    case ScalarSlot::Kind::small:
      part<std::int32_t>(slot.at) = static_cast<std::int32_t>(value);
      break;
    case ScalarSlot::Kind::whole:
      part<std::int64_t>(slot.at) = value;
      break;
    case ScalarSlot::Kind::bit: {
      std::uint64_t& flags = part<Head>(0).flags;
      flags = value != 0 ? flags | std::uint64_t{1} << slot.at : flags & ~(std::uint64_t{1} << slot.at);
      break;
    }
    case ScalarSlot::Kind::real:
      break;
  }
}

void Call::require(const CallShape& shape) const {
  if (&shape != shape_)
    throw internal_error("a call of " + std::string(shape_->op) + " reached what answers " + std::string(shape.op));
}

}  // namespace attest
