#include "subjects/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/tensor.hpp"

namespace attest {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 6> dtype_names{"f16", "bf16", "f32", "f64", "i32", "bool"};  // in DType's order

const char* dtype_name(attest_dtype type) {
  const std::optional<DType> known = dtype_of(type);
  if (!known) throw internal_error("a call holds a tensor of a type that attest does not have");
  return dtype_names[static_cast<std::size_t>(*known)];
}

attest_dtype dtype_from(const std::string& name) {
  const auto found = std::find(dtype_names.begin(), dtype_names.end(), name);
  if (found == dtype_names.end()) throw usage_error("there is no dtype '" + one_line(name) + "'");
  return plugin_dtype(static_cast<DType>(found - dtype_names.begin()));
}

void append_axes(std::string& line, const std::int64_t* values, std::int32_t count) {
  fmt::format_to(std::back_inserter(line), "[{}]", fmt::join(values, values + count, ","));
}

}  // namespace

std::size_t span_of(const attest_tensor& view) noexcept {
  std::int64_t last = 0;
  for (std::int32_t axis = 0; axis < view.ndim; ++axis) {
    if (view.shape[axis] == 0) return 0;
    last += (view.shape[axis] - 1) * view.strides[axis];
  }
  return static_cast<std::size_t>(last + 1) * (view.dtype.bits / 8u);
}

void append_call(std::string& line, const attest_attention& call, const TensorOffsets& offsets) {
  if (!std::isfinite(call.scale) || !std::isfinite(call.softcap))
    throw internal_error("a call with a scale or softcap that is no number cannot be sent to a worker");
  auto out = std::back_inserter(line);
  line += R"({"op":"attention")";
  for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
    const attest_tensor& view = call.*tensor_fields[i].member;
    if (!attest_present(&view)) continue;
    fmt::format_to(out, R"(,"{}":{{"offset":{},"dtype":"{}","shape":)", tensor_fields[i].name, offsets[i],
                   dtype_name(view.dtype));
    append_axes(line, view.shape, view.ndim);
    line += R"(,"strides":)";
    append_axes(line, view.strides, view.ndim);
    line += '}';
  }
  fmt::format_to(out,
                 R"(,"scale":{},"scale_is_default":{},"softcap":{},"causal":{},"align":{},"window_left":{},)"
                 R"("window_right":{},"threads":{}}})",
                 call.scale, (call.flags & ATTEST_SCALE_IS_DEFAULT) != 0, call.softcap, call.causal != 0, call.align,
                 call.window_left, call.window_right, call.threads);
}

ReceivedCall::ReceivedCall(const json& object, std::byte* arena, std::size_t arena_bytes) try {
  call.struct_size = sizeof call;
  for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
    attest_tensor& view = call.*tensor_fields[i].member;
    view.device = {ATTEST_CPU, 0};
    const auto found = object.find(tensor_fields[i].name);
    if (found == object.end()) continue;
    const auto shape = found->at("shape").get<std::vector<std::int64_t>>();
    const auto strides = found->at("strides").get<std::vector<std::int64_t>>();
    if (shape.empty() || shape.size() > 4 || strides.size() != shape.size())
      throw usage_error(fmt::format("{} has an impossible shape", tensor_fields[i].name));
    view.ndim = static_cast<std::int32_t>(shape.size());
    view.shape = axes_[i].data();
    view.strides = axes_[i].data() + 4;
    std::copy(shape.begin(), shape.end(), view.shape);
    std::copy(strides.begin(), strides.end(), view.strides);
    view.dtype = dtype_from(found->at("dtype").get_ref<const std::string&>());
    const auto offset = found->at("offset").get<std::size_t>();
    if (offset > arena_bytes || span_of(view) > arena_bytes - offset)
      throw usage_error(fmt::format("{} lies outside the arena", tensor_fields[i].name));
    view.data = arena + offset;
  }
  call.scale = object.at("scale").get<double>();
  call.flags = object.at("scale_is_default").get<bool>() ? ATTEST_SCALE_IS_DEFAULT : 0;
  call.softcap = object.at("softcap").get<double>();
  call.causal = object.at("causal").get<bool>();
  call.align = object.at("align").get<std::int32_t>();
  call.window_left = object.at("window_left").get<std::int64_t>();
  call.window_right = object.at("window_right").get<std::int64_t>();
  call.threads = object.at("threads").get<std::int32_t>();
} catch (const json::exception& error) {
  throw usage_error(std::string("the call is not as docs/worker.md says: ") + error.what());
}

json parse_foreign(std::string_view text) {
  constexpr int deepest = 32;
  return json::parse(
      text, [](int depth, json::parse_event_t, json&) { return depth <= deepest; }, false);
}

std::string one_line(std::string_view text) {
  constexpr std::size_t most = 400;
  std::string line(text.substr(0, most));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return text.size() > most ? line + " ..." : line;
}

}  // namespace attest
