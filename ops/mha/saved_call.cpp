// Arrays of a run made elsewhere as a call of mha.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/mha/inputs.hpp"
#include "ops/mha/parts.hpp"
#include "ops/saved_arrays.hpp"

namespace attest::ops::of_mha {
namespace {

using attest::mha::Biases;
using attest::mha::Inputs;
using attest::mha::Padding;
using attest::mha::StageOutputs;
using attest::mha::Weights;

constexpr std::string_view memory_role = "memory-tokens";  // --memory is that of processes
constexpr std::string_view roles[] = {"x",   memory_role, "w_q",   "w_k",  "w_v",      "w_out",       "b_q",
                                      "b_k", "b_v",       "b_out", "bias", "keep",     "key_padding", "kv_lengths",
                                      "out", "q",         "k",     "v",    "heads_out"};

// ---- axes -----------------------------------------------------------------------------------------------------------

// The orders of axes that a kind of tensor may have, as --layout names them; without --layout the first is meant.
struct Axes {
  std::string_view plain, other;
  std::vector<std::string_view> tensors;
};
const std::array<Axes, 3>& axes() {
  static const std::array<Axes, 3> all{Axes{"ble", "lbe", {"x", "memory", "out", "heads_out"}},
                                       {"oi", "io", {"w_q", "w_k", "w_v", "w_out"}},
                                       {"bhld", "blhd", {"q", "k", "v"}}};
  return all;
}

// The tensors whose axes lie the other way: --layout lbe,io or --layout x=lbe,w_out=io.
class Layouts {
 public:
  explicit Layouts(const SavedWords& words) {
    const std::string text = words.text("layout").value_or("");
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      if (!take(std::string_view(text).substr(begin, end - begin)))
        throw usage_error(
            fmt::format("{} {}: each item must be ble or lbe (x, memory, out, heads_out: [batch, tokens, e] or tokens "
                        "first), oi or io (w_q, w_k, w_v, w_out: rows are outputs or inputs), bhld or blhd (q, k, v), "
                        "of all or, as in x=lbe, of one",
                        words.origin("layout"), text));
      begin = end + 1;
    }
  }
  [[nodiscard]] bool other(std::string_view tensor) const {
    const auto found = said_.find(tensor);
    return found != said_.end() && found->second;
  }
  [[nodiscard]] std::string_view word(std::string_view tensor) const {
    for (const Axes& kind : axes())
      if (std::ranges::find(kind.tensors, tensor) != kind.tensors.end()) return other(tensor) ? kind.other : kind.plain;
    return {};
  }

 private:
  bool take(std::string_view item) {
    const std::size_t equals = item.find('=');
    const std::string_view word = item.substr(equals == item.npos ? 0 : equals + 1);
    for (const Axes& kind : axes()) {
      if (word != kind.plain && word != kind.other) continue;
      for (const std::string_view tensor : kind.tensors)
        if (equals == item.npos || tensor == item.substr(0, equals)) {
          if (!said_.emplace(tensor, word == kind.other).second) return false;
          if (equals != item.npos) return true;
        }
      return equals == item.npos;
    }
    return false;
  }
  std::map<std::string_view, bool> said_;
};

// An array whose elements are read by other axes than it has.
struct Reordered {
  const NamedArray* array = nullptr;
  std::vector<Index> shape, strides;

