/* layer_norm in double, rounded once: right, with epsilon outside the root, and without gamma in its last column beside
 * an attention of the fewest options, which is right. */
#include <attest/plugin.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  int epsilon_outside, forgets_last_gamma;
} defects;

/* x + residual as storage has it; without sum_out to keep it in, out does, which is written over in the end. */
static double sum_of(const attest_layer_norm* call, int64_t row, int64_t column) {
  const attest_tensor* room = attest_present(&call->sum_out) ? &call->sum_out : &call->out;
  if (!attest_present(&call->residual)) return attest_load(&call->x, row, column, 0, 0);
  attest_store(room, row, column, 0, 0,
               attest_load(&call->x, row, column, 0, 0) + attest_load(&call->residual, row, column, 0, 0));
  return attest_load(room, row, column, 0, 0);
}

static int layer_norm(void* self, const attest_layer_norm* call, char* message, size_t message_size) {
  const defects* wrong = (const defects*)self;
  const int64_t rows = call->x.shape[0], hidden = call->x.shape[1];
  if (call->struct_size != sizeof *call) {
    snprintf(message, message_size, "struct_size is %u", call->struct_size);
    return ATTEST_ERROR;
  }
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < hidden && !call->rms; ++c) mean += sum_of(call, r, c) / (double)hidden;
    for (int64_t c = 0; c < hidden; ++c) {
      const double d = sum_of(call, r, c) - mean;
      variance += d * d / (double)hidden;
    }
    const double root = wrong->epsilon_outside ? sqrt(variance) + call->epsilon : sqrt(variance + call->epsilon);
    for (int64_t c = 0; c < hidden; ++c) {
      double value = (sum_of(call, r, c) - mean) / root;
      if (attest_present(&call->gamma) && !(wrong->forgets_last_gamma && c == hidden - 1))
        value *= attest_load(&call->gamma, c, 0, 0, 0);
      if (attest_present(&call->beta)) value += attest_load(&call->beta, c, 0, 0, 0);
      attest_store(&call->out, r, c, 0, 0, value);
    }
  }
  return ATTEST_DONE;
}

static int attention(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self, (void)message, (void)message_size;
  const int64_t keys = call->k.shape[2], group = call->q.shape[1] / call->k.shape[1];
  double* weights = malloc(sizeof(double) * (size_t)(keys + 1));
  for (int64_t b = 0; b < call->q.shape[0]; ++b)
    for (int64_t h = 0; h < call->q.shape[1]; ++h)
      for (int64_t i = 0; i < call->q.shape[2]; ++i) {
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
          double s = 0;
          for (int64_t d = 0; d < call->q.shape[3]; ++d)
            s += attest_load(&call->q, b, h, i, d) * attest_load(&call->k, b, h / group, j, d);
          weights[j] = s * call->scale;
          largest = weights[j] > largest ? weights[j] : largest;
        }
        for (int64_t j = 0; j < keys; ++j) sum += weights[j] = exp(weights[j] - largest);
        for (int64_t e = 0; e < call->v.shape[3]; ++e) {
          double value = 0;
          for (int64_t j = 0; j < keys; ++j) value += weights[j] * attest_load(&call->v, b, h / group, j, e);
          attest_store(&call->out, b, h, i, e, value / sum);
        }
      }
  free(weights);
  return ATTEST_DONE;
}

#define CONTRACT \
  "{\"policy\":{\"f32\":\"f32\",\"f16\":\"f16\",\"bf16\":\"bf16\"},\"rsqrt_ulp\":2,\"deterministic\":\"threads\"}"
#define SUPPORTS "{\"strides\":\"any\",\"dims\":{\"rows\":[0,null,1]}}"

static const char describe[] =
    "{\"ops\":[\"layer_norm\"],\"dtypes\":[\"f32\",\"f16\",\"bf16\"],\"concurrent\":true,"
    "\"supports\":" SUPPORTS ",\"contract\":" CONTRACT "}";
static const char both[] =
    "{\"ops\":[\"attention\",\"layer_norm\"],\"dtypes\":[\"f32\",\"f16\",\"bf16\"],\"concurrent\":true,"
    "\"supports\":{\"layer_norm\":" SUPPORTS
    ",\"attention\":{\"causal\":false,\"bias\":false,\"keep\":false,"
    "\"kv_lengths\":false,\"window\":false,\"softcap\":false,\"lse\":false,\"dims\":{\"lq\":[1,4,1],\"lk\":[1,8,1]}}},"
    "\"contract\":{\"layer_norm\":" CONTRACT ",\"attention\":{\"policy\":{\"f32\":\"f32\",\"f16\":\"f16\"}}}}";

static defects none = {0, 0}, epsilon_outside = {1, 0}, last_gamma = {0, 1};

static const attest_subject subjects[] = {
    {.struct_size = sizeof(attest_subject),
     .self = &none,
     .name = "right",
     .version = "1",
     .describe = describe,
     .layer_norm = layer_norm},
    {.struct_size = sizeof(attest_subject),
     .self = &epsilon_outside,
     .name = "epsilon-outside",
     .version = "1",
     .describe = describe,
     .layer_norm = layer_norm},
    {.struct_size = sizeof(attest_subject),
     .self = &last_gamma,
     .name = "both",
     .version = "1",
     .describe = both,
     .attention = attention,
     .layer_norm = layer_norm},
    {.struct_size = sizeof(attest_subject), .self = &none, .name = "empty", .version = "1", .describe = describe},
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof subjects / sizeof *subjects;
  return subjects;
}
