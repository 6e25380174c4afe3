#include "subjects/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "core/forms.hpp"
#include "core/json_text.hpp"
#include "core/tensor.hpp"
#include "subjects/packed_call.hpp"

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

// A whole number of a message: conversions from other numbers would wrap round silently.
std::int64_t whole(const json& value) {
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() >> 63 == 0);
  if (!fits) throw usage_error("'" + one_line(json_text(value)) + "' is no whole number of 64 bits");
  return value.get<std::int64_t>();
}

std::int32_t small(const json& value) {
  const std::int64_t number = whole(value);
  if (number != static_cast<std::int32_t>(number))
    throw usage_error("'" + std::to_string(number) + "' is no whole number of 32 bits");
  return static_cast<std::int32_t>(number);
}

std::vector<std::int64_t> numbers(const json& list) {
  std::vector<std::int64_t> values;
  if (list.is_array())
    for (const json& number : list) values.push_back(whole(number));
  return values;
}

// Whether the elements of a view lie within `bytes` of its first, without overflow on the way.
bool fits_in(const attest_tensor& view, std::size_t bytes) {
  std::int64_t last = 0, reach = 0;
  for (std::int32_t axis = 0; axis < view.ndim; ++axis) {
    if (view.shape[axis] == 0) return true;
    if (__builtin_mul_overflow(view.shape[axis] - 1, view.strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return static_cast<std::size_t>(last) < bytes / (view.dtype.bits / 8u);
}

}  // namespace

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
                 R"("window_right":{},"threads":{})",
                 call.scale, (call.flags & ATTEST_SCALE_IS_DEFAULT) != 0, call.softcap, call.causal != 0, call.align,
                 call.window_left, call.window_right, call.threads);
  if (call.form != nullptr) fmt::format_to(out, R"(,"form":{})", call.form);
  line += '}';
}

void ReceivedCall::place(std::size_t field, attest_dtype dtype, std::span<const std::int64_t> shape,
                         std::span<const std::int64_t> strides, std::size_t offset, std::span<std::byte> arena) {
  const TensorField& its = tensor_fields[field];
  attest_tensor& view = call.*its.member;
  const auto negative = [](std::int64_t n) { return n < 0; };
  if (shape.empty() || shape.size() > 4 || strides.size() != shape.size() || std::ranges::any_of(shape, negative) ||
      std::ranges::any_of(strides, negative))
    throw usage_error(fmt::format("{} has an impossible shape", its.name));
  view.ndim = static_cast<std::int32_t>(shape.size());
  view.shape = axes_[field].data();
  view.strides = axes_[field].data() + 4;
  std::ranges::copy(shape, view.shape);
  std::ranges::copy(strides, view.strides);
  view.dtype = dtype;
  if (offset > arena.size() || !fits_in(view, arena.size() - offset))
    throw usage_error(fmt::format("{} lies outside the arena", its.name));
  view.data = arena.data() + offset;
}

ReceivedCall::ReceivedCall(const json& object, std::byte* arena, std::size_t arena_bytes) try {
  call.struct_size = sizeof call;
  for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
    (call.*tensor_fields[i].member).device = {ATTEST_CPU, 0};
    const auto found = object.find(tensor_fields[i].name);
    if (found == object.end()) continue;
    const auto shape = numbers(found->at("shape")), strides = numbers(found->at("strides"));
    const attest_dtype dtype = dtype_from(found->at("dtype").get_ref<const std::string&>());
    const auto offset = static_cast<std::size_t>(whole(found->at("offset")));  // a negative one lies past every arena
    place(i, dtype, shape, strides, offset, {arena, arena_bytes});
  }
  call.scale = object.at("scale").get<double>();
  call.flags = object.at("scale_is_default").get<bool>() ? ATTEST_SCALE_IS_DEFAULT : 0;
  call.softcap = object.at("softcap").get<double>();
  call.causal = object.at("causal").get<bool>();
  call.align = small(object.at("align"));
  call.window_left = whole(object.at("window_left"));
  call.window_right = whole(object.at("window_right"));
  call.threads = small(object.at("threads"));
  if (const auto form = object.find("form"); form != object.end()) {
    form_ = forms_json(forms_from_json(*form));
    if (!form_.empty()) call.form = form_.c_str();
  }
} catch (const json::exception& error) {
  throw usage_error(std::string("the call is not as docs/worker.md says: ") + error.what());
}

ReceivedCall::ReceivedCall(std::span<const std::byte> packed, std::byte* arena, std::size_t arena_bytes) {
  const auto take = [&](auto& what) {
    if (packed.size() < sizeof what) throw usage_error("the call is shorter than docs/worker.md says");
    std::memcpy(&what, packed.data(), sizeof what);
    packed = packed.subspan(sizeof what);
  };
  PackedCall head{};
  take(head);
  if (head.op != 0) throw usage_error(fmt::format("there is no operation {}", head.op));
  call.struct_size = sizeof call;
  for (std::size_t i = 0; i < tensor_fields.size(); ++i) {
    (call.*tensor_fields[i].member).device = {ATTEST_CPU, 0};
    if ((head.tensors >> i & 1) == 0) continue;
    PackedTensor tensor{};
    take(tensor);
    if (tensor.dtype >= dtype_names.size()) throw usage_error(fmt::format("there is no dtype {}", tensor.dtype));
    const std::size_t axes = tensor.ndim <= 4 ? tensor.ndim : 0;  // which no tensor has
    place(i, plugin_dtype(static_cast<DType>(tensor.dtype)), {tensor.shape, axes}, {tensor.strides, axes},
          tensor.offset, {arena, arena_bytes});
  }
  call.scale = head.scale;
  call.flags = (head.flags & PackedCall::scale_is_default) != 0 ? ATTEST_SCALE_IS_DEFAULT : 0;
  call.softcap = head.softcap;
  call.causal = (head.flags & PackedCall::causal) != 0;
  call.align = head.align;
  call.window_left = head.window_left;
  call.window_right = head.window_right;
  call.threads = head.threads;
  if (head.form_bytes > packed.size()) throw usage_error("the form is longer than the call");
  form_.assign(reinterpret_cast<const char*>(packed.data()), head.form_bytes);
  if (!form_.empty()) call.form = form_.c_str();
}

json parse_foreign(std::string_view text) {
  constexpr int deepest = 32;
  return parse_json_or_discard(text, deepest);
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
