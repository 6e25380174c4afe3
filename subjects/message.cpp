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

std::string_view dtype_name(attest_dtype type) {
  const std::optional<DType> known = dtype_of(type);
  if (!known) throw internal_error("a call holds a tensor of a type that attest does not have");
  return name(*known);
}

attest_dtype dtype_from(const std::string& text) {
  for (int n = 0; n < dtype_count; ++n)
    if (name(static_cast<DType>(n)) == text) return plugin_dtype(static_cast<DType>(n));
  throw usage_error("there is no dtype '" + one_line(text) + "'");
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

// Tells whether the elements of a view lie within `bytes` of its first, without overflow on the way.
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

const CallShape& shape_named(const json& object) {
  const std::string op = object.value("op", "");
  const CallShape* const shape = find_call_shape(op);
  if (shape == nullptr) throw usage_error("there is no operation '" + one_line(op) + "'");
  return *shape;
}

std::span<const std::byte> take_bytes(std::span<const std::byte>& packed, std::size_t bytes) {
  if (packed.size() < bytes) throw usage_error("the call is shorter than docs/worker.md says");
  const std::span<const std::byte> taken = packed.first(bytes);
  packed = packed.subspan(bytes);
  return taken;
}
template <class T>
T read_at(std::span<const std::byte> bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
template <class T>
T take(std::span<const std::byte>& packed) {
  return read_at<T>(take_bytes(packed, sizeof(T)), 0);
}

const CallShape& shape_numbered(std::span<const std::byte> packed) {
  const auto head = take<PackedCall>(packed);
  const CallShape* const shape = find_call_shape(head.op);
  if (shape == nullptr) throw usage_error(fmt::format("there is no operation {}", head.op));
  return *shape;
}

}  // namespace

double finite(const Call& call, const ScalarSlot& scalar) {
  const double value = call.real(scalar);
  if (!std::isfinite(value))
    throw internal_error(fmt::format("a call whose {} is no number cannot be sent to a worker", scalar.name));
  return value;
}

void append_call(std::string& line, const Call& call, const TensorOffsets& offsets) {
  auto out = std::back_inserter(line);
  fmt::format_to(out, R"({{"op":"{}")", call.shape().op);
  const std::span<const TensorSlot> tensors = call.shape().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const attest_tensor& view = call.tensor(tensors[i]);
    if (!attest_present(&view)) continue;
    fmt::format_to(out, R"(,"{}":{{"offset":{},"dtype":"{}","shape":)", tensors[i].name, offsets[i],
                   dtype_name(view.dtype));
    append_axes(line, view.shape, view.ndim);
    line += R"(,"strides":)";
    append_axes(line, view.strides, view.ndim);
    line += '}';
  }
  for (const ScalarSlot& scalar : call.shape().scalars) {
    fmt::format_to(out, R"(,"{}":)", scalar.name);
    switch (scalar.kind) {
      case ScalarSlot::Kind::real:
        fmt::format_to(out, "{}", finite(call, scalar));
        break;
      case ScalarSlot::Kind::flag:
      case ScalarSlot::Kind::bit:
        fmt::format_to(out, "{}", call.integer(scalar) != 0);
        break;
      case ScalarSlot::Kind::small:
      case ScalarSlot::Kind::whole:
        fmt::format_to(out, "{}", call.integer(scalar));
        break;
    }
  }
  if (call.form() != nullptr) fmt::format_to(out, R"(,"form":{})", call.form());
  line += '}';
}

void ReceivedCall::place(std::size_t slot, attest_dtype dtype, std::span<const std::int64_t> shape,
                         std::span<const std::int64_t> strides, std::size_t offset, std::span<std::byte> arena) {
  const TensorSlot& its = call.shape().tensors[slot];
  attest_tensor& view = call.tensor(its);
  const auto negative = [](std::int64_t n) { return n < 0; };
  if (shape.empty() || shape.size() > 4 || strides.size() != shape.size() || std::ranges::any_of(shape, negative) ||
      std::ranges::any_of(strides, negative))
    throw usage_error(fmt::format("{} has an impossible shape", its.name));
  view.ndim = static_cast<std::int32_t>(shape.size());
  view.shape = axes_[slot].data();
  view.strides = axes_[slot].data() + 4;
  std::ranges::copy(shape, view.shape);
  std::ranges::copy(strides, view.strides);
  view.dtype = dtype;
  if (offset > arena.size() || !fits_in(view, arena.size() - offset))
    throw usage_error(fmt::format("{} lies outside the arena", its.name));
  view.data = arena.data() + offset;
}

