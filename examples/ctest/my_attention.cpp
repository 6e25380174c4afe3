#include "my_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace {

// One query over the keys 0..keys-1, in one pass: online softmax.
void attend(const float* q, const float* k, const float* v, float* out, std::int64_t keys, std::int64_t width,
            float scale) {
  float largest = -std::numeric_limits<float>::infinity(), sum = 0;
  std::vector<float> total(static_cast<std::size_t>(width), 0.0F);
  for (std::int64_t j = 0; j < keys; ++j) {
    float score = 0;
    for (std::int64_t d = 0; d < width; ++d) score += q[d] * k[j * width + d];
    score *= scale;
    const float next = std::max(largest, score);
    const float rescale = std::exp(largest - next), weight = std::exp(score - next);
    sum = sum * rescale + weight;
    for (std::int64_t d = 0; d < width; ++d) {
      float& t = total[static_cast<std::size_t>(d)];
      t = t * rescale + weight * v[j * width + d];
    }
    largest = next;
  }
  for (std::int64_t d = 0; d < width; ++d) out[d] = total[static_cast<std::size_t>(d)] / sum;
}

}  // namespace

void my_attention(const float* q, const float* k, const float* v, float* out, const AttentionShape& shape, float scale,
                  bool causal) {
  const auto& [batch, heads, queries, keys, width] = shape;
  for (std::int64_t head = 0; head < batch * heads; ++head)
    for (std::int64_t i = 0; i < queries; ++i) {
      const std::int64_t row = (head * queries + i) * width, first = head * keys * width;
      attend(q + row, k + first, v + first, out + row, causal ? std::min(i + 1, keys) : keys, width, scale);
    }
}