  [[nodiscard]] bool present() const noexcept { return array != nullptr; }
  // "x is f32 [2, 3, 4], under layout lbe [3, 2, 4]".
  [[nodiscard]] std::string described() const {
    const std::string as = fmt::format("{} is {}", array->name, array->described());
    return shape == array->shape ? as : fmt::format("{}, read as [{}]", as, fmt::join(shape, ", "));
  }
};

Reordered swapped(const NamedArray& array, std::size_t axis, bool swap) {
  Reordered r{&array, array.shape, std::vector<Index>(array.shape.size(), 1)};
  for (std::size_t n = r.strides.size(); n-- > 1;) r.strides[n - 1] = r.strides[n] * r.shape[n];
  if (swap && r.shape.size() > axis + 1) {
    std::swap(r.shape[axis], r.shape[axis + 1]);
    std::swap(r.strides[axis], r.strides[axis + 1]);
  }
  return r;
}

void require(const Reordered& array, const std::vector<Index>& wanted, std::string_view why) {
  if (array.shape != wanted)
    throw usage_error(fmt::format("{}: it must be [{}], {}", array.described(), fmt::join(wanted, ", "), why));
}

// ---- tensors --------------------------------------------------------------------------------------------------------

enum class Finite : std::uint8_t { must, may };

// Rows from `first` on, as the call's tensor; every value must be one of `format`. An input lies as its array does
// where that is all of it, so that it may be read otherwise.
Tensor tensor_of(const Reordered& from, const std::vector<Index>& shape, Index first, DType type, Format format,
                 std::string_view stage, Finite finite) {
  const bool whole = from.shape == shape && finite == Finite::must;
  Tensor tensor = whole ? Tensor(type, shape, from.strides) : Tensor(type, shape);
  std::array<Index, 4> n{1, 1, 1, 1}, strides{};
  std::ranges::copy(shape, n.begin());
  std::ranges::copy(from.strides, strides.begin());
  for (Index i0 = 0; i0 < n[0]; ++i0)
    for (Index i1 = 0; i1 < n[1]; ++i1)
      for (Index i2 = 0; i2 < n[2]; ++i2)
        for (Index i3 = 0; i3 < n[3]; ++i3) {
          const double x =
              from.array->at((first + i0) * strides[0] + i1 * strides[1] + i2 * strides[2] + i3 * strides[3]);
          const std::array<Index, 4> all{first + i0, i1, i2, i3};
          const std::span<const Index> at(all.data(), shape.size());
          require_number_of(format, stage, x, *from.array, at);
          if (finite == Finite::must && !std::isfinite(x))
            throw usage_error(
                fmt::format("{}[{}] is {}: nothing is known of what a block makes of inputs that are not "
                            "finite, so that there is nothing to judge",
                            from.array->name, fmt::join(at, ","), x));
          tensor.set(i0, i1, i2, i3, x);
        }
  return tensor;
}

class SavedBlock {
 public:
  SavedBlock(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs, const Policy& policy,
             const SavedWords& words)
      : words_(words),
        storage_(policy.attention[Stage::storage]),
        output_(policy.attention[Stage::output]),
        layouts_(words),
        names_(names_of(words, inputs, outputs)),
        ignored_(saved_ignored(words)),
        given_(inputs, names_, "inputs"),
        results_(outputs, names_, "outputs"),
        all_inputs_(inputs) {}

  SavedCall call() {
    read();
    shape();
    SavedCall saved;
    Inputs inputs = tensors(saved.notes);
    const Format of_out = narrower(output_, storage_) ? output_ : storage_;
    Tensor out = words_.answered
                     ? tensor_of(array("out"), {p_.b, p_.l, p_.e}, 0, dtype_of(storage_), of_out, "output", Finite::may)
                     : Tensor(dtype_of(storage_), std::array{p_.b, p_.l, p_.e});
    saved.exchange = exchange(std::move(inputs), std::move(out), stages(), saved_count(words_, "rows", 1).value_or(0));
    std::vector<const NamedArray*> stored;
    for (const std::string_view role :
         {std::string_view("x"), memory_role, std::string_view("w_q"), std::string_view("w_k"), std::string_view("w_v"),
          std::string_view("w_out"), std::string_view("b_q"), std::string_view("b_k"), std::string_view("b_v"),
          std::string_view("b_out")})
      if (has(role)) stored.push_back(array(role).array);
    note_widened(stored, storage_, saved.notes);
    if (words_.answered) note_narrowed(*array("out").array, output_, saved.notes);
    note_unjudged(results_.unused(ignored_), all_inputs_, saved.notes);
    return saved;
  }

 private:
  using Names = std::map<std::string, std::string, std::less<>>;

  // Renames two options: the tokens of memory, and concatenated heads, which exporters call `heads` and a call
  // `heads_out`.
  static Names names_of(const SavedWords& words, const std::vector<NamedArray>& inputs,
                        const std::vector<NamedArray>& outputs) {
    Names names = saved_names(words, roles);
    const auto take = [&](std::string_view role, std::string_view name, const std::vector<NamedArray>& arrays) {
      const auto there = [&](std::string_view one) {
        return std::ranges::find(arrays, one, &NamedArray::name) != arrays.end();
      };
      if (!names.contains(role) && !there(role) && there(name)) names.emplace(role, name);
    };
    take(memory_role, "memory", inputs);
    take("heads_out", "heads", outputs);
    return names;
  }

