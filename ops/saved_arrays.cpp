#include "ops/saved_arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "core/field.hpp"

namespace attest::ops {
namespace {

using Shape = std::array<Index, 4>;

// An array broadcast to [B,H,L,S] as NumPy does it: axes from the right, 1 or whole.
Tensor broadcast(const NamedArray& array, DType type, const Shape& scores) {
  Shape shape{1, 1, 1, 1}, strides{};
  const std::size_t axes = array.shape.size();
  bool fits = axes <= 4;
  for (std::size_t back = 1; fits && back <= axes; ++back) {
    shape[4 - back] = array.shape[axes - back];
    fits = shape[4 - back] == scores[4 - back] || shape[4 - back] == 1;
  }
  if (!fits)
    throw usage_error(fmt::format("{} is {}: it must broadcast to the scores, [B,H,L,S] = [{}]", array.name,
                                  array.described(), fmt::join(scores, ", ")));
  Index stride = 1;
  for (std::size_t axis = 4; axis-- > 0; stride *= std::max<Index>(shape[axis], 1))
    strides[axis] = shape[axis] == scores[axis] ? stride : 0;
  Tensor tensor(type, scores, strides);
  Index flat = 0;
  for (Index b = 0; b < shape[0]; ++b)
    for (Index h = 0; h < shape[1]; ++h)
      for (Index i = 0; i < shape[2]; ++i)
        for (Index j = 0; j < shape[3]; ++j)
          if (scores[0] * scores[1] * scores[2] * scores[3] > 0) tensor.set(b, h, i, j, array.at(flat++));
  return tensor;
}

}  // namespace

const NamedArray* SavedArrays::find(const std::string& role, bool needed) {
  const auto given = names_.find(role);
  const std::string& name = given == names_.end() ? role : given->second;
  const auto found = std::ranges::find(arrays_, name, &NamedArray::name);
  if (found != arrays_.end()) {
    used_.insert(name);
    return &*found;
  }
  if (!needed && given == names_.end()) return nullptr;
  throw usage_error(fmt::format("the {} hold no array {}: they hold {}; say which it is with --{} NAME", what_, name,
                                all_names(), role));
}

std::vector<std::string> SavedArrays::unused(const std::vector<std::string>& ignored) const {
  std::vector<std::string> rest;
  for (const NamedArray& array : arrays_)
    if (!used_.contains(array.name) && std::ranges::find(ignored, array.name) == ignored.end())
      rest.push_back(array.name);
  return rest;
}

std::string SavedArrays::all_names() const {
  std::string list;
  for (const NamedArray& array : arrays_) list += (list.empty() ? "" : ", ") + array.name;
  return list.empty() ? "none" : list;
}

NamedArray meant_array(const NamedArray& array, Format format) {
  NamedArray copy = array;
  if (const auto meant = named_type(dtype_of(format)); holds_bits_of(copy, meant)) copy.type = meant;
  if (!is_floating(copy.type))
    throw usage_error(fmt::format("{} is {}: it must be {}{}", array.name, array.described(), stored_format_names(),
                                  array.type == NamedArray::Type::u16 ? " (uint16 is bf16 under a bf16 policy)" : ""));
  return copy;
}

void require_shape(const NamedArray& array, const std::vector<Index>& wanted, std::string_view of) {
  if (array.shape != wanted)
    throw usage_error(
        fmt::format("{} is {}: it must be [{}], as {} is", array.name, array.described(), fmt::join(wanted, ", "), of));
}

bool holds_only(Format format, const NamedArray& array) {
  for (Index n = 0; n < array.size(); ++n)
    if (const double x = array.at(n); !std::isnan(x) && round_to(format, x) != x) return false;
  return true;
}

void require_number_of(Format format, std::string_view stage, double x, const NamedArray& array,
                       std::span<const Index> index) {
  if (std::isnan(x) || round_to(format, x) == x) return;
  throw usage_error(
      fmt::format("{}[{}] is {}, which is no {}: the policy says {}={}; give the policy "
                  "the run was made in",
                  array.name, fmt::join(index, ","), x, name(format), stage, name(format)));
}

void note_widened(const std::vector<const NamedArray*>& inputs, Format storage, std::vector<std::string>& notes) {
  for (const NamedArray* array : inputs)
    if (format_of(array->type) != storage)
      notes.push_back(fmt::format("{} is saved as {}; every value of it is {}, so it is taken as that", array->name,
                                  name(array->type), name(storage)));
}

void note_narrowed(const NamedArray& out, Format stage, std::vector<std::string>& notes) {
  if (narrower(format_of(out.type), stage))
    notes.push_back(
        fmt::format("{} is saved as {}, and the policy's output is {}: what that rounded away is not judged", out.name,
                    name(out.type), name(stage)));
}

void note_unjudged(const std::vector<std::string>& unused, const std::vector<NamedArray>& inputs,
                   std::vector<std::string>& notes) {
  for (const std::string& name : unused)
    if (std::ranges::find(inputs, name, &NamedArray::name) == inputs.end())
      notes.push_back(fmt::format("the outputs hold an array {} that is not judged", name));
}

void refuse_unused(const std::vector<std::string>& unused, const std::vector<const NamedArray*>& results,
                   std::string_view roles) {
  for (const std::string& name : unused) {
    const auto is_result = [&](const NamedArray* array) { return array != nullptr && array->name == name; };
    if (std::ranges::any_of(results, is_result)) continue;
    throw usage_error(
        fmt::format("the inputs hold an array {} that nothing asks for: say what it is ({} {}), or --ignore {} if this "
                    "call does not use it",
                    name, roles, name, name));
  }
}

Tensor bias_tensor(const NamedArray& array, Format storage, const Shape& scores) {
  if (array.type == NamedArray::Type::boolean)
    throw usage_error(fmt::format("{} is bool: a bias is added to the scores; a mask of keys to attend is --keep {}",
                                  array.name, array.name));
  const NamedArray values = meant_array(array, storage);
  return broadcast(values, dtype_of(format_of(values.type)), scores);
}

Tensor keep_tensor(const NamedArray& array, const Shape& scores) {
  const bool integers = array.type == NamedArray::Type::i32 || array.type == NamedArray::Type::i64;
  bool flags = array.type == NamedArray::Type::boolean || integers;
  for (Index n = 0; integers && flags && n < array.size(); ++n) flags = array.at(n) == 0 || array.at(n) == 1;
  if (!flags)
    throw usage_error(fmt::format("{} is {}: keep must be bool, or integers 0 and 1, where 1 is a key to attend",
                                  array.name, array.described()));
  return broadcast(array, DType::boolean, scores);
}

Tensor lengths_tensor(const NamedArray& array, Index batch, Index keys) {
  const bool integers = array.type == NamedArray::Type::i32 || array.type == NamedArray::Type::i64;
  if (!integers || array.shape != std::vector<Index>{batch})
    throw usage_error(fmt::format("{} is {}: kv_lengths must be i32 or i64 [{}], one length a sample", array.name,
                                  array.described(), batch));
  const Index shape[] = {batch};
  Tensor tensor(DType::i32, shape);
  for (Index b = 0; b < batch; ++b) {
    const double length = array.at(b);
    if (!(length >= 0 && length <= static_cast<double>(keys)))
      throw usage_error(fmt::format("{}[{}] is {}: a length must be in 0..{}", array.name, b, length, keys));
    tensor.set(b, 0, 0, 0, length);
  }
  return tensor;
}

std::map<std::string, std::string, std::less<>> saved_names(const SavedWords& words,
                                                            std::span<const std::string_view> roles) {
  std::map<std::string, std::string, std::less<>> names;
  for (const std::string_view role : roles)
    if (const auto name = words.text(role)) names[std::string(role)] = *name;
  return names;
}

std::vector<std::string> saved_ignored(const SavedWords& words) {
  std::vector<std::string> ignored;
  const std::string text = words.text("ignore").value_or("");
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    ignored.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return ignored;
}

std::vector<OtherCall> calls_by_causality() {
  const std::optional<std::string> flag(""), out;
  return {{"the call is causal", {{"causal", flag}}},
          {"the call is not causal", {{"causal", out}}},
          {"the diagonal begins at the bottom right", {{"align", "bottom_right"}}},
          {"the diagonal begins at the top left", {{"align", out}}},
          {"the call is causal, and its diagonal begins at the bottom right",
           {{"causal", flag}, {"align", "bottom_right"}}}};
}

std::vector<OtherCall> calls_with_ignored(const SavedWords& words,
                                          std::initializer_list<std::pair<std::string_view, std::string_view>> roles) {
  std::vector<OtherCall> calls;
  for (const std::string& name : saved_ignored(words))
    for (const auto& [role, meaning] : roles)
      calls.push_back({fmt::format("{} is {}", name, meaning), {{std::string(role), name}}});
  return calls;
}

void require_few_numbers(const std::vector<NamedTensor>& inputs) {
  Index numbers = 0;
  for (const NamedTensor& input : inputs) {
    Index size = 1;
    for (std::size_t axis = 0; axis < input.tensor->shape().size(); ++axis)
      if (input.tensor->strides()[axis] != 0) size *= input.tensor->shape()[axis];
    numbers += size;
  }
  if (numbers > most_saved_numbers)
    throw usage_error(
        fmt::format("{} numbers of the call are to be set by hand, and a reproducer holds {}: save a smaller call",
                    numbers, most_saved_numbers));
}

std::optional<double> saved_real(const SavedWords& words, std::string_view key) {
  const auto text = words.text(key);
  if (!text) return std::nullopt;
  const auto value = parse_double(*text);
  if (!value) throw usage_error(fmt::format("{} {}: it must be a number", words.origin(key), *text));
  return value;
}

bool saved_choice(const SavedWords& words, std::string_view key, std::string_view first, std::string_view second) {
  const auto text = words.text(key);
  if (text && *text != first && *text != second)
    throw usage_error(fmt::format("{} {}: it must be {} or {}", words.origin(key), *text, first, second));
  return text == second;
}

std::optional<Index> saved_count(const SavedWords& words, std::string_view key, std::uint64_t lo) {
  const auto n = words.integer(key, lo, std::uint64_t{1} << 30);
  return n ? std::optional(static_cast<Index>(*n)) : std::nullopt;
}

}  // namespace attest::ops