ReceivedCall::ReceivedCall(const json& object, std::byte* arena, std::size_t arena_bytes) try
    : call(shape_named(object)) {
  const std::span<const TensorSlot> tensors = call.shape().tensors;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    call.tensor(tensors[i]).device = {ATTEST_CPU, 0};
    const auto found = object.find(tensors[i].name);
    if (found == object.end()) continue;
    const auto shape = numbers(found->at("shape")), strides = numbers(found->at("strides"));
    const attest_dtype dtype = dtype_from(found->at("dtype").get_ref<const std::string&>());
    const auto offset = static_cast<std::size_t>(whole(found->at("offset")));  // a negative one lies past every arena
    place(i, dtype, shape, strides, offset, {arena, arena_bytes});
  }
  for (const ScalarSlot& scalar : call.shape().scalars) {
    const json& value = object.at(std::string(scalar.name));
    switch (scalar.kind) {
      case ScalarSlot::Kind::real:
        call.set_real(scalar, value.get<double>());
        break;
      case ScalarSlot::Kind::flag:
      case ScalarSlot::Kind::bit:
        call.set_integer(scalar, value.get<bool>());
        break;
      case ScalarSlot::Kind::small:
        call.set_integer(scalar, small(value));
        break;
      case ScalarSlot::Kind::whole:
        call.set_integer(scalar, whole(value));
        break;
    }
  }
  if (const auto form = object.find("form"); form != object.end()) {
    form_ = forms_json(forms_from_json(*form));
    if (!form_.empty()) call.set_form(form_.c_str());
  }
} catch (const json::exception& error) {
  throw usage_error(std::string("the call is not as docs/worker.md says: ") + error.what());
}

ReceivedCall::ReceivedCall(std::span<const std::byte> packed, std::byte* arena, std::size_t arena_bytes)
    : call(shape_numbered(packed)) {
  const CallShape& shape = call.shape();
  const auto head = take<PackedCall>(packed);
  const std::span<const std::byte> scalars = take_bytes(packed, shape.packed_bytes);
  for (std::size_t i = 0; i < shape.tensors.size(); ++i) {
    call.tensor(shape.tensors[i]).device = {ATTEST_CPU, 0};
    if ((head.tensors >> i & 1) == 0) continue;
    const auto tensor = take<PackedTensor>(packed);
    if (tensor.dtype >= dtype_count) throw usage_error(fmt::format("there is no dtype {}", tensor.dtype));
    const std::size_t axes = tensor.ndim <= 4 ? tensor.ndim : 0;  // a tensor has at least one
    place(i, plugin_dtype(static_cast<DType>(tensor.dtype)), {tensor.shape, axes}, {tensor.strides, axes},
          tensor.offset, {arena, arena_bytes});
  }
  for (const ScalarSlot& scalar : shape.scalars) {
    switch (scalar.kind) {
      case ScalarSlot::Kind::real:
        call.set_real(scalar, read_at<double>(scalars, scalar.packed));
        break;
      case ScalarSlot::Kind::flag:
      case ScalarSlot::Kind::bit:
        call.set_integer(scalar, head.flags >> scalar.packed & 1);
        break;
      case ScalarSlot::Kind::small:
        call.set_integer(scalar, read_at<std::int32_t>(scalars, scalar.packed));
        break;
      case ScalarSlot::Kind::whole:
        call.set_integer(scalar, read_at<std::int64_t>(scalars, scalar.packed));
        break;
    }
  }
  const auto form_bytes = read_at<std::uint32_t>(scalars, shape.packed_form);
  if (form_bytes > packed.size()) throw usage_error("the form is longer than the call");
  form_.assign(reinterpret_cast<const char*>(packed.data()), form_bytes);
  if (!form_.empty()) call.set_form(form_.c_str());
}

json parse_foreign(std::string_view text) {
  constexpr int deepest = 32;
  return parse_json_or_discard(text, deepest);
}

std::string one_line(std::string_view text, std::size_t most) {
  std::string line(text.substr(0, most));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return text.size() > most ? line + " ..." : line;
}

}  // namespace attest