  [[nodiscard]] bool has(std::string_view role) const { return arrays_.contains(role); }
  [[nodiscard]] const Reordered& array(std::string_view role) const { return arrays_.find(role)->second; }

  // ---- which array is which
  void take(SavedArrays& from, std::string_view role, bool needed, std::size_t axis, std::string_view tensor = {}) {
    const NamedArray* found = from.find(std::string(role), needed);
    if (found == nullptr) return;
    const bool output = &from == &results_;
    meant_.push_back(std::make_unique<NamedArray>(meant_array(*found, output && role == "out" ? output_ : storage_)));
    arrays_.emplace(role, swapped(*meant_.back(), axis, layouts_.other(tensor.empty() ? role : tensor)));
  }
  void read() {
    for (const char* role : {"x", "w_q", "w_out"}) take(given_, role, true, 0);
    take(given_, memory_role, false, 0, "memory");
    for (const std::string_view role : {"w_k", "w_v", "b_q", "b_k", "b_v", "b_out"}) take(given_, role, false, 0);
    take(results_, "out", words_.answered, 0);
    for (const char* role : {"q", "k", "v"}) take(results_, role, false, 1);
    take(results_, "heads_out", false, 0);
    bias_ = given_.find("bias", false);
    keep_ = given_.find("keep", false);
    padding_ = given_.find("key_padding", false);
    lengths_ = given_.find("kv_lengths", false);
    std::vector<const NamedArray*> of_results;
    for (const char* role : {"out", "q", "k", "v", "heads_out"})
      if (has(role)) of_results.push_back(array(role).array);
    refuse_unused(given_.unused(ignored_), of_results,
                  "--memory-tokens, --b_q, --b_k, --b_v, --b_out, --bias, --keep, --key_padding, --kv_lengths");
  }

  // ---- how large they are
  void shape() {
    const Reordered &x = array("x"), &w_q = array("w_q");
    if (x.shape.size() != 3)
      throw usage_error(fmt::format(
          "{}: it must have three axes, [batch, tokens, e] or under --layout lbe [tokens, batch, e]", x.described()));
    p_.b = x.shape[0], p_.l = x.shape[1], p_.e = x.shape[2];
    p_.self = !has(memory_role);
    p_.m = p_.l;
    if (!p_.self) {
      const Reordered& memory = array(memory_role);
      p_.m = memory.shape.size() == 3 ? memory.shape[1] : p_.l;
      require(memory, {p_.b, p_.m, p_.e}, "of any number of tokens");
    }
    const auto heads = saved_count(words_, "heads", 1);
    if (!heads) throw usage_error("mha needs --heads N: no saved tensor shows how many heads there are");
    p_.heads = *heads;
    p_.kv_heads = saved_count(words_, "kv-heads", 1).value_or(p_.heads);
    if (p_.heads % p_.kv_heads != 0)
      throw usage_error(fmt::format("--kv-heads {} does not divide --heads {}", p_.kv_heads, p_.heads));
    packed_ = !has("w_k") && !has("w_v");
    const Index parts = packed_ ? p_.heads + 2 * p_.kv_heads : p_.heads;
    if (w_q.shape.size() != 2 || w_q.shape[1] != p_.e || w_q.shape[0] < 1 || w_q.shape[0] % parts != 0)
      throw usage_error(fmt::format(
          "{}: it must be [{} x head_dim, {}]{}; under --layout io [{}, {} x head_dim]", w_q.described(), parts, p_.e,
          packed_ ? ", w_q, w_k and w_v one below the other, since there are no w_k and w_v" : "", p_.e, parts));
    p_.head_dim = w_q.shape[0] / parts;
    for (const char* role : {"w_k", "w_v"}) {
      if (packed_) break;
      if (!has(role))
        throw usage_error(
            fmt::format("w_k and w_v come together, or neither where w_q holds all three: the inputs hold no {}; say "
                        "which it is with --{} NAME",
                        role, role));
      require(array(role), {p_.kv_width(), p_.e}, fmt::format("by --kv-heads {}", p_.kv_heads));
    }
    require(array("w_out"), {p_.e, p_.q_width()}, "as x and w_q have it");
    if (words_.answered) require(array("out"), {p_.b, p_.l, p_.e}, "as x is");
    shape_biases();
    p_.scale = saved_real(words_, "scale");
    p_.causal = words_.flag("causal");
    p_.align = saved_choice(words_, "align", "top_left", "bottom_right") ? Align::bottom_right : Align::top_left;
    p_.dtype = storage_;
    p_.padding = keep_ != nullptr || padding_ != nullptr ? Padding::rows
                 : lengths_ != nullptr                   ? Padding::ragged
                                                         : Padding::none;
    p_.bias = bias_ != nullptr ? attest::mha::Bias::normal : attest::mha::Bias::none;
    p_.weights = Weights::dense;
    validate(p_);
  }
  void shape_biases() {
    const bool any = has("b_q") || has("b_k") || has("b_v");
    const Index whole = p_.q_width() + 2 * p_.kv_width();
    packed_biases_ = has("b_q") && !has("b_k") && !has("b_v") && array("b_q").shape == std::vector<Index>{whole};
    if (has("b_q") && !packed_biases_)
      require(array("b_q"), {p_.q_width()}, fmt::format("or [{}] where it holds b_q, b_k and b_v", whole));
    for (const char* role : {"b_k", "b_v"})
      if (has(role)) require(array(role), {p_.kv_width()}, fmt::format("as w_{} has rows", role[2]));
    if (has("b_out")) require(array("b_out"), {p_.e}, "as w_out has rows");
    p_.biases = any && has("b_out") ? Biases::all : any ? Biases::in : has("b_out") ? Biases::out : Biases::none;
  }

