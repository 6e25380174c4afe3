#include "engine/explain/kept_call.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/tensor.hpp"

namespace attest::engine {
namespace {

constexpr std::size_t alignment = 256;

// Calls `visit` with the logical index of every element.
template <class Visit>
void over_elements(const attest_tensor& view, Visit visit) {
  std::array<Index, 4> n{1, 1, 1, 1}, at{};
  std::copy_n(view.shape, view.ndim, n.begin());
  for (at[0] = 0; at[0] < n[0]; ++at[0])
    for (at[1] = 0; at[1] < n[1]; ++at[1])
      for (at[2] = 0; at[2] < n[2]; ++at[2])
        for (at[3] = 0; at[3] < n[3]; ++at[3]) visit(at);
}

std::size_t byte_of(const attest_tensor& view, const std::array<Index, 4>& at) {
  Index elements = 0;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(view.ndim); ++axis)
    elements += at[axis] * view.strides[axis];
  return static_cast<std::size_t>(elements) * (view.dtype.bits / 8u);
}

bool equal_numbers(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);
}

// Tells whether two blocks of one tensor hold the same elements, NaN for NaN, and the same bytes elsewhere. `offset` is
// that of the first element in the block.
bool same_block(const attest_tensor& view, std::size_t offset, const std::byte* a, const std::byte* b,
                std::size_t size) {
  if (std::memcmp(a, b, size) == 0) return true;
  std::vector<std::byte> rest_a(a, a + size), rest_b(b, b + size);
  attest_tensor in_a = view, in_b = view;
  in_a.byte_offset = in_b.byte_offset = 0;
  in_a.data = const_cast<std::byte*>(a + offset);
  in_b.data = const_cast<std::byte*>(b + offset);
  const std::size_t width = view.dtype.bits / 8u;
  bool same = true;
  over_elements(view, [&](const std::array<Index, 4>& at) {
    if (!same) return;
    same = equal_numbers(load(in_a, at[0], at[1], at[2], at[3]), load(in_b, at[0], at[1], at[2], at[3]));
    const std::size_t byte = offset + byte_of(view, at);
    std::memset(rest_a.data() + byte, 0, width);
    std::memset(rest_b.data() + byte, 0, width);
  });
  return same && rest_a == rest_b;
}

}  // namespace

std::optional<KeptCall> KeptCall::before(const Call& call, std::size_t most_bytes) {
  KeptCall kept(call);
  for (const TensorSlot& slot : call.shape().tensors) {
    const attest_tensor& view = call.tensor(slot);
    if (!attest_present(&view)) continue;
    const MemoryParts parts = parts_of(view);
    if (parts.count != 1 || parts.size > most_bytes - kept.bytes_) return std::nullopt;
    const std::size_t guard = guard_bytes(view);
    kept.bytes_ += parts.size;
    std::array<std::int64_t, 8> dims{};
    std::copy_n(view.shape, view.ndim, dims.begin());
    std::copy_n(view.strides, view.ndim, dims.begin() + 4);
    kept.tensors_.push_back({&slot,
                             view,
                             dims,
                             guard,
                             reinterpret_cast<std::uintptr_t>(parts.first) % alignment,
                             std::vector<std::byte>(parts.first, parts.first + parts.size),
                             {}});
  }
  if (const char* form = call.form()) {
    kept.has_form_ = true;
    kept.form_ = form;
  }
  return kept;
}

void KeptCall::after(const Call& call, CallResult result) {
  for (Kept& kept : tensors_) {
    const MemoryParts parts = parts_of(call.tensor(*kept.slot));
    kept.after.assign(parts.first, parts.first + parts.size);
  }
  result_ = std::move(result);
}

attest_tensor KeptCall::view_of(const Kept& kept, std::array<std::int64_t, 8>& dims) {
  attest_tensor view = kept.view;
  view.shape = dims.data();
  view.strides = dims.data() + 4;
  view.byte_offset = 0;
  return view;
}

