// Kernels as anybody writes them first: loops over keys, one after the other, and the C library's exp. They compute the
// functions of their contracts, and nothing of them knows how attest judges.
#include <attest/plugin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace {

template <class Call>
bool takes_part(const Call& call, int64_t queries, int64_t keys, int64_t b, int64_t h, int64_t i, int64_t j) {
  int64_t length = keys;
  if (attest_present(&call.kv_lengths)) length = *static_cast<int32_t*>(attest_at(&call.kv_lengths, b, 0, 0, 0));
  const int64_t past = j - (call.align == ATTEST_TOP_LEFT ? i : i + length - queries);  // the row's diagonal
  if (j >= length || (call.causal != 0 && past > 0)) return false;
  if (attest_present(&call.keep) && *static_cast<uint8_t*>(attest_at(&call.keep, b, h, i, j)) == 0) return false;
  if constexpr (std::is_same_v<Call, attest_attention>)
    return (call.window_left < 0 || -past <= call.window_left) && (call.window_right < 0 || past <= call.window_right);
  return true;
}

template <class T>
T load(const attest_tensor& tensor, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return static_cast<T>(attest_load(&tensor, i0, i1, i2, i3));
}

// T: the type of all arithmetic. Online: the sum and the values are rescaled whenever a score is larger than all before
// it.
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
          if (!takes_part(call, call.q.shape[2], call.k.shape[2], b, h, i, j)) continue;
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

// tokens [B,n,E] times rows [first, first + width) of weight, and what bias adds: [n,width] of sample b.
template <class T>
std::vector<T> projected(const attest_tensor& tokens, int64_t b, const attest_tensor& weight, const attest_tensor& bias,
                         int64_t first, int64_t width) {
  std::vector<T> result;
  for (int64_t i = 0; i < tokens.shape[1]; ++i)
    for (int64_t row = first; row < first + width; ++row) {
      T sum = 0;
      for (int64_t e = 0; e < tokens.shape[2]; ++e) sum += load<T>(tokens, b, i, e, 0) * load<T>(weight, row, e, 0, 0);
      if (attest_present(&bias)) sum += load<T>(bias, row, 0, 0, 0);
      result.push_back(sum);
    }
  return result;
}

// Attention of one head, [L,D], added to what the heads before it gave: no matrix is ever rounded between two steps.
template <class T>
int block(void* /*self*/, const attest_mha* the_call, char* /*message*/, size_t /*message_size*/) {
  const attest_mha& call = *the_call;
  const attest_tensor& memory = attest_present(&call.memory) ? call.memory : call.x;
  const int64_t queries = call.x.shape[1], keys = memory.shape[1], d = call.head_dim, width = call.x.shape[2];
  const auto at = [](int64_t row, int64_t columns, int64_t column) {
    return static_cast<size_t>(row * columns + column);
  };
  for (int64_t b = 0; b < call.x.shape[0]; ++b) {
    std::vector<T> together(static_cast<size_t>(queries * call.heads * d));
    for (int64_t h = 0; h < call.heads; ++h) {
      const int64_t kv = h / (call.heads / call.kv_heads);
      const std::vector<T> q = projected<T>(call.x, b, call.w_q, call.b_q, h * d, d),
                           k = projected<T>(memory, b, call.w_k, call.b_k, kv * d, d),
                           v = projected<T>(memory, b, call.w_v, call.b_v, kv * d, d);
      for (int64_t i = 0; i < queries; ++i) {
        std::vector<T> scores(static_cast<size_t>(keys), -INFINITY);
        T top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          if (!takes_part(call, queries, keys, b, h, i, j)) continue;
          T score = 0;
          for (int64_t c = 0; c < d; ++c) score += q[at(i, d, c)] * k[at(j, d, c)];
          score *= static_cast<T>(call.scale);
          if (attest_present(&call.bias)) score += load<T>(call.bias, b, h, i, j);
          scores[static_cast<size_t>(j)] = score;
          top = std::max(top, score);
        }
        T* const out = &together[at(i, call.heads * d, h * d)];
        if (top == -INFINITY) continue;  // 0
        for (int64_t j = 0; j < keys; ++j) {
          const T score = scores[static_cast<size_t>(j)];
          if (score == -INFINITY) continue;
          const T weight = std::exp(score - top);
          sum += weight;
          for (int64_t c = 0; c < d; ++c) out[c] += weight * v[at(j, d, c)];
        }
        for (int64_t c = 0; c < d; ++c) out[c] /= sum;
      }
    }
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t e = 0; e < width; ++e) {
        T y = 0;
        for (int64_t c = 0; c < call.heads * d; ++c)
          y += together[at(i, call.heads * d, c)] * load<T>(call.w_out, e, c, 0, 0);
        if (attest_present(&call.b_out)) y += load<T>(call.b_out, e, 0, 0, 0);
        attest_store(&call.out, b, i, e, 0, y);
      }
  }
  return ATTEST_DONE;
}

using Attention = int (*)(void*, const attest_attention*, char*, size_t);
using LayerNorm = int (*)(void*, const attest_layer_norm*, char*, size_t);
using Block = int (*)(void*, const attest_mha*, char*, size_t);
attest_subject subject(const char* name, const char* describe, Attention attention, LayerNorm layer_norm,
                       Block block = nullptr) {
  attest_subject result{};
  result.struct_size = sizeof result;
  result.name = name;
  result.version = "1";
  result.describe = describe;
  result.attention = attention;
  result.layer_norm = layer_norm;
  result.mha = block;
  return result;
}

}  // namespace

#define ATTENTION(type)                                                                                         \
  R"({"ops":["attention"], "dtypes":[")" type R"("], "contract":{"policy":")" type R"(", "empty_row":"zero"},)" \
  R"( "supports":{"softcap":false, "lse":false}})"
#define LAYER_NORM(type) R"({"ops":["layer_norm"], "dtypes":[")" type R"("], "contract":{"policy":")" type R"("}})"
#define MHA(type) \
  R"({"ops":["mha"], "dtypes":[")" type R"("], "contract":{"policy":")" type R"(", "empty_row":"zero"}})"

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
      subject("block-f32", MHA("f32"), nullptr, nullptr, block<float>),
      subject("block-f64", MHA("f64"), nullptr, nullptr, block<double>),
  };
  *count = sizeof subjects / sizeof *subjects;
  return abi == ATTEST_ABI ? subjects : nullptr;
}