  // ---- what is in them
  Inputs tensors(std::vector<std::string>& notes) {
    Inputs in;
    in.problem = p_;
    const DType type = dtype_of(storage_);
    const auto made = [&](std::string_view role, const std::vector<Index>& shape, Index first = 0) {
      return tensor_of(array(role), shape, first, type, storage_, "storage", Finite::must);
    };
    const Index q = p_.q_width(), kv = p_.kv_width();
    in.x = made("x", {p_.b, p_.l, p_.e});
    if (!p_.self) in.memory = made(memory_role, {p_.b, p_.m, p_.e});
    in.w_q = made("w_q", {q, p_.e});
    in.w_k = packed_ ? made("w_q", {kv, p_.e}, q) : made("w_k", {kv, p_.e});
    in.w_v = packed_ ? made("w_q", {kv, p_.e}, q + kv) : made("w_v", {kv, p_.e});
    in.w_out = made("w_out", {p_.e, q});
    if (packed_biases_) {
      in.b_q = made("b_q", {q});
      in.b_k = made("b_q", {kv}, q);
      in.b_v = made("b_q", {kv}, q + kv);
    } else if (p_.has_in_biases()) {
      for (const auto& [role, tensor, width] :
           {std::tuple{"b_q", &in.b_q, q}, {"b_k", &in.b_k, kv}, {"b_v", &in.b_v, kv}}) {
        if (has(role)) {
          *tensor = made(role, {width});
          continue;
        }
        *tensor = Tensor(type, std::array{width});
        for (Index n = 0; n < width; ++n) tensor->set(n, 0, 0, 0, 0);
        notes.push_back(fmt::format("there is no {} beside the other biases: it is taken as zeros", role));
      }
    }
    if (p_.has_out_bias()) in.b_out = made("b_out", {p_.e});
    masks(in);
    return in;
  }
  void masks(Inputs& in) const {
    const std::array<Index, 4> scores{p_.b, p_.heads, p_.l, p_.m};
    if (bias_ != nullptr) {
      in.bias = bias_tensor(*bias_, storage_, scores);
      const NamedArray meant = meant_array(*bias_, storage_);
      for (Index n = 0; n < meant.size(); ++n)
        if (const double x = meant.at(n); std::isnan(x) || x == HUGE_VAL)
          throw usage_error(fmt::format("{} holds {}: a bias is added to scores, numbers or -inf", bias_->name, x));
    }
    if (keep_ != nullptr) in.keep = keep_tensor(*keep_, scores);
    if (lengths_ != nullptr) in.kv_lengths = lengths_tensor(*lengths_, p_.b, p_.m);
    if (padding_ == nullptr) return;
    if (padding_->type != NamedArray::Type::boolean || padding_->shape != std::vector<Index>{p_.b, p_.m})
      throw usage_error(
          fmt::format("{} is {}: key_padding must be bool [{}, {}], true where a token of memory is left out",
                      padding_->name, padding_->described(), p_.b, p_.m));
    // One row stands for all, unless keep has others.
    const bool rows = in.keep.present();
    Tensor open(DType::boolean, scores,
                std::array<Index, 4>{rows ? p_.heads * p_.l * p_.m : p_.m, rows ? p_.l * p_.m : 0, rows ? p_.m : 0, 1});
    for (Index b = 0; b < p_.b; ++b)
      for (Index h = 0; h < (rows ? p_.heads : 1); ++h)
        for (Index i = 0; i < (rows ? p_.l : 1); ++i)
          for (Index j = 0; j < p_.m; ++j)
            open.set(b, h, i, j, padding_->at(b * p_.m + j) == 0 && (!rows || in.keep.at(b, h, i, j) != 0) ? 1 : 0);
    in.keep = std::move(open);
  }

