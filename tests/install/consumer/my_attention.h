/* The kernel that README.md's plug-in calls: float, packed [heads][length][width]. */
#ifndef MY_ATTENTION_H
#define MY_ATTENTION_H
#include <stdint.h>
void my_attention(const float* q, const float* k, const float* v, float* out, int64_t heads, int64_t queries,
                  int64_t keys, int64_t width, float scale);
#endif
