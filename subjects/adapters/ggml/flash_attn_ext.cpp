// ggml_flash_attn_ext on the CPU backend as a subject of attest. flash_attn_ext.hpp says how its documents are read.
//
// k, v and, in float32, q are views of the call's own memory, with its strides and its alignment; q of 16 bits is
// converted, the mask is made. The result is written in place where out lies as ggml writes it, else into memory with
// guards.
#include "flash_attn_ext.hpp"

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml.h>
#include <attest/attest.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using attest::Attention;
using attest::TensorView;

constexpr float nan_ = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

ggml_type type_of(const TensorView& tensor) {
  if (tensor.holds<const float>()) return GGML_TYPE_F32;
  return tensor.holds<const attest::f16>() ? GGML_TYPE_F16 : GGML_TYPE_BF16;
}

struct Free {
  void operator()(ggml_context* context) const { ggml_free(context); }
  void operator()(ggml_backend* backend) const { ggml_backend_free(backend); }
};

// A tensor of [B,H,L,D] in the order of ggml, D first, without memory.
ggml_tensor* tensor_of(ggml_context* context, ggml_type type, const TensorView& shape) {
  return ggml_new_tensor_4d(context, type, shape.size(3), shape.size(2), shape.size(1), shape.size(0));
}

// The call's own memory. An axis of one element keeps the stride of a packed tensor: nothing lies along it.
ggml_tensor* view_of(ggml_context* context, const TensorView& tensor) {
  ggml_tensor* view = tensor_of(context, type_of(tensor), tensor);
  view->data = attest_at(&tensor.raw(), 0, 0, 0, 0);
  for (int axis = 1; axis < 4; ++axis)
    if (view->ne[axis] > 1)
      view->nb[axis] = static_cast<std::size_t>(tensor.stride(3 - axis)) * ggml_type_size(view->type);
  return view;
}

std::vector<float> packed_floats(const TensorView& t) {
  std::vector<float> packed;
  packed.reserve(static_cast<std::size_t>(t.size(0) * t.size(1) * t.size(2) * t.size(3)));
  for (std::int64_t b = 0; b < t.size(0); ++b)
    for (std::int64_t h = 0; h < t.size(1); ++h)
      for (std::int64_t i = 0; i < t.size(2); ++i)
        for (std::int64_t d = 0; d < t.size(3); ++d) packed.push_back(static_cast<float>(t.load(b, h, i, d)));
  return packed;
}

// The float16 numbers that are added to the scores, [samples, heads, Lq, Lk]; empty where there is nothing to say.
struct Mask {
  std::int64_t samples = 1, heads = 1, most_finite = 0;
  std::vector<ggml_fp16_t> numbers;
};

Mask mask_of(const Attention& call) {
  Mask mask;
  const std::string form = call.form("mask", "narrowed");
  const bool wanted =
      call.keep || call.bias || call.kv_lengths || call.causal || call.window_left >= 0 || call.window_right >= 0;
  if (!wanted && form != "always") return mask;
  const auto varies = [&](int axis) {
    const auto along = [&](const TensorView& t) { return t && t.size(axis) > 1 && t.stride(axis) != 0; };
    return form == "full" || along(call.keep) || along(call.bias);
  };
  if (varies(0) || call.kv_lengths) mask.samples = call.batch();
  if (varies(1)) mask.heads = call.heads();
  mask.numbers.reserve(static_cast<std::size_t>(mask.samples * mask.heads * call.queries() * call.keys()));
  for (std::int64_t b = 0; b < mask.samples; ++b)
    for (std::int64_t h = 0; h < mask.heads; ++h)
      for (std::int64_t i = 0; i < call.queries(); ++i) {
        std::int64_t finite = 0;
        for (std::int64_t j = 0; j < call.keys(); ++j) {
          const float open = call.bias ? static_cast<float>(call.bias.load(b, h, i, j)) : 0.0F;
          const float number = call.takes_part(b, h, i, j) ? open : -infinity;
          finite += std::isfinite(number);
          mask.numbers.push_back(ggml_fp32_to_fp16(number));
        }
        mask.most_finite = std::max(mask.most_finite, finite);
      }
  return mask;
}