  // A stage of heads, [b,heads,tokens,head_dim], or [b,tokens,width] as a projection leaves it.
  Tensor stage(std::string_view role, Index heads, Index tokens) const {
    if (!has(role)) return {};
    Reordered from = array(role);
    const Index d = p_.head_dim;
    if (from.array->shape == std::vector<Index>{p_.b, tokens, heads * d}) {
      from.shape = {p_.b, heads, tokens, d};
      from.strides = {tokens * heads * d, d, heads * d, 1};
    }
    require(from, {p_.b, heads, tokens, d},
            fmt::format("or [{}, {}, {}], or under --layout blhd [{}, {}, {}, {}]", p_.b, tokens, heads * d, p_.b,
                        tokens, heads, d));
    const Format type = format_of(from.array->type);
    return tensor_of(from, {p_.b, heads, tokens, d}, 0, dtype_of(type), type, "storage", Finite::may);
  }
  StageOutputs stages() const {
    StageOutputs all;
    all.q = stage("q", p_.heads, p_.l);
    all.k = stage("k", p_.kv_heads, p_.m);
    all.v = stage("v", p_.kv_heads, p_.m);
    if (!has("heads_out")) return all;
    const Reordered& heads = array("heads_out");
    require(heads, {p_.b, p_.l, p_.q_width()}, "the concatenated heads");
    const Format type = format_of(heads.array->type);
    all.heads = tensor_of(heads, {p_.b, p_.l, p_.q_width()}, 0, dtype_of(type), type, "storage", Finite::may);
    return all;
  }

  const SavedWords& words_;
  const Format storage_, output_;
  const Layouts layouts_;
  const Names names_;
  const std::vector<std::string> ignored_;
  SavedArrays given_, results_;
  const std::vector<NamedArray>& all_inputs_;
  std::vector<std::unique_ptr<NamedArray>> meant_;
  std::map<std::string, Reordered, std::less<>> arrays_;
  const NamedArray *bias_ = nullptr, *keep_ = nullptr, *padding_ = nullptr, *lengths_ = nullptr;
  Problem p_;
  bool packed_ = false, packed_biases_ = false;
};

}  // namespace

std::vector<OtherCall> other_calls(const SavedWords& words) {
  const std::optional<std::string> out;
  std::vector<OtherCall> calls = calls_by_causality();
  calls.insert(calls.end(), {
                                {"the scale is 1", {{"scale", "1"}}},
                                {"the scale is 1/sqrt(head_dim)", {{"scale", out}}},
                                {"tokens come first, in batches second", {{"layout", "lbe"}}},
                                {"weights are [inputs, outputs]", {{"layout", "io"}}},
                                {"tokens come first, and weights are [inputs, outputs]", {{"layout", "lbe,io"}}},
                                {"batches come first, and weights are [outputs, inputs]", {{"layout", out}}},
                            });
  std::ranges::move(calls_with_ignored(words, {{"keep", "the mask of open keys"},
                                               {"key_padding", "the mask of tokens that are left out"},
                                               {"kv_lengths", "the number of tokens of memory of each sample"},
                                               {"bias", "what is added to the scores"},
                                               {memory_role, "the tokens that are attended"},
                                               {"b_q", "the bias of q"},
                                               {"b_k", "the bias of k"},
                                               {"b_v", "the bias of v"},
                                               {"b_out", "the bias of the output projection"}}),
                    std::back_inserter(calls));
  return calls;
}

