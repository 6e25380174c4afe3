/* A plug-in for attest with two subjects: a plain attention kernel, and the same with a defect for attest to find.
 *
 *   cc -std=c11 -O2 -fPIC -shared -I include examples/attention_plugin.c -o attention_plugin.so -lm
 *   attest fuzz ./attention_plugin.so:plain
 *   attest fuzz ./attention_plugin.so:forgets-scale
 *
 * docs/plugin.md walks through it.
 */
#include <attest/plugin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Lb: how many keys sample b has. */
static int64_t keys_of(const attest_attention* call, int64_t b) {
  return attest_present(&call->kv_lengths) ? *(const int32_t*)attest_at(&call->kv_lengths, b, 0, 0, 0)
                                           : call->k.shape[2];
}

static int takes_part(const attest_attention* call, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t length = keys_of(call, b);
  const int64_t diagonal = call->align == ATTEST_TOP_LEFT ? i : i + length - call->q.shape[2];
  if (j >= length) return 0;
  if (call->causal && j > diagonal) return 0;
  if (call->window_left >= 0 && diagonal - j > call->window_left) return 0;
  if (call->window_right >= 0 && j - diagonal > call->window_right) return 0;
  return !attest_present(&call->keep) || *(const uint8_t*)attest_at(&call->keep, b, h, i, j) != 0;
}

static double score(const attest_attention* call, double scale, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t kv_head = h / (call->q.shape[1] / call->k.shape[1]);
  double s = 0;
  for (int64_t d = 0; d < call->q.shape[3]; ++d)
    s += attest_load(&call->q, b, h, i, d) * attest_load(&call->k, b, kv_head, j, d);
  s *= scale;
  if (call->softcap > 0) s = call->softcap * tanh(s / call->softcap);
  if (attest_present(&call->bias)) s += attest_load(&call->bias, b, h, i, j);
  return s;
}

/* One row of out, with room for its weights. */
static void attend(const attest_attention* call, double scale, int64_t b, int64_t h, int64_t i, double* weights) {
  const int64_t keys = call->k.shape[2], width = call->v.shape[3];
  const int64_t kv_head = h / (call->q.shape[1] / call->k.shape[1]);
  double largest = -INFINITY, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    weights[j] = takes_part(call, b, h, i, j) ? score(call, scale, b, h, i, j) : -INFINITY;
    if (weights[j] > largest) largest = weights[j];
  }
  for (int64_t j = 0; j < keys; ++j) {
    weights[j] = largest == -INFINITY ? 0 : exp(weights[j] - largest);
    sum += weights[j];
  }
  for (int64_t d = 0; d < width; ++d) {
    double value = 0;
    for (int64_t j = 0; j < keys; ++j)
      if (weights[j] != 0) value += weights[j] * attest_load(&call->v, b, kv_head, j, d);
    attest_store(&call->out, b, h, i, d, sum > 0 ? value / sum : 0); /* "empty_row":"zero" */
  }
  if (attest_present(&call->lse)) attest_store(&call->lse, b, h, i, 0, sum > 0 ? largest + log(sum) : -INFINITY);
}

static int attention(const attest_attention* call, double scale, char* message, size_t message_size) {
  const int64_t keys = call->k.shape[2];
  double* weights = malloc((keys > 0 ? (size_t)keys : 1) * sizeof *weights);
  if (weights == NULL) {
    snprintf(message, message_size, "out of memory for %lld keys", (long long)keys);
    return ATTEST_ERROR;
  }
  for (int64_t b = 0; b < call->q.shape[0]; ++b)
    for (int64_t h = 0; h < call->q.shape[1]; ++h)
      for (int64_t i = 0; i < call->q.shape[2]; ++i) attend(call, scale, b, h, i, weights);
  free(weights);
  return ATTEST_DONE;
}

static int plain(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  return attention(call, call->scale, message, message_size);
}

static int forgets_scale(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  return attention(call, 1, message, message_size);
}

static const char describe[] =
    "{\"ops\":[\"attention\"],\"dtypes\":[\"f32\",\"f16\",\"bf16\"],\"concurrent\":true,"
    "\"supports\":{\"stages\":[],\"far\":true},"
    "\"contract\":{\"policy\":{\"f32\":\"f32\",\"f16\":\"f16\",\"bf16\":\"bf16\"},\"empty_row\":\"zero\","
    "\"batch_invariant\":\"bitwise\",\"deterministic\":\"threads\"}}";

static const attest_subject subjects[] = {
    {.struct_size = sizeof(attest_subject), .name = "plain", .version = "1", .describe = describe, .attention = plain},
    {.struct_size = sizeof(attest_subject),
     .name = "forgets-scale",
     .version = "1",
     .describe = describe,
     .attention = forgets_scale},
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof subjects / sizeof *subjects;
  return subjects;
}