CallCopy KeptCall::copy(bool answered) const {
  CallCopy made(call_);
  for (const Kept& kept : tensors_) {
    const std::vector<std::byte>& bytes = answered && kept.slot->written() ? kept.after : kept.before;
    CallCopy::Block block{std::make_unique<std::byte[]>(bytes.size() + alignment),
                          std::make_unique<std::array<std::int64_t, 8>>(kept.dims), nullptr, bytes.size()};
    const std::size_t phase = reinterpret_cast<std::uintptr_t>(block.memory.get()) % alignment;
    block.first = block.memory.get() + (kept.phase + alignment - phase) % alignment;
    std::memcpy(block.first, bytes.data(), bytes.size());
    attest_tensor& view = made.call_.tensor(*kept.slot);
    view = view_of(kept, *block.dims);
    view.data = block.first + kept.offset;
    made.blocks_.push_back(std::move(block));
  }
  if (has_form_) made.call_.set_form(form_.c_str());
  return made;
}

bool KeptCall::same(const CallCopy& other) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Kept& kept = tensors_[i];
    std::array<std::int64_t, 8> dims = kept.dims;
    if (!same_block(view_of(kept, dims), kept.offset, kept.after.data(), other.blocks_[i].first, kept.after.size()))
      return false;
  }
  return true;
}

bool KeptCall::same(const CallCopy& a, const CallCopy& b) {
  std::size_t block = 0;
  for (const TensorSlot& slot : a.call_.shape().tensors) {
    const attest_tensor& view = a.call_.tensor(slot);
    if (!attest_present(&view)) continue;
    const CallCopy::Block &in_a = a.blocks_[block], &in_b = b.blocks_[block];
    ++block;
    const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(view.data) - in_a.first);
    if (!same_block(view, offset, in_a.first, in_b.first, in_a.size)) return false;
  }
  return true;
}

CallCopy KeptCall::again(std::optional<std::byte> around) const {
  CallCopy made = copy(false);
  if (!around) return made;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Kept& kept = tensors_[i];
    const CallCopy::Block& block = made.blocks_[i];
    std::memset(block.first, static_cast<int>(*around), kept.offset);
    std::memset(block.first + block.size - kept.offset, static_cast<int>(*around), kept.offset);
  }
  return made;
}

bool KeptCall::same_elements(const CallCopy& a, const CallCopy& b) {
  bool same = true;
  for (const TensorSlot& slot : a.call_.shape().tensors) {
    const attest_tensor &in_a = a.call_.tensor(slot), &in_b = b.call_.tensor(slot);
    if (!attest_present(&in_a) || !slot.written()) continue;
    over_elements(in_a, [&](const std::array<Index, 4>& at) {
      same = same && equal_numbers(load(in_a, at[0], at[1], at[2], at[3]), load(in_b, at[0], at[1], at[2], at[3]));
    });
  }
  return same;
}

bool KeptCall::asks_as(const KeptCall& other) const {
  if (&call_.shape() != &other.call_.shape() || form_ != other.form_ || tensors_.size() != other.tensors_.size())
    return false;
  for (const ScalarSlot& slot : call_.shape().scalars)
    if (slot.kind == ScalarSlot::Kind::real ? call_.real(slot) != other.call_.real(slot)
                                            : call_.integer(slot) != other.call_.integer(slot))
      return false;
  return std::ranges::equal(tensors_, other.tensors_, [](const Kept& a, const Kept& b) {
    return a.slot == b.slot && a.dims == b.dims && a.phase == b.phase && a.before == b.before;
  });
}

std::vector<CallResult> Witnessing::run(std::span<const Call> calls) {
  std::vector<std::optional<KeptCall>> kept;
  for (const Call& call : calls) {
    const bool room = calls_.size() + kept.size() < most_calls && bytes_ < most_bytes;
    kept.push_back(room ? KeptCall::before(call, most_bytes - bytes_) : std::nullopt);
    if (kept.back()) bytes_ += 2 * kept.back()->bytes();
  }
  std::vector<CallResult> results = inner_.run(calls);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!kept[i]) {
      ++left_out_;
      continue;
    }
    kept[i]->after(calls[i], results.at(i));
    calls_.push_back(std::move(*kept[i]));
  }
  return results;
}

}  // namespace attest::engine