// Memory for the result as ggml lays it out, [B,Lq,H,Dv], and whether the call's own out is laid out so.
class Result {
 public:
  explicit Result(const TensorView& out) : out_(out) {
    const std::int64_t strides[4] = {out.size(2) * out.size(1) * out.size(3), out.size(3), out.size(1) * out.size(3),
                                     1};
    in_place_ = out.holds<const float>();
    for (int axis = 0; axis < 4; ++axis) in_place_ &= out.size(axis) == 1 || out.stride(axis) == strides[axis];
    if (in_place_) return;
    size_ = static_cast<std::size_t>(out.size(0) * strides[0]);
    numbers_.assign(size_ + 2 * guard_, nan_);
    std::fill_n(numbers_.begin(), guard_, mark_);
    std::fill_n(numbers_.end() - guard_, guard_, mark_);
  }
  void* data() { return in_place_ ? attest_at(&out_.raw(), 0, 0, 0, 0) : numbers_.data() + guard_; }
  void leave() const {
    if (in_place_) return;
    const auto kept = [](float number) { return number == mark_; };
    if (!std::all_of(numbers_.begin(), numbers_.begin() + guard_, kept) ||
        !std::all_of(numbers_.end() - guard_, numbers_.end(), kept))
      throw std::runtime_error("ggml wrote beside its result");
    const float* number = numbers_.data() + guard_;
    for (std::int64_t b = 0; b < out_.size(0); ++b)
      for (std::int64_t i = 0; i < out_.size(2); ++i)
        for (std::int64_t h = 0; h < out_.size(1); ++h)
          for (std::int64_t d = 0; d < out_.size(3); ++d) out_.store(static_cast<double>(*number++), b, h, i, d);
  }

 private:
  static constexpr std::ptrdiff_t guard_ = 64;
  static constexpr float mark_ = 12345.678F;
  const TensorView& out_;
  bool in_place_ = false;
  std::size_t size_ = 0;
  std::vector<float> numbers_;
};

// One backend for the life of the process: its workspace goes from call to call, as in an application.
ggml_backend_t backend() {
  static const std::unique_ptr<ggml_backend, Free> only{ggml_backend_cpu_init()};
  if (only == nullptr) throw std::runtime_error("ggml_backend_cpu_init gave no backend");
  return only.get();
}

// The number of threads that ggml takes by itself, unless the machine has fewer.
int default_threads() {
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? GGML_DEFAULT_N_THREADS : std::min(GGML_DEFAULT_N_THREADS, static_cast<int>(cores));
}

void set_precision(ggml_tensor* node, const std::string& prec) {
  if (prec == "default") return;
  const ggml_prec wanted = prec == "f32" ? GGML_PREC_F32 : prec == "f16" ? GGML_PREC_F16 : GGML_PREC_BF16;
  if (!ggml_prec_set_acc(node, wanted)) throw std::runtime_error("ggml_prec_set_acc returned false for " + prec);
}

void attention(const Attention& call) {
  const ggml_init_params room{8 * ggml_tensor_overhead() + ggml_graph_overhead_custom(8, false), nullptr, true};
  const std::unique_ptr<ggml_context, Free> context{ggml_init(room)};
  if (context == nullptr) throw std::runtime_error("ggml_init gave no context");

  std::vector<float> converted;
  ggml_tensor* q = nullptr;
  if (call.q.holds<const float>()) {
    q = view_of(context.get(), call.q);
  } else {
    converted = packed_floats(call.q);
    q = tensor_of(context.get(), GGML_TYPE_F32, call.q);
    q->data = converted.data();
  }
  Mask mask = mask_of(call);
  ggml_tensor* added = nullptr;
  if (!mask.numbers.empty()) {
    added = ggml_new_tensor_4d(context.get(), GGML_TYPE_F16, call.keys(), call.queries(), mask.heads, mask.samples);
    added->data = mask.numbers.data();
  }
  ggml_tensor* node =
      ggml_flash_attn_ext(context.get(), q, view_of(context.get(), call.k), view_of(context.get(), call.v), added,
                          static_cast<float>(call.scale), 0.0F, static_cast<float>(call.softcap));
  set_precision(node, call.form("prec", "default"));
  if (added != nullptr && call.form("n_kv_max", "none") == "bound")
    ggml_flash_attn_ext_set_n_kv_max(node, static_cast<std::int32_t>(mask.most_finite));
  if (!ggml_backend_supports_op(backend(), node)) throw std::runtime_error("ggml_backend_supports_op returned false");
  Result result(call.out);
  node->data = result.data();

  ggml_cgraph* graph = ggml_new_graph_custom(context.get(), 8, false);
  ggml_build_forward_expand(graph, node);
  ggml_backend_cpu_set_n_threads(backend(), call.threads > 0 ? call.threads : default_threads());
  ggml_backend_cpu_set_use_ref(backend(), call.form("implementation", "optimised") == "reference");
  const ggml_status status = ggml_backend_graph_compute(backend(), graph);
  if (status != GGML_STATUS_SUCCESS)
    throw std::runtime_error(std::string("ggml_backend_graph_compute: ") + ggml_status_to_string(status));
  result.leave();
}

}  // namespace

const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  static const std::string version = std::string("ggml ") + ggml_version();
  static const attest::Plugin plugin{attest::subject("flash_attn_ext", describe_flash_attn_ext, attention, version)};
  return plugin.table(abi, count);
}
