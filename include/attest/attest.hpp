// A C++ callable as a subject of attest: C++17, this header and plugin.h, nothing to link. docs/cpp.md walks through
// it.
//
//   #include <attest/attest.hpp>
//
//   const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
//     static const attest::Plugin plugin{attest::subject("mine", R"({"ops":["attention"],"dtypes":["f32"]})",
//                                                        [](const attest::Attention& call) { ... })};
//     return plugin.table(abi, count);
//   }
//
// Compiled into a shared object this is a plug-in. A callable that returns has done the call; one that throws
// attest::Unsupported skips it; any other exception is an error, a finding; attest::Lost is one that ends the process
// as well. Nothing thrown leaves the plug-in.
#ifndef ATTEST_ATTEST_HPP
#define ATTEST_ATTEST_HPP

#include <attest/plugin.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attest {
inline namespace abi1 {

// Thrown by a callable: the kernel does not do such a call. The case is skipped, and counted under this reason.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The exception of a callable after which this process can make no further call, such as a GPU's context that is lost.
class Lost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// IEEE binary16 and bfloat16 as 16 bits. Conversion from a number rounds to nearest, ties to even, once (an integer
// counts as a double). Conversion to float is exact.
struct f16 {
  std::uint16_t bits;
  f16() = default;
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  explicit f16(Number value) : bits(attest_f16_store(attest_float_to_odd(static_cast<double>(value)))) {}
  operator float() const { return attest_f16_load(bits); }
};
struct bf16 {
  std::uint16_t bits;
  bf16() = default;
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  explicit bf16(Number value) : bits(attest_bf16_store(attest_float_to_odd(static_cast<double>(value)))) {}
  operator float() const { return attest_bf16_load(bits); }
};

// Element<T>::code: the elements of a call that a T may stand for (the code of plugin.h; the width is T's own). For
// another half type: template <> struct attest::Element<my_half> { static constexpr int code = ATTEST_FLOAT; };
template <class T>
struct Element {
  static_assert(std::is_arithmetic_v<T>, "specialise attest::Element for this type");
  static constexpr int code = std::is_same_v<T, bool>       ? ATTEST_BOOL
                              : std::is_floating_point_v<T> ? ATTEST_FLOAT
                              : std::is_signed_v<T>         ? ATTEST_INT
                                                            : ATTEST_UINT;
};
template <>
struct Element<f16> {
  static constexpr int code = ATTEST_FLOAT;
};
template <>
struct Element<bf16> {
  static constexpr int code = ATTEST_BFLOAT;
};

// A tensor whose elements are read and written as T (const T for an input). Up to four axes; strides in elements.
template <class T>
class View {
 public:
  explicit View(const attest_tensor& tensor)
      : tensor_(&tensor), data_(static_cast<T*>(attest_at(&tensor, 0, 0, 0, 0))) {}

  T* data() const { return data_; }
  std::int64_t size(int axis) const { return tensor_->shape[axis]; }
  std::int64_t stride(int axis) const { return tensor_->strides[axis]; }
  // Indices past the last axis are ignored, as in attest_at().
  T& operator()(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) const {
    const std::int64_t index[4] = {i0, i1, i2, i3};
    std::int64_t element = 0;
    for (int axis = 0; axis < tensor_->ndim && axis < 4; ++axis) element += index[axis] * stride(axis);
    return data_[element];
  }

 private:
  const attest_tensor* tensor_;
  T* data_;
};

// A tensor of a call, of whatever type. False if it is absent.
class TensorView {
 public:
  explicit TensorView(const attest_tensor& tensor) : tensor_(&tensor) {}

  explicit operator bool() const { return attest_present(tensor_) != 0; }
  const attest_tensor& raw() const { return *tensor_; }
  attest_dtype dtype() const { return tensor_->dtype; }
  int rank() const { return tensor_->ndim; }
  std::int64_t size(int axis) const { return tensor_->shape[axis]; }
  std::int64_t stride(int axis) const { return tensor_->strides[axis]; }
  // Tells whether it is packed in C order; strides along which there is no second element do not matter.
  bool contiguous() const {
    bool packed = true;
    std::int64_t expected = 1;
    for (int axis = rank() - 1; axis >= 0; --axis) {
      if (size(axis) > 1 && stride(axis) != expected) packed = false;
      expected *= size(axis);
    }
    return packed || expected == 0;  // no element, no stride
  }

  // A floating-point element as double, and back, rounded once: slow, and blind to the type.
  double load(std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) const {
    return attest_load(tensor_, i0, i1, i2, i3);
  }
  void store(double value, std::int64_t i0, std::int64_t i1 = 0, std::int64_t i2 = 0, std::int64_t i3 = 0) const {
    attest_store(tensor_, i0, i1, i2, i3, value);
  }

  template <class T>
  bool holds() const {
    return *this && dtype().code == Element<std::remove_const_t<T>>::code && dtype().bits == 8 * sizeof(T);
  }
  // Throws std::logic_error if the tensor is absent or of another type than T: `dtypes` in describe says what comes.
  template <class T>
  View<T> as() const {
    if (!holds<T>())
      throw std::logic_error(!*this ? std::string("the tensor that is asked for is absent")
                                    : "a tensor of code " + std::to_string(dtype().code) + " and " +
                                          std::to_string(dtype().bits) + " bits is read as a type of code " +
                                          std::to_string(Element<std::remove_const_t<T>>::code) + " and " +
                                          std::to_string(8 * sizeof(T)) + " bits");
    return View<T>(*tensor_);
  }

 private:
  const attest_tensor* tensor_;
};

// Calls f with a value of the type of a tensor: f16, bf16, float or double.
template <class F>
void visit_dtype_of(const TensorView& tensor, F&& f) {
  if (tensor.holds<const float>()) return void(f(float{}));
  if (tensor.holds<const f16>()) return void(f(f16{}));
  if (tensor.holds<const bf16>()) return void(f(bf16{}));
  if (tensor.holds<const double>()) return void(f(double{}));
  throw Unsupported("a dtype that this attest/attest.hpp does not know");
}

// One call of attention, as attest_attention in plugin.h defines it. Lives as long as the call.
class Attention {
 public:
  explicit Attention(const attest_attention& call)
      : q(call.q),
        k(call.k),
        v(call.v),
        bias(call.bias),
        keep(call.keep),
        kv_lengths(call.kv_lengths),
        out(call.out),
        lse(call.lse),
        scale(call.scale),
        softcap(call.softcap),
        causal(call.causal != 0),
        bottom_right(call.align == ATTEST_BOTTOM_RIGHT),
        window_left(call.window_left),
        window_right(call.window_right),
        threads(call.threads),
        raw_(&call) {}

  const TensorView q, k, v;                      // [B,Hq,Lq,D]  [B,Hkv,Lk,D]  [B,Hkv,Lk,Dv]
  const TensorView bias, keep;                   // [B,Hq,Lq,Lk], may be absent; keep holds bool, true = attend
  const TensorView kv_lengths;                   // int32 [B], may be absent
  const TensorView out;                          // [B,Hq,Lq,Dv], to be written
  const TensorView lse;                          // [B,Hq,Lq], natural log, to be written unless absent
  const double scale, softcap;                   // softcap 0: none
  const bool causal, bottom_right;               // bottom_right: where the diagonal of causal and the windows ends
  const std::int64_t window_left, window_right;  // < 0: unbounded
  const int threads;                             // 0: as you like, n: at most n

  std::int64_t batch() const { return q.size(0); }
  std::int64_t heads() const { return q.size(1); }
  std::int64_t kv_heads() const { return k.size(1); }
  std::int64_t queries() const { return q.size(2); }
  std::int64_t keys() const { return k.size(2); }
  std::int64_t width() const { return q.size(3); }
  std::int64_t value_width() const { return v.size(3); }
  bool scale_is_default() const { return (raw_->flags & ATTEST_SCALE_IS_DEFAULT) != 0; }
  const attest_attention& raw() const { return *raw_; }

  // The value in effect of a form of `supports` (docs/plugin.md), the first of whose values is `first`.
  std::string form(const std::string& name, const std::string& first) const {
    const bool told =
        raw_->struct_size >= offsetof(attest_attention, form) + sizeof raw_->form && raw_->form != nullptr;
    const std::string chosen = told ? raw_->form : "", key = '"' + name + "\":\"";  // names and values need no escapes
    const std::size_t at = chosen.find(key);
    if (at == std::string::npos) return first;
    const std::size_t begin = at + key.size();
    return chosen.substr(begin, chosen.find('"', begin) - begin);
  }

  // The key/value head that query head h reads.
  std::int64_t kv_head(std::int64_t h) const { return h / (heads() / kv_heads()); }
  // Returns the number of keys of sample b.
  std::int64_t keys_of(std::int64_t b) const { return kv_lengths ? kv_lengths.as<const std::int32_t>()(b) : keys(); }
  // Tells whether key j takes part in row i: lengths, keep, causality and windows together.
  bool takes_part(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t length = keys_of(b), diagonal = bottom_right ? i + length - queries() : i;
    return j < length && (!causal || j <= diagonal) && (window_left < 0 || diagonal - j <= window_left) &&
           (window_right < 0 || j - diagonal <= window_right) && (!keep || keep.as<const bool>()(b, h, i, j));
  }

  // Calls f with a value of the type of q, k, v and out: f16, bf16, float or double. f(auto element) may then use
  // decltype(element).
  template <class F>
  void visit_dtype(F&& f) const {
    visit_dtype_of(q, std::forward<F>(f));
  }

 private:
  const attest_attention* raw_;
};

// One call of layer_norm, as attest_layer_norm in plugin.h defines it. Lives as long as the call.
class LayerNorm {
 public:
  explicit LayerNorm(const attest_layer_norm& call)
      : x(call.x),
        residual(call.residual),
        gamma(call.gamma),
        beta(call.beta),
        out(call.out),
        sum_out(call.sum_out),
        epsilon(call.epsilon),
        rms(call.rms != 0),
        threads(call.threads),
        raw_(&call) {}

  const TensorView x, residual;  // [rows,hidden]; residual may be absent
  const TensorView gamma, beta;  // [hidden], of x's type or f32; absent: 1 and 0
  const TensorView out;          // [rows,hidden], to be written
  const TensorView sum_out;      // [rows,hidden], x + residual rounded to x's type, to be written unless absent
  const double epsilon;          // added to the variance, inside the root
  const bool rms;                // by the mean of squares, without a mean
  const int threads;             // 0: as you like, n: at most n

  std::int64_t rows() const { return x.size(0); }
  std::int64_t hidden() const { return x.size(1); }
  const attest_layer_norm& raw() const { return *raw_; }

  // Visits the type of x, residual, out and sum_out, as Attention::visit_dtype() does.
  template <class F>
  void visit_dtype(F&& f) const {
    visit_dtype_of(x, std::forward<F>(f));
  }

 private:
  const attest_layer_norm* raw_;
};

// One call of an attention block, as attest_mha in plugin.h defines it. Lives as long as the call.
class Mha {
 public:
  explicit Mha(const attest_mha& call)
      : x(call.x),
        memory(attest_present(&call.memory) ? call.memory : call.x),
        w_q(call.w_q),
        w_k(call.w_k),
        w_v(call.w_v),
        w_out(call.w_out),
        b_q(call.b_q),
        b_k(call.b_k),
        b_v(call.b_v),
        b_out(call.b_out),
        bias(call.bias),
        keep(call.keep),
        kv_lengths(call.kv_lengths),
        out(call.out),
        q(call.q),
        k(call.k),
        v(call.v),
        heads_out(call.heads_out),
        heads(call.heads),
        kv_heads(call.kv_heads),
        head_dim(call.head_dim),
        scale(call.scale),
        causal(call.causal != 0),
        bottom_right(call.align == ATTEST_BOTTOM_RIGHT),
        threads(call.threads),
        raw_(&call) {}

  const TensorView x, memory;             // [B,L,E]  [B,M,E]: x itself for self-attention
  const TensorView w_q, w_k, w_v, w_out;  // [heads*head_dim,E]  [kv_heads*head_dim,E] twice  [E,heads*head_dim]
  const TensorView b_q, b_k, b_v, b_out;  // [rows of their matrix], may be absent: 0
  const TensorView bias, keep;            // [B,heads,L,M], may be absent; keep holds bool, true = attend
  const TensorView kv_lengths;            // int32 [B], may be absent
  const TensorView out;                   // [B,L,E], to be written
  const TensorView q, k, v, heads_out;    // stages, to be written unless absent; of x's type or a wider one
  const std::int64_t heads, kv_heads, head_dim;
  const double scale;
  const bool causal, bottom_right;  // bottom_right: where the diagonal of causal ends
  const int threads;                // 0: as you like, n: at most n

  std::int64_t batch() const { return x.size(0); }
  std::int64_t queries() const { return x.size(1); }
  std::int64_t keys() const { return memory.size(1); }
  std::int64_t width() const { return x.size(2); }
  bool self() const { return attest_present(&raw_->memory) == 0; }
  bool scale_is_default() const { return (raw_->flags & ATTEST_SCALE_IS_DEFAULT) != 0; }
  const attest_mha& raw() const { return *raw_; }

  // These are Attention's functions of the same names.
  std::int64_t kv_head(std::int64_t h) const { return h / (heads / kv_heads); }
  std::int64_t keys_of(std::int64_t b) const { return kv_lengths ? kv_lengths.as<const std::int32_t>()(b) : keys(); }
  bool takes_part(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    const std::int64_t length = keys_of(b), diagonal = bottom_right ? i + length - queries() : i;
    return j < length && (!causal || j <= diagonal) && (!keep || keep.as<const bool>()(b, h, i, j));
  }
  // Visits the type of every floating-point tensor but the stages.
  template <class F>
  void visit_dtype(F&& f) const {
    visit_dtype_of(x, std::forward<F>(f));
  }

 private:
  const attest_mha* raw_;
};

// One kernel under test. `describe` is the JSON of docs/plugin.md: the offers and promises of the kernel. `version` is
// shown in reports, and may be empty. The callable of each operation that it offers must be set.
struct Subject {
  std::string name, describe;
  std::function<void(const Attention&)> attention;
  std::string version;
  std::function<void()>
      open{};  // called once, before the first call; what it throws says why the subject cannot be used
  std::function<void(const LayerNorm&)> layer_norm{};
  std::function<void(const Mha&)> mha{};
};
// `attention` may be anything that can be called with a const Attention&, a lambda with captures included.
inline Subject subject(std::string name, std::string describe, std::function<void(const Attention&)> attention,
                       std::string version = {}) {
  return {std::move(name), std::move(describe), std::move(attention), std::move(version), {}, {}, {}};
}
// The same of another operation: subject<attest::LayerNorm>("mine", R"({"ops":["layer_norm"],"dtypes":["f32"]})",
// [](const attest::LayerNorm& call) { ... }), and subject<attest::Mha>(...).
template <class Call>
Subject subject(std::string name, std::string describe, std::function<void(const Call&)> callable,
                std::string version = {}) {
  static_assert(std::is_same_v<Call, Attention> || std::is_same_v<Call, LayerNorm> || std::is_same_v<Call, Mha>,
                "attest tests no such operation");
  Subject made{std::move(name), std::move(describe), {}, std::move(version), {}, {}, {}};
  if constexpr (std::is_same_v<Call, LayerNorm>)
    made.layer_norm = std::move(callable);
  else if constexpr (std::is_same_v<Call, Mha>)
    made.mha = std::move(callable);
  else
    made.attention = std::move(callable);
  return made;
}

// The subjects that a plug-in exports. Must live as long as the process: a static of attest_plugin().
class Plugin {
 public:
  Plugin(std::initializer_list<Subject> subjects) : subjects_(subjects) {
    for (Subject& subject : subjects_) {
      attest_subject row{};
      row.struct_size = sizeof row;
      row.self = &subject;
      row.name = subject.name.c_str();
      row.version = subject.version.c_str();
      row.describe = subject.describe.c_str();
      row.open = open;
      // One that has no callable at all is asked attention, and says what it lacks.
      if (subject.attention || (!subject.layer_norm && !subject.mha))
        row.attention = [](void* self, const attest_attention* call, char* message, std::size_t size) {
          return run(self, &Subject::attention, *call, message, size);
        };
      if (subject.layer_norm)
        row.layer_norm = [](void* self, const attest_layer_norm* call, char* message, std::size_t size) {
          return run(self, &Subject::layer_norm, *call, message, size);
        };
      if (subject.mha)
        row.mha = [](void* self, const attest_mha* call, char* message, std::size_t size) {
          return run(self, &Subject::mha, *call, message, size);
        };
      table_.push_back(row);
    }
  }
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  // Returns the result of attest_plugin().
  const attest_subject* table(std::uint32_t abi, std::size_t* count) const noexcept {
    if (abi != ATTEST_ABI) return nullptr;
    *count = table_.size();
    return table_.data();
  }

 private:
  static int open(void* self, const char*, char* message, std::size_t message_size) noexcept {
    try {
      if (const auto& opens = static_cast<const Subject*>(self)->open) opens();
      return ATTEST_DONE;
    } catch (const std::exception& error) {
      std::snprintf(message, message_size, "%s", error.what());
    } catch (...) {
      std::snprintf(message, message_size, "it threw something that is no std::exception");
    }
    return ATTEST_ERROR;
  }
  template <class Call, class Abi>
  static int run(void* self, std::function<void(const Call&)> Subject::*callable, const Abi& call, char* message,
                 std::size_t message_size) noexcept {
    try {
      (static_cast<const Subject*>(self)->*callable)(Call(call));
      return ATTEST_DONE;
    } catch (const Unsupported& why) {
      std::snprintf(message, message_size, "%s", why.what());
      return ATTEST_UNSUPPORTED;
    } catch (const Lost& error) {
      std::snprintf(message, message_size, "%s", error.what());
      return ATTEST_LOST;
    } catch (const std::exception& error) {
      std::snprintf(message, message_size, "it threw an exception: %s", error.what());
    } catch (...) {
      std::snprintf(message, message_size, "it threw something that is no std::exception");
    }
    return ATTEST_ERROR;
  }

  std::vector<Subject> subjects_;
  std::vector<attest_subject> table_;
};

}  // namespace abi1
}  // namespace attest

#endif  // ATTEST_ATTEST_HPP
