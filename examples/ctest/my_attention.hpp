#pragma once
#include <cstdint>

// A kernel as a library might have it: float, packed [batch, heads, length, width], causal from the top left.
struct AttentionShape {
  std::int64_t batch, heads, queries, keys, width;
};
void my_attention(const float* q, const float* k, const float* v, float* out, const AttentionShape& shape, float scale,
                  bool causal);
