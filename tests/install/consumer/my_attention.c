#include "my_attention.h"

#include <math.h>

static float score(const float* q, const float* k, int64_t width, float scale) {
  float s = 0;
  for (int64_t d = 0; d < width; ++d) s += q[d] * k[d];
#ifdef FORGET_SCALE
  scale = 1;
#endif
  return s * scale;
}

void my_attention(const float* q, const float* k, const float* v, float* out, int64_t heads, int64_t queries,
                  int64_t keys, int64_t width, float scale) {
  for (int64_t row = 0; row < heads * queries; ++row) {
    const float* own = q + row * width;
    const int64_t first = row / queries * keys * width; /* of its head's keys and values */
    float largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) largest = fmaxf(largest, score(own, k + first + j * width, width, scale));
    for (int64_t d = 0; d < width; ++d) out[row * width + d] = 0;
    for (int64_t j = 0; j < keys; ++j) {
      const float weight = expf(score(own, k + first + j * width, width, scale) - largest);
      sum += weight;
      for (int64_t d = 0; d < width; ++d) out[row * width + d] += weight * v[first + j * width + d];
    }
    for (int64_t d = 0; d < width; ++d) out[row * width + d] /= sum;
  }
}