const std::vector<SavedWord>& saved_words() {
  static const std::vector<SavedWord> all{
      {"heads", "N", "query heads"},
      {"kv-heads", "N", "key/value heads (as --heads)"},
      {"layout", "AXES|TENSOR=AXES,...",
       "ble or lbe of x, memory, out and heads_out, oi or io of w_q, w_k, w_v and w_out, bhld or blhd of q, k and v "
       "(the first of each)"},
      {"scale", "X", "of the scores (1/sqrt(head_dim))"},
      {"causal", "", "token i attends tokens up to its place"},
      {"align", "top_left|bottom_right", "where the diagonal begins (top_left)"},
      {"x", "NAME", "array of the tokens, [batch, tokens, e] (x)"},
      {memory_role, "NAME", "array of the tokens that are attended, of cross-attention (memory, if there)"},
      {"w_q", "NAME", "array of the weights of q, [width, e]; of q, k and v where w_k and w_v are not there (w_q)"},
      {"w_k", "NAME", "array of the weights of k (w_k, if there)"},
      {"w_v", "NAME", "array of the weights of v (w_v, if there)"},
      {"w_out", "NAME", "array of the weights of the output projection, [e, width] (w_out)"},
      {"b_q", "NAME", "array of the bias of q, or of q, k and v (b_q, if there)"},
      {"b_k", "NAME", "array of the bias of k (b_k, if there)"},
      {"b_v", "NAME", "array of the bias of v (b_v, if there)"},
      {"b_out", "NAME", "array of the bias of the output projection (b_out, if there)"},
      {"bias", "NAME", "array added to the scores (bias, if there)"},
      {"keep", "NAME", "bool array, true = attend (keep, if there)"},
      {"key_padding", "NAME", "bool array [batch, tokens of memory], true = left out (key_padding, if there)"},
      {"kv_lengths", "NAME", "array of the tokens of memory per sample (kv_lengths, if there)"},
      {"out", "NAME", "array of the output (out)"},
      {"q", "NAME", "array of the projected q, a stage (q, if there)"},
      {"k", "NAME", "array of the projected k, a stage (k, if there)"},
      {"v", "NAME", "array of the projected v, a stage (v, if there)"},
      {"heads_out", "NAME", "array of the concatenated heads, a stage (heads_out or heads, if there)"},
      {"ignore", "NAME,...", "arrays of the inputs that this call does not use"},
      {"rows", "N", "judge so many rows of out, spread evenly, and of q and heads where they are given (all)"},
  };
  return all;
}

SavedCall saved_call(const std::vector<NamedArray>& inputs, const std::vector<NamedArray>& outputs,
                     const Policy& policy, const SavedWords& words) {
  return SavedBlock(inputs, outputs, policy, words).call();
}

Problem saved_problem(const Exchange& saved) {
  require_few_numbers(saved.inputs());
  Problem problem = saved.problem().as<Problem>();
  problem.weights = Weights::zero;
  const std::vector<NamedTensor> inputs = saved.inputs();
  for (std::size_t n = 0; n < attest::mha::edit_tensor_count; ++n) {
    const auto which = static_cast<attest::mha::Edit::Tensor>(n);
    const auto input = std::ranges::find(inputs, attest::mha::name(which), &NamedTensor::name);
    if (input == inputs.end()) continue;
    for_each_index(input->tensor->shape(), [&](Index a, Index b, Index c, Index d) {
      problem.edits.push_back({which, {a, b, c, d}, input->tensor->at(a, b, c, d)});
    });
  }
  return problem;
}

}  // namespace attest::ops::of_mha
