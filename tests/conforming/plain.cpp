// Kernels as anybody writes them first: loops over keys, one after the other, and the C library's exp. What they compute is what their
// contracts say, and nothing of them knows how attest judges.
#include <attest/plugin.h>

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

bool takes_part(const attest_attention& call, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t length = call.k.shape[2];
  if (attest_present(&call.kv_lengths)) length = *static_cast<int32_t*>(attest_at(&call.kv_lengths, b, 0, 0, 0));
  const int64_t diagonal = call.align == ATTEST_TOP_LEFT ? i : i + length - call.q.shape[2];
  if (j >= length || (call.causal != 0 && j > diagonal)) return false;
  if (attest_present(&call.keep) && *static_cast<uint8_t*>(attest_at(&call.keep, b, h, i, j)) == 0) return false;
  if (call.window_left >= 0 && diagonal - j > call.window_left) return false;
  return call.window_right < 0 || j - diagonal <= call.window_right;
}

template <class T>
T load(const attest_tensor& tensor, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return static_cast<T>(attest_load(&tensor, i0, i1, i2, i3));
}

// T: of all arithmetic. Online: the sum and the values are rescaled whenever a score is larger than all before it.
template <class T, bool online>
int attention(void* /*self*/, const attest_attention* the_call, char* /*message*/, size_t /*message_size*/) {
  const attest_attention& call = *the_call;
  const int64_t heads = call.q.shape[1], width = call.q.shape[3], values = call.v.shape[3];
  struct Key {
    int64_t j;
    T score;
  };
  std::vector<Key> keys;
  std::vector<T> sums(static_cast<size_t>(values));
  for (int64_t b = 0; b < call.q.shape[0]; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < call.q.shape[2]; ++i) {
        const int64_t kv_head = h / (heads / call.k.shape[1]);
        keys.clear();
        T top = -INFINITY;
        for (int64_t j = 0; j < call.k.shape[2]; ++j) {
          if (!takes_part(call, b, h, i, j)) continue;
          T score = 0;
          for (int64_t c = 0; c < width; ++c) score += load<T>(call.q, b, h, i, c) * load<T>(call.k, b, kv_head, j, c);
          score *= static_cast<T>(call.scale);
          if (attest_present(&call.bias)) score += load<T>(call.bias, b, h, i, j);
          if (score == -INFINITY) continue;
          keys.push_back({j, score});
          if (!online && score > top) top = score;
        }
        T sum = 0;
        for (T& value : sums) value = 0;
        for (const Key& key : keys) {
          if (online && key.score > top) {
            const T kept = top == -INFINITY ? T{0} : std::exp(top - key.score);
            sum *= kept;
            for (T& value : sums) value *= kept;
            top = key.score;
          }
          const T weight = std::exp(key.score - top);
          sum += weight;
          for (int64_t c = 0; c < values; ++c)
            sums[static_cast<size_t>(c)] += weight * load<T>(call.v, b, kv_head, key.j, c);
        }
        for (int64_t c = 0; c < values; ++c)
          attest_store(&call.out, b, h, i, c, keys.empty() ? T{0} : sums[static_cast<size_t>(c)] / sum);
      }
  return ATTEST_DONE;
}

// Two passes; RMSNorm's mean is 0.
template <class T>
int layer_norm(void* /*self*/, const attest_layer_norm* the_call, char* /*message*/, size_t /*message_size*/) {
  const attest_layer_norm& call = *the_call;
  const int64_t hidden = call.x.shape[1];
  std::vector<T> x(static_cast<size_t>(hidden));
  for (int64_t row = 0; row < call.x.shape[0]; ++row) {
    for (int64_t i = 0; i < hidden; ++i) {
      T& element = x[static_cast<size_t>(i)] = load<T>(call.x, row, i, 0, 0);
      if (!attest_present(&call.residual)) continue;
      const attest_tensor& sum = attest_present(&call.sum_out) ? call.sum_out : call.out;  // rounded to storage
      attest_store(&sum, row, i, 0, 0, element + load<T>(call.residual, row, i, 0, 0));
      element = load<T>(sum, row, i, 0, 0);
    }
    T mean = 0, squares = 0;
    if (call.rms == 0) {
      for (const T element : x) mean += element;
      mean /= static_cast<T>(hidden);
    }
    for (const T element : x) squares += (element - mean) * (element - mean);
    const T root = 1 / std::sqrt(squares / static_cast<T>(hidden) + static_cast<T>(call.epsilon));
    for (int64_t i = 0; i < hidden; ++i) {
      T y = (x[static_cast<size_t>(i)] - mean) * root;
      if (attest_present(&call.gamma)) y *= load<T>(call.gamma, i, 0, 0, 0);
      if (attest_present(&call.beta)) y += load<T>(call.beta, i, 0, 0, 0);
      attest_store(&call.out, row, i, 0, 0, y);
    }
  }
  return ATTEST_DONE;
}

using Attention = int (*)(void*, const attest_attention*, char*, size_t);
using LayerNorm = int (*)(void*, const attest_layer_norm*, char*, size_t);
attest_subject subject(const char* name, const char* describe, Attention attention, LayerNorm layer_norm) {
  attest_subject result{};
  result.struct_size = sizeof result;
  result.name = name;
  result.version = "1";
  result.describe = describe;
  result.attention = attention;
  result.layer_norm = layer_norm;
  return result;
}

}  // namespace

#define ATTENTION(type)                                                                                         \
  R"({"ops":["attention"], "dtypes":[")" type R"("], "contract":{"policy":")" type R"(", "empty_row":"zero"},)" \
  R"( "supports":{"softcap":false, "lse":false}})"
#define LAYER_NORM(type) R"({"ops":["layer_norm"], "dtypes":[")" type R"("], "contract":{"policy":")" type R"("}})"

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  static const attest_subject subjects[] = {
      subject("f32", ATTENTION("f32"), attention<float, false>, nullptr),
      subject("f32-online", ATTENTION("f32"), attention<float, true>, nullptr),
      subject("f64", ATTENTION("f64"), attention<double, false>, nullptr),
      subject("f64-online", ATTENTION("f64"), attention<double, true>, nullptr),
      subject("f16", ATTENTION("f16"), attention<float, false>, nullptr),
      subject("f16-online", ATTENTION("f16"), attention<float, true>, nullptr),
      subject("bf16", ATTENTION("bf16"), attention<float, false>, nullptr),
      subject("bf16-online", ATTENTION("bf16"), attention<float, true>, nullptr),
      subject("norm-f32", LAYER_NORM("f32"), nullptr, layer_norm<float>),
      subject("norm-f64", LAYER_NORM("f64"), nullptr, layer_norm<double>),
      subject("norm-f16", LAYER_NORM("f16"), nullptr, layer_norm<float>),
      subject("norm-bf16", LAYER_NORM("bf16"), nullptr, layer_norm<float>),
  };
  *count = sizeof subjects / sizeof *subjects;
  return abi == ATTEST_ABI ? subjects : nullptr;
}
