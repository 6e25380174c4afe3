#include "kernels/call.hpp"

#include <cstring>
#include <string>

#include "core/error.hpp"

namespace attest::kernels {
namespace {

Index extent(const attest_tensor& tensor, int axis) { return tensor.shape[axis]; }

View optional_view(const attest_tensor& tensor) { return attest_present(&tensor) ? strided(tensor) : View{}; }

}  // namespace

View strided(const attest_tensor& tensor) {
  const auto type = dtype_of(tensor.dtype);
  if (!type) {
    throw usage_error("a tensor of type code " + std::to_string(tensor.dtype.code) + " with " +
                      std::to_string(tensor.dtype.bits) + " bits is none that attention knows; pass " +
                      stored_format_names());
  }
  View view{static_cast<std::byte*>(tensor.data) + tensor.byte_offset, *type, {}};
  std::copy_n(tensor.strides, tensor.ndim, view.strides.begin());
  return view;
}

Index Call::length(Index sample) const noexcept {
  if (!kv_lengths) return lk;
  std::int32_t value;
  std::memcpy(&value, kv_lengths.at(sample, 0), sizeof value);
  return value;
}

double Call::work() const noexcept { return static_cast<double>(b * hq * lq) * static_cast<double>(lk * (d + dv)); }

Call make_call(const attest_attention& attention, const Contract& contract, View (*view)(const attest_tensor&)) {
  Call call;
  call.q = view(attention.q);
  call.k = view(attention.k);
  call.v = view(attention.v);
  call.out = strided(attention.out);
  call.bias = optional_view(attention.bias);
  call.keep = optional_view(attention.keep);
  call.kv_lengths = optional_view(attention.kv_lengths);
  call.lse = optional_view(attention.lse);
  const DType storage = dtype_of(contract.policy[Stage::storage]);
  if (call.q.type != storage || call.k.type != storage || call.v.type != storage || call.out.type != storage) {
    throw usage_error("q, k, v and out must be " + std::string(name(contract.policy[Stage::storage])) +
                      ", the storage format of policy " + to_text(contract.policy) + "; choose a policy of their type");
  }
  call.b = extent(attention.q, 0);
  call.hq = extent(attention.q, 1);
  call.lq = extent(attention.q, 2);
  call.d = extent(attention.q, 3);
  call.hkv = extent(attention.k, 1);
  call.lk = extent(attention.k, 2);
  call.dv = extent(attention.v, 3);
  call.policy = contract.policy;
  call.scale = round_to(contract.policy[Stage::scale], attention.scale);
  call.softcap = attention.softcap;
  call.softcap_before_bias = contract.softcap_before_bias;
  call.empty_row = contract.empty_row;
  call.causal = attention.causal != 0;
  call.align = attention.align == ATTEST_TOP_LEFT ? Align::top_left : Align::bottom_right;
  call.window_left = std::min(attention.window_left, call.lq + call.lk);
  call.window_right = std::min(attention.window_right, call.lq + call.lk);
  call.threads = attention.threads;
  return call;
}

bool computes_in_double(const Policy& policy) noexcept {
  for (std::size_t stage = 0; stage < stage_count; ++stage)
    if (policy[static_cast<Stage>(stage)] == Format::f64) return true;
  return false;
}

}  // namespace attest::kernels
