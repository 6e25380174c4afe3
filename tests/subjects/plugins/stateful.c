/* A plug-in of kernels that are right on a fresh instance, and go wrong by what they keep from call to call. */
#define _POSIX_C_SOURCE 199309L
#define attest_plugin attest_plugin_of_the_example
#include "../../../examples/attention_plugin.c"
#undef attest_plugin
#include <string.h>
#include <time.h>

/* About one shape in a hundred. */
static int poisons(const attest_attention* call) {
  const attest_tensor* tensors[] = {&call->q, &call->k, &call->v};
  uint64_t hash = 0;
  for (int t = 0; t < 3; ++t)
    for (int axis = 0; axis < 4; ++axis) hash = hash * 31 + (uint64_t)tensors[t]->shape[axis];
  return (hash * 0x9E3779B97F4A7C15u >> 56) < 3;
}

static void fill(const attest_tensor* out, double value) {
  for (int64_t b = 0; b < out->shape[0]; ++b)
    for (int64_t h = 0; h < out->shape[1]; ++h)
      for (int64_t i = 0; i < out->shape[2]; ++i)
        for (int64_t d = 0; d < out->shape[3]; ++d) attest_store(out, b, h, i, d, value);
}

/* Right until a call poisons the process; that one is right too. `self` says how all later ones fail. */
static int poisonable(void* self, const attest_attention* call, char* message, size_t message_size) {
  static int poisoned = 0;
  const char* way = self;
  if (poisoned && strcmp(way, "error") == 0) {
    snprintf(message, message_size, "the device is lost");
    return ATTEST_ERROR;
  }
  if (poisoned && strcmp(way, "crash") == 0) abort();
  attention(call, call->scale, message, message_size);
  if (poisoned) fill(&call->out, strcmp(way, "nan") == 0 ? NAN : 12345);
  poisoned = poisoned || poisons(call);
  return ATTEST_DONE;
}

/* Keeps the scale of the first call of each number of keys. */
static int keeps_scale(void* self, const attest_attention* call, char* message, size_t message_size) {
  static double scales[256];
  static int known[256];
  (void)self;
  const int64_t keys = call->k.shape[2];
  if (keys >= 256) return attention(call, call->scale, message, message_size);
  if (!known[keys]) scales[keys] = call->scale;
  known[keys] = 1;
  return attention(call, scales[keys], message, message_size);
}

/* Wrong in about a third of the calls, whatever these are. */
static int races(void* self, const attest_attention* call, char* message, size_t message_size) {
  static uint64_t state = 0;
  (void)self;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  state ^= (uint64_t)now.tv_nsec;
  state = state * 6364136223846793005u + 1442695040888963407u;
  attention(call, call->scale, message, message_size);
  if (call->k.shape[2] > 2 && (state >> 33) % 3 == 0) fill(&call->out, 12345);
  return ATTEST_DONE;
}

#define SUBJECT(NAME, KERNEL, SELF)        \
  {.struct_size = sizeof(attest_subject), \
   .name = NAME,                          \
   .version = "1",                        \
   .describe = describe,                  \
   .self = SELF,                          \
   .attention = KERNEL}

static const attest_subject stateful[] = {
    SUBJECT("poisoned-error", poisonable, "error"), SUBJECT("poisoned-crash", poisonable, "crash"),
    SUBJECT("poisoned-wrong", poisonable, "wrong"), SUBJECT("poisoned-nan", poisonable, "nan"),
    SUBJECT("keeps-scale", keeps_scale, NULL),      SUBJECT("races", races, NULL),
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count);
const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof stateful / sizeof *stateful;
  return stateful;
}
