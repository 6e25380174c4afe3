// One call of a `run` message, as the plug-in host reads it: every element of every tensor must lie in the arena.
#include <nlohmann/json.hpp>
#include <vector>

#include "fuzz/target.hpp"
#include "subjects/message.hpp"

using namespace attest;

namespace {

// The first and the last element of each axis, which AddressSanitizer watches.
void touch_corners(const attest_tensor& view) {
  for (std::int32_t axis = 0; axis < view.ndim; ++axis)
    if (view.shape[axis] == 0) return;
  for (int corner = 0; corner < 1 << view.ndim; ++corner) {
    std::int64_t index[4] = {};
    for (int axis = 0; axis < view.ndim; ++axis) index[axis] = (corner >> axis & 1) ? view.shape[axis] - 1 : 0;
    auto* element = static_cast<volatile std::uint8_t*>(attest_at(&view, index[0], index[1], index[2], index[3]));
    for (int byte = 0; byte < view.dtype.bits / 8; ++byte) element[byte] = element[byte];
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> arena(4096);
  const nlohmann::json object = parse_foreign(fuzz::as_text(data, size));
  fuzz::accepts([&] {
    const ReceivedCall received(object, arena.data(), arena.size());
    for (const TensorSlot& slot : received.call.shape().tensors)
      if (const attest_tensor& view = received.call.tensor(slot); attest_present(&view)) touch_corners(view);
  });
  return 0;
}
