// Twenty kernels, each with a defect that two or three sizes of a model must meet to show: the kinds that public
// reports tell of. Beside them `right`, which has none.
#include <attest/plugin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct Sizes {
  int64_t b, heads, kv_heads, group, queries, keys, width, values;
  bool causal;
  [[nodiscard]] bool decodes() const { return queries == 1; }
};

// One row of out, and the places that a kernel reads for it. A defect changes them.
struct Row {
  int64_t b, h, i;
  int64_t query_head, kv_sample, kv_head;  // q[b, query_head, i], k[kv_sample, kv_head], v likewise
  int64_t end;                             // keys [0, end)
  int64_t width;                           // elements of a score
  int64_t ahead = 0;                       // keys by which the diagonal is moved
  int64_t shifted_from = -1;               // columns from here on have the value of the key before; -1: none
  int64_t first_keys = 0;                  // their weights are a 32nd too large
  bool counts_padding = false;             // a key of score 0 behind the last is summed up too
};

using Defect = void (*)(const Sizes&, Row&);

struct Kernel {
  const char* name;
  Defect defect;
};

constexpr Kernel kernels[] = {
    {"right", [](const Sizes&, Row&) {}},
    {"split-remainder",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && s.keys >= 1024) r.end -= s.keys % 8;
     }},
    {"group-tile",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && s.group > 4) r.query_head = r.h - r.h % s.group + r.h % s.group % 4;
     }},
    {"width-80",
     [](const Sizes& s, Row& r) {
       if (s.width == 80 && s.queries >= 64) r.width = 64;
     }},
    {"value-stride",
     [](const Sizes& s, Row& r) {
       if (s.width != s.values && s.keys >= 512) r.shifted_from = 0;
     }},
    {"latent-width",
     [](const Sizes& s, Row& r) {
       if (s.width == 576 && s.decodes()) r.width = 512;
     }},
    {"chunk-diagonal",
     [](const Sizes& s, Row& r) {
       if (s.causal && s.queries >= 16 && s.keys - s.queries >= 256 && (s.keys - s.queries) % 64 != 0) r.ahead = -1;
     }},
    {"one-block-of-keys",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && s.keys > 4096) r.end = 4096;
     }},
    {"tail-rows",
     [](const Sizes& s, Row& r) {
       if (s.queries > 128 && s.queries % 128 <= 16 && s.keys > 128 && r.i >= s.queries - s.queries % 128) r.end = 128;
     }},
    {"grid-of-samples",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && s.b > 64) r.kv_sample = r.b % 64;
     }},
    {"heads-of-block",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && r.h >= 32) r.query_head = r.h - 32;
     }},
    {"padded-keys",
     [](const Sizes& s, Row& r) {
       r.counts_padding = !s.causal && s.queries == s.keys && s.keys >= 128 && s.keys % 64 != 0;
     }},
    {"text-tail",
     [](const Sizes& s, Row& r) {
       if (s.keys == 77 && s.queries >= 256) r.end = 64;
     }},
    {"wide-values",
     [](const Sizes& s, Row& r) {
       if (s.values > 256 && s.keys >= 64) r.shifted_from = 256;
     }},
    {"vector-of-keys",
     [](const Sizes& s, Row& r) {
       if (s.width >= 64 && s.keys >= 1024) r.end -= s.keys % 4;
     }},
    {"group-shift",
     [](const Sizes& s, Row& r) {
       if (!s.decodes() || s.group == 1) return;
       r.kv_head = std::min(r.h >> (std::bit_width(static_cast<uint64_t>(s.group)) - 1), s.kv_heads - 1);
     }},
    {"one-key-head",
     [](const Sizes& s, Row& r) {
       if (s.kv_heads == 1 && r.h >= 64) r.query_head = r.h - 64;
     }},
    {"width-256",
     [](const Sizes& s, Row& r) {
       if (s.width == 256 && s.queries >= 64) r.width = 248;
     }},
    {"batch-of-decodes",
     [](const Sizes& s, Row& r) {
       if (s.decodes() && s.keys >= 512 && r.b >= 4) r.end -= 1;
     }},
    {"first-tile",
     [](const Sizes& s, Row& r) {
       if (s.width == 128 && s.keys >= 512 && r.i >= 128) r.first_keys = 64;
     }},
    {"speculated",
     [](const Sizes& s, Row& r) {
       if (s.queries > 1 && s.queries <= 8 && s.keys >= 512 && s.group > 1 && r.i > 0) r.end -= 1;
     }},
};

