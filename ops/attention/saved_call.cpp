#include "ops/attention/saved_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>

#include "core/digest.hpp"
#include "core/error.hpp"
#include "core/npz_writer.hpp"
#include "ops/attention/parts.hpp"
#include "ops/saved_arrays.hpp"

namespace attest::ops::of_attention {
namespace {

using Shape = std::array<Index, 4>;

std::string text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// An array as [B,H,L,D], whatever the order of its axes.
struct Operand {
  const NamedArray& array;
  Shape shape;             // [B,H,L,D]
  Shape strides;           // in elements of the array
  Index heads = shape[1];  // the array's heads: head h of the tensor is its head h % heads
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

// A tensor of `type` from `source`; every value must be one of `format`, which `stage` of the policy asks for.
Tensor exact_tensor(const Operand& source, DType type, Format format, std::string_view stage) {
  Tensor tensor(type, source.shape);
  const auto& [n, s] = std::pair{source.shape, source.strides};
  for (Index b = 0; b < n[0]; ++b)
    for (Index h = 0; h < n[1]; ++h)
      for (Index i = 0; i < n[2]; ++i)
        for (Index c = 0; c < n[3]; ++c) {
          const double x = source.array.at(b * s[0] + h % source.heads * s[1] + i * s[2] + c * s[3]);
          require_number_of(format, stage, x, source.array, std::array{b, h, i, c});
          tensor.set(b, h, i, c, x);
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

attest::Problem problem_of(const Operand& q, const Operand& k, const Operand& v, const std::optional<Operand>& out,
                           const SavedCallOptions& o) {
  const bool fit = q.shape[0] == k.shape[0] && q.shape[3] == k.shape[3] && k.shape[0] == v.shape[0] &&
                   k.shape[1] == v.shape[1] && k.shape[2] == v.shape[2];
  const Shape wanted{q.shape[0], q.shape[1], q.shape[2], v.shape[3]};
  if (!fit)
    throw usage_error(
        fmt::format("as [B,H,L,D], {} is {}, {} {} and {} {}: they do not fit each other; is --layout right?",
                    q.array.name, text(q.shape), k.array.name, text(k.shape), v.array.name, text(v.shape)));
  if (out && out->shape != wanted)
    throw usage_error(fmt::format("as [B,H,L,D], {} is {}: q, k and v give {}; is --layout right?", out->array.name,
                                  text(out->shape), text(wanted)));
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

constexpr std::string_view roles[] = {"q", "k", "v", "bias", "keep", "kv_lengths", "out", "lse"};

// --layout bshd, or per tensor --layout q=bshd,out=bshd: the tensors that lie as [B,L,H,D].
std::set<std::string, std::less<>> heads_inside(const SavedWords& words) {
  constexpr std::string_view tensors[] = {"q", "k", "v", "out"};
  std::set<std::string, std::less<>> inside;
  const std::string text = words.text("layout").value_or("bhsd") + ",";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find(',', begin);
    const std::string_view item = std::string_view(text).substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    const std::string_view tensor = item.substr(0, equals == item.npos ? 0 : equals), axes = item.substr(equals + 1);
    const bool whole = equals == item.npos && end + 1 == text.size() && begin == 0;
    const bool known = std::ranges::find(tensors, tensor) != std::end(tensors);
    if ((!whole && !known) || (axes != "bhsd" && axes != "bshd") || inside.contains(tensor))
      throw usage_error(
          fmt::format("{} {}: it must be bhsd or bshd, or one of them for each tensor whose axes are not "
                      "bhsd, as in q=bshd,out=bshd (q, k, v, out)",
                      words.origin("layout"), words.text("layout").value_or("")));
    for (const std::string_view one : tensors)
      if (axes == "bshd" && (whole || one == tensor)) inside.emplace(one);
    begin = end + 1;
  }
  return inside;
}

// Writes q, k and v beside each other, under a name that their content gives, and returns the file.
std::string written_values(const std::vector<NamedTensor>& inputs, const std::filesystem::path& folder) {
  NpzWriter archive;
  std::string coded;  // arrays of bits, as the manifest names them
  for (const NamedTensor& input : inputs) {
    if (input.name != "q" && input.name != "k" && input.name != "v") continue;
    archive.add(fmt::format("{}.npy", input.name), npy(*input.tensor));
    if (const DType type = input.tensor->dtype(); !traits(format_of(type)).in_numpy())
      coded += fmt::format("{}\"{}\": \"{}\"", coded.empty() ? "" : ", ", input.name, attest::name(type));
  }
  if (!coded.empty()) archive.add("manifest.json", fmt::format("{{\"dtypes\": {{{}}}}}", coded));
  const std::string bytes = archive.finish();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::filesystem::path path = folder / fmt::format("values-{}.npz", hex64(digest_of(bytes)).substr(0, 8));
  std::ofstream file(path, std::ios::binary);
  file << bytes << std::flush;
  if (!file)
    throw usage_error(fmt::format("{} cannot be written; check its folder and the space there", path.string()));
  return path.string();
}

}  // namespace

attest::Problem saved_problem(const Exchange& saved, const std::filesystem::path& folder) {
  constexpr Index most_literals = 4096;
  const std::vector<NamedTensor> inputs = saved.inputs();
  std::vector<NamedTensor> masks;
  Index values = 0;
  for (const NamedTensor& input : inputs)
    if (input.name == "q" || input.name == "k" || input.name == "v")
      values +=
          input.tensor->shape()[0] * input.tensor->shape()[1] * input.tensor->shape()[2] * input.tensor->shape()[3];
    else
      masks.push_back(input);
  const bool literal = values <= most_literals;
  require_few_numbers(masks);
  attest::Problem problem = recorded(saved.call().as<attest_attention>(), nullptr, literal).value();
  if (literal) {
    problem.values = Values::constant;
    problem.q_form = problem.k_form = problem.v_form = Form::zero;
  } else {
    problem.values = Values::file;
    problem.values_file = written_values(inputs, folder);
  }
  return problem;
}

const std::vector<SavedWord>& saved_words() {
  static const std::vector<SavedWord> all{
      {"layout", "bhsd|bshd|TENSOR=...,...", "axes of q, k, v and out: [B,H,L,D] (the default) or [B,L,H,D]"},
      {"heads", "N", "of arrays [B,L,H*D], under --layout bshd"},
      {"kv-heads", "N", "the same of k and v (as --heads)"},
      {"kv-order", "grouped|interleaved",
       "of fewer key/value heads than heads: head h reads h / group (grouped) or h % their number"},
      {"scale", "X", "factor on q.k (1/sqrt(D))"},
      {"softcap", "C", "c tanh(s/c)"},
      {"causal", "", "each query sees the keys up to its diagonal"},
      {"align", "top_left|bottom_right", "where the diagonal begins (top_left)"},
      {"window-left", "N", "keys before the diagonal that take part (all)"},
      {"window-right", "N", "keys after the diagonal that take part (all)"},
      {"q", "NAME", "array of the queries (q)"},
      {"k", "NAME", "array of the keys (k)"},
      {"v", "NAME", "array of the values (v)"},
      {"bias", "NAME", "array added to the scores (bias, if there)"},
      {"keep", "NAME", "bool array, true = attend (keep, if there)"},
      {"kv_lengths", "NAME", "array of the keys per sample (kv_lengths, if there)"},
      {"out", "NAME", "array of the output (out)"},
      {"lse", "NAME", "array of the log-sum-exp (lse, if there)"},
      {"ignore", "NAME,...", "arrays of the inputs that this call does not use"},
      {"rows", "N", "judge so many rows of out, spread evenly (all)"},
  };
  return all;
}

std::vector<OtherCall> other_calls(const SavedWords& words) {
  const std::optional<std::string> out;
  std::vector<OtherCall> calls = calls_by_causality();
  calls.insert(calls.end(),
               {
                   {"the call has no window", {{"window-left", out}, {"window-right", out}}},
                   {"the scale is 1", {{"scale", "1"}}},
                   {"the scale is 1/sqrt(D)", {{"scale", out}}},
                   {"the call has no softcap", {{"softcap", out}}},
                   {"all tensors are [B,L,H,D]", {{"layout", "bshd"}}},
                   {"all tensors are [B,H,L,D]", {{"layout", out}}},
                   {"q, k and v are [B,L,H,D], and out is [B,H,L,D]", {{"layout", "q=bshd,k=bshd,v=bshd"}}},
                   {"q, k and v are [B,H,L,D], and out is [B,L,H,D]", {{"layout", "out=bshd"}}},
                   {"query head h reads key/value head h modulo their number", {{"kv-order", "interleaved"}}},
                   {"query heads that read one key/value head lie side by side", {{"kv-order", out}}},
               });
  std::ranges::move(calls_with_ignored(words, {{"keep", "the mask of open keys"},
                                               {"kv_lengths", "the number of keys of each sample"},
                                               {"bias", "what is added to the scores"}}),
                    std::back_inserter(calls));
  return calls;
}

SavedCallOptions saved_call_options(const SavedWords& words, const attest::Policy& policy) {
  SavedCallOptions call;
  call.policy = policy;
  call.names = saved_names(words, roles);
  call.ignored = saved_ignored(words);
  call.heads_inside = heads_inside(words);
  call.heads = saved_count(words, "heads", 1);
  call.kv_heads = saved_count(words, "kv-heads", 1);
  call.interleaved = saved_choice(words, "kv-order", "grouped", "interleaved");
  call.scale = saved_real(words, "scale");
  call.softcap = saved_real(words, "softcap").value_or(0);
  call.causal = words.flag("causal");
  call.align = saved_choice(words, "align", "top_left", "bottom_right") ? Align::bottom_right : Align::top_left;
  call.window_left = saved_count(words, "window-left", 0).value_or(-1);
  call.window_right = saved_count(words, "window-right", 0).value_or(-1);
  call.rows = saved_count(words, "rows", 1).value_or(0);
  call.answered = words.answered;
  return call;
}

SavedTensors saved_tensors(const std::vector<NamedArray>& in, const std::vector<NamedArray>& outputs,
                           const SavedCallOptions& options) {
  SavedArrays given(in, options.names, "inputs"), results(outputs, options.names, "outputs");
  const Format storage = options.policy[Stage::storage];
  const NamedArray q = meant_array(*given.find("q", true), storage), k = meant_array(*given.find("k", true), storage),
                   v = meant_array(*given.find("v", true), storage);
  const std::optional<NamedArray> out =
      options.answered ? std::optional(meant_array(*results.find("out", true), options.policy[Stage::output]))
                       : std::nullopt;
  const NamedArray *bias = given.find("bias", false), *keep = given.find("keep", false),
                   *lengths = given.find("kv_lengths", false), *lse = results.find("lse", false);
  // One file may hold both: a result is no input that was forgotten.
  refuse_unused(given.unused(options.ignored), {out ? &*out : nullptr, lse}, "--bias, --keep, --kv_lengths");
  const auto kv_heads = options.kv_heads ? options.kv_heads : options.heads;
  const auto inside = [&](std::string_view role) { return options.heads_inside.contains(role); };
  const Operand q_operand = operand(q, inside("q"), options.heads, "--heads");
  Operand k_operand = operand(k, inside("k"), kv_heads, "--kv-heads"),
          v_operand = operand(v, inside("v"), kv_heads, "--kv-heads");
  std::optional<Operand> out_operand;
  if (out) out_operand.emplace(operand(*out, inside("out"), options.heads, "--heads"));
  require_heads(q_operand, options.heads, "--heads");
  if (out_operand) require_heads(*out_operand, options.heads, "--heads");
  for (const Operand* of_keys : {&k_operand, &v_operand}) require_heads(*of_keys, options.kv_heads, "--kv-heads");
  for (Operand* of_keys : {&k_operand, &v_operand})
    if (options.interleaved && of_keys->heads > 0 && q_operand.heads % of_keys->heads == 0)
      of_keys->shape[1] = q_operand.heads;
  SavedTensors call;
  call.problem = problem_of(q_operand, k_operand, v_operand, out_operand, options);
  const attest::Problem& p = call.problem;
  const Shape scores{p.b, p.hq, p.lq, p.lk};
  call.inputs.q = exact_tensor(q_operand, dtype_of(storage), storage, "storage");
  call.inputs.k = exact_tensor(k_operand, dtype_of(storage), storage, "storage");
  call.inputs.v = exact_tensor(v_operand, dtype_of(storage), storage, "storage");
  call.out = out_operand
                 ? exact_tensor(*out_operand, dtype_of(format_of(out->type)), options.policy[Stage::output], "output")
                 : Tensor(dtype_of(storage), std::array{p.b, p.hq, p.lq, p.dv});
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
  note_widened({&q, &k, &v}, storage, call.notes);
  if (out) note_narrowed(*out, options.policy[Stage::output], call.notes);
  note_unjudged(results.unused(options.ignored), in, call.notes);
  return call;
}

}  // namespace attest::ops::of_attention
