#include "engine/saved_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.hpp"

namespace attest::engine {
namespace {

using Shape = std::array<Index, 4>;

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// The arrays of one file, found by role.
class Arrays {
 public:
  Arrays(const std::vector<NamedArray>& arrays, const SavedCallOptions& options, std::string_view what)
      : arrays_(arrays), options_(options), what_(what) {}

  // nullptr if the role is optional, nobody named its array and none has its name.
  const NamedArray* find(const std::string& role, bool needed) {
    const auto given = options_.names.find(role);
    const std::string& name = given == options_.names.end() ? role : given->second;
    const auto found = std::ranges::find(arrays_, name, &NamedArray::name);
    if (found != arrays_.end()) {
      used_.insert(name);
      return &*found;
    }
    if (!needed && given == options_.names.end()) return nullptr;
    throw usage_error(fmt::format("the {} hold no array {}: they hold {}; say which it is with --{} NAME", what_, name,
                                  names(), role));
  }
  [[nodiscard]] std::vector<std::string> unused() const {
    std::vector<std::string> rest;
    for (const NamedArray& array : arrays_)
      if (!used_.contains(array.name) && std::ranges::find(options_.ignored, array.name) == options_.ignored.end())
        rest.push_back(array.name);
    return rest;
  }

 private:
  [[nodiscard]] std::string names() const {
    std::string list;
    for (const NamedArray& array : arrays_) list += (list.empty() ? "" : ", ") + array.name;
    return list.empty() ? "none" : list;
  }
  const std::vector<NamedArray>& arrays_;
  const SavedCallOptions& options_;
  std::string_view what_;
  std::set<std::string> used_;
};

// An array as [B,H,L,D], whatever the order of its axes.
struct Operand {
  const NamedArray& array;
  Shape shape;    // [B,H,L,D]
  Shape strides;  // in elements of the array
};

Operand operand(const NamedArray& array, bool heads_inside, const std::optional<Index>& heads,
                std::string_view heads_option) {
  std::vector<Index> n = array.shape;
  if (n.size() == 3 && heads_inside && heads) {
    if (n[2] % *heads != 0)
      throw usage_error(fmt::format("{} is {}: its last axis is no multiple of {} {}", array.name, array.described(),
                                    heads_option, *heads));
    n = {n[0], n[1], *heads, n[2] / *heads};
  }
  if (n.size() != 4)
    throw usage_error(
        fmt::format("{} is {}: it must have four axes, [B,H,L,D] or under --layout bshd [B,L,H,D]; "
                    "[B,L,H*D] needs --layout bshd and --heads",
                    array.name, array.described()));
  const Shape order{n[1] * n[2] * n[3], n[2] * n[3], n[3], 1};
  if (heads_inside) return {array, {n[0], n[2], n[1], n[3]}, {order[0], order[2], order[1], 1}};
  return {array, {n[0], n[1], n[2], n[3]}, order};
}

// A number of heads that was given must be that of an array with an axis for them, too.
void require_heads(const Operand& operand, const std::optional<Index>& given, std::string_view option) {
  if (given && operand.shape[1] != *given)
    throw usage_error(fmt::format("{} is {}: that is {} heads, and {} says {}; is --layout right?", operand.array.name,
                                  operand.array.described(), operand.shape[1], option, *given));
}

// Whether a value of the array is one of `format` too.
bool belongs(Format format, double x) { return std::isnan(x) || round_to(format, x) == x; }

// What the bits of an array mean under the policy: uint16 is bf16 where bf16 is meant.
NamedArray meant(const NamedArray& array, Format format) {
  NamedArray copy = array;
  if (copy.type == NamedArray::Type::u16 && format == Format::bf16) copy.type = NamedArray::Type::bf16;
  if (!is_floating(copy.type))
    throw usage_error(fmt::format("{} is {}: it must be f16, bf16, f32 or f64{}", array.name, array.described(),
                                  array.type == NamedArray::Type::u16 ? " (uint16 is bf16 under a bf16 policy)" : ""));
  return copy;
}

// A tensor of `type` from `source`; every value must be one of `format`, which `stage` of the policy asks for.
Tensor exact_tensor(const Operand& source, DType type, Format format, std::string_view stage) {
  Tensor tensor(type, source.shape);
  const auto& [n, s] = std::pair{source.shape, source.strides};
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c) {
          const double x = source.array.at(b * s[0] + h * s[1] + i * s[2] + c * s[3]);
          if (!belongs(format, x))
            throw usage_error(
                fmt::format("{}[{},{},{},{}] is {}, which is no {}: the policy says {}={}; give the policy "
                            "the run was made in",
                            source.array.name, b, h, i, c, x, name(format), stage, name(format)));
          tensor.set(b, h, i, c, x);
        }
  return tensor;
}

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
    throw usage_error(fmt::format("{} is {}: it must broadcast to the scores, [B,H,L,S] = {}", array.name,
                                  array.described(), text(scores)));
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

Tensor bias_tensor(const NamedArray& array, Format storage, const Shape& scores) {
  if (array.type == NamedArray::Type::boolean)
    throw usage_error(fmt::format("{} is bool: a bias is added to the scores; a mask of keys to attend is --keep {}",
                                  array.name, array.name));
  const NamedArray values = meant(array, storage);
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

Tensor lse_tensor(const NamedArray& array, const attest::Problem& problem) {
  std::vector<Index> shape = array.shape;
  if (shape.size() == 4 && shape[3] == 1) shape.pop_back();
  const std::vector<Index> wanted{problem.b, problem.hq, problem.lq};
  const bool wide = array.type == NamedArray::Type::f32 || array.type == NamedArray::Type::f64;
  if (!wide || shape != wanted)
    throw usage_error(fmt::format("{} is {}: a log-sum-exp must be f32 or f64 [B,H,L] = [{}]", array.name,
                                  array.described(), fmt::join(wanted, ", ")));
  Tensor tensor(dtype_of(format_of(array.type)), wanted);
  Index flat = 0;
  for (Index b = 0; b < problem.b; ++b)
    for (Index h = 0; h < problem.hq; ++h)
      for (Index i = 0; i < problem.lq; ++i) tensor.set(b, h, i, 0, array.at(flat++));
  return tensor;
}

attest::Problem problem_of(const Operand& q, const Operand& k, const Operand& v, const Operand& out,
                           const SavedCallOptions& o) {
  const bool fit = q.shape[0] == k.shape[0] && q.shape[3] == k.shape[3] && k.shape[0] == v.shape[0] &&
                   k.shape[1] == v.shape[1] && k.shape[2] == v.shape[2];
  const Shape wanted{q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  if (!fit)
    throw usage_error(
        fmt::format("as [B,H,L,D], {} is {}, {} {} and {} {}: they do not fit each other; is --layout right?",
                    q.array.name, text(q.shape), k.array.name, text(k.shape), v.array.name, text(v.shape)));
  if (out.shape != wanted)
    throw usage_error(fmt::format("as [B,H,L,D], {} is {}: q, k and v give {}; is --layout right?", out.array.name,
                                  text(out.shape), text(wanted)));
  attest::Problem problem;
  problem.b = q.shape[0], problem.hq = q.shape[1], problem.lq = q.shape[2], problem.d = q.shape[3];
  problem.hkv = k.shape[1], problem.lk = k.shape[2], problem.dv = v.shape[3];
  problem.dtype = o.policy[Stage::storage];
  problem.scale = o.scale;
  problem.softcap = o.softcap;
  problem.causal = o.causal;
  problem.align = o.align;
  problem.window_left = o.window_left;
  problem.window_right = o.window_right;
  problem.rows = o.rows;
  validate(problem);
  return problem;
}

}  // namespace

SavedCall saved_call(const std::vector<NamedArray>& in, const std::vector<NamedArray>& outputs,
                     const SavedCallOptions& options) {
  Arrays given(in, options, "inputs"), results(outputs, options, "outputs");
  const Format storage = options.policy[Stage::storage];
  const NamedArray q = meant(*given.find("q", true), storage), k = meant(*given.find("k", true), storage),
                   v = meant(*given.find("v", true), storage),
                   out = meant(*results.find("out", true), options.policy[Stage::output]);
  const NamedArray *bias = given.find("bias", false), *keep = given.find("keep", false),
                   *lengths = given.find("kv_lengths", false), *lse = results.find("lse", false);
  // One file may hold both: what is a result is no input that was forgotten.
  for (const std::string& name : given.unused())
    if (name != out.name && (lse == nullptr || name != lse->name))
      throw usage_error(
          fmt::format("the inputs hold an array {} that nothing asks for: say what it is (--bias, --keep, "
                      "--kv_lengths {}), or --ignore {} if this call does not use it",
                      name, name, name));
  const auto kv_heads = options.kv_heads ? options.kv_heads : options.heads;
  const auto inside = [&](std::string_view role) { return options.heads_inside.contains(role); };
  const Operand q_operand = operand(q, inside("q"), options.heads, "--heads"),
                k_operand = operand(k, inside("k"), kv_heads, "--kv-heads"),
                v_operand = operand(v, inside("v"), kv_heads, "--kv-heads"),
                out_operand = operand(out, inside("out"), options.heads, "--heads");
  for (const Operand* of_queries : {&q_operand, &out_operand}) require_heads(*of_queries, options.heads, "--heads");
  for (const Operand* of_keys : {&k_operand, &v_operand}) require_heads(*of_keys, options.kv_heads, "--kv-heads");
  SavedCall call;
  call.problem = problem_of(q_operand, k_operand, v_operand, out_operand, options);
  const attest::Problem& p = call.problem;
  const Shape scores{p.b, p.hq, p.lq, p.lk};
  call.inputs.q = exact_tensor(q_operand, dtype_of(storage), storage, "storage");
  call.inputs.k = exact_tensor(k_operand, dtype_of(storage), storage, "storage");
  call.inputs.v = exact_tensor(v_operand, dtype_of(storage), storage, "storage");
  call.out = exact_tensor(out_operand, dtype_of(format_of(out.type)), options.policy[Stage::output], "output");
  if (bias != nullptr) call.inputs.bias = bias_tensor(*bias, storage, scores);
  if (keep != nullptr) call.inputs.keep = keep_tensor(*keep, scores);
  if (lengths != nullptr) call.inputs.kv_lengths = lengths_tensor(*lengths, p.b, p.lk);
  if (lse != nullptr) call.lse = lse_tensor(*lse, p);
  call.inputs.scale = p.effective_scale();
  call.inputs.scale_is_default = !p.scale;
  call.inputs.softcap = p.softcap;
  call.inputs.causal = p.causal;
  call.inputs.align = p.align;
  call.inputs.window_left = p.window_left;
  call.inputs.window_right = p.window_right;
  for (const NamedArray* array : {&q, &k, &v})
    if (format_of(array->type) != storage)
      call.notes.push_back(fmt::format("{} is saved as {}; every value of it is {}, so it is taken as that",
                                       array->name, name(array->type), name(storage)));
  if (const Format stage = options.policy[Stage::output]; narrower(format_of(out.type), stage))
    call.notes.push_back(
        fmt::format("{} is saved as {}, and the policy's output is {}: what that rounded away is not judged", out.name,
                    name(out.type), name(stage)));
  for (const std::string& name : results.unused())
    if (std::ranges::find(in, name, &NamedArray::name) == in.end())
      call.notes.push_back(fmt::format("the outputs hold an array {} that is not judged", name));
  return call;
}

}  // namespace attest::engine