bool takes_part(const attest_attention& call, const Row& row, int64_t length, int64_t j) {
  const int64_t past = j - (call.align == ATTEST_TOP_LEFT ? row.i : row.i + length - call.q.shape[2]) - row.ahead;
  if (j >= length || (call.causal != 0 && past > 0)) return false;
  if (attest_present(&call.keep) && *static_cast<uint8_t*>(attest_at(&call.keep, row.b, row.h, row.i, j)) == 0)
    return false;
  return (call.window_left < 0 || -past <= call.window_left) && (call.window_right < 0 || past <= call.window_right);
}

float load(const attest_tensor& tensor, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  return static_cast<float>(attest_load(&tensor, i0, i1, i2, i3));
}

// [keys, width] of one sample and head.
std::vector<float> packed(const attest_tensor& tensor, int64_t b, int64_t h) {
  std::vector<float> all(static_cast<size_t>(tensor.shape[2] * tensor.shape[3]));
  for (int64_t j = 0; j < tensor.shape[2]; ++j)
    for (int64_t c = 0; c < tensor.shape[3]; ++c)
      all[static_cast<size_t>(j * tensor.shape[3] + c)] = load(tensor, b, h, j, c);
  return all;
}

int attention(void* self, const attest_attention* the_call, char* /*message*/, size_t /*message_size*/) {
  const attest_attention& call = *the_call;
  const Kernel& kernel = *static_cast<const Kernel*>(self);
  const int64_t *q = call.q.shape, *k = call.k.shape;
  const Sizes s{
      q[0], q[1], k[1], q[1] / std::max<int64_t>(k[1], 1), q[2], k[2], q[3], call.v.shape[3], call.causal != 0};
  std::vector<float> query(static_cast<size_t>(s.width)), weights(static_cast<size_t>(s.keys)),
      out(static_cast<size_t>(s.values));
  std::vector<float> keys, values;
  int64_t at_sample = -1, at_head = -1;  // the place of keys and values
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) {
        Row row{b, h, i, h, b, h / s.group, s.keys, s.width};
        kernel.defect(s, row);
        if (row.kv_sample != at_sample || row.kv_head != at_head) {
          keys = packed(call.k, at_sample = row.kv_sample, at_head = row.kv_head);
          values = packed(call.v, at_sample, at_head);
        }
        int64_t length = s.keys;
        if (attest_present(&call.kv_lengths)) length = *static_cast<int32_t*>(attest_at(&call.kv_lengths, b, 0, 0, 0));
        for (int64_t c = 0; c < s.width; ++c) query[static_cast<size_t>(c)] = load(call.q, b, row.query_head, i, c);
        float top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          float score = 0;
          const float* key = keys.data() + j * s.width;
          for (int64_t c = 0; c < row.width; ++c) score += query[static_cast<size_t>(c)] * key[c];
          score *= static_cast<float>(call.scale);
          if (attest_present(&call.bias)) score += load(call.bias, b, h, i, j);
          weights[static_cast<size_t>(j)] = j < row.end && takes_part(call, row, length, j) ? score : -INFINITY;
          top = std::max(top, weights[static_cast<size_t>(j)]);
        }
        std::fill(out.begin(), out.end(), 0.0F);
        for (int64_t j = 0; j < s.keys && top > -INFINITY; ++j) {
          if (weights[static_cast<size_t>(j)] == -INFINITY) continue;
          float weight = std::exp(weights[static_cast<size_t>(j)] - top);
          if (j < row.first_keys) weight *= 1.03125F;
          sum += weight;
          const float* value = values.data() + j * s.values;
          for (int64_t c = 0; c < s.values; ++c) {
            const bool shifted = row.shifted_from >= 0 && c >= row.shifted_from && j > 0;
            out[static_cast<size_t>(c)] += weight * value[shifted ? c - s.values : c];
          }
        }
        if (row.counts_padding) sum += std::exp(-top);
        for (int64_t c = 0; c < s.values; ++c)
          attest_store(&call.out, b, h, i, c, top == -INFINITY ? 0.0F : out[static_cast<size_t>(c)] / sum);
      }
  return ATTEST_DONE;
}

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  static const std::vector<attest_subject> subjects = [] {
    std::vector<attest_subject> all;
    for (const Kernel& kernel : kernels) {
      attest_subject& one = all.emplace_back();
      one.struct_size = sizeof one;
      one.name = kernel.name;
      one.version = "1";
      one.self = const_cast<Kernel*>(&kernel);
      one.describe = R"({"ops":["attention"], "dtypes":["f32"], "contract":{"policy":"f32", "empty_row":"zero"},)"
                     R"( "supports":{"softcap":false, "lse":false}})";
      one.attention = attention;
    }
    return all;
  }();
  *count = subjects.size();
  return abi == ATTEST_ABI ? subjects.data() : nullptr;
}
