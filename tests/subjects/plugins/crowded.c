/* A subject with three rare defects, and the same behind a crash that takes about a third of the default stream. */
#include <signal.h>

#define attest_plugin plain_plugin
#include "../../../examples/attention_plugin.c"
#undef attest_plugin

/* Each wrong by a factor that no rounding explains, in a few problems of a thousand. */
static double rare(const attest_attention* call) {
  const int capped_bias = call->softcap > 0 && attest_present(&call->bias) && call->q.shape[2] == 1;
  const int narrow_window = call->window_left == 0 && call->k.shape[2] > 64;
  const int long_groups = call->q.shape[1] > call->k.shape[1] && call->q.shape[3] > 64 && call->k.shape[2] > 128;
  return capped_bias || narrow_window || long_groups ? 1.25 : 1;
}

static int behind(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  const int status = attention(call, call->scale, message, message_size);
  const double factor = rare(call);
  if (status != ATTEST_DONE || factor == 1) return status;
  for (int64_t b = 0; b < call->out.shape[0]; ++b)
    for (int64_t h = 0; h < call->out.shape[1]; ++h)
      for (int64_t i = 0; i < call->out.shape[2]; ++i)
        for (int64_t d = 0; d < call->out.shape[3]; ++d)
          attest_store(&call->out, b, h, i, d, factor * attest_load(&call->out, b, h, i, d));
  return status;
}

static int crowded(void* self, const attest_attention* call, char* message, size_t message_size) {
  if (call->causal) raise(SIGSEGV);
  return behind(self, call, message, message_size);
}

static const attest_subject table[] = {
    {.struct_size = sizeof(attest_subject), .name = "parent", .version = "1", .describe = describe, .attention = behind},
    {.struct_size = sizeof(attest_subject), .name = "crowded", .version = "1", .describe = describe, .attention = crowded},
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof table / sizeof *table;
  return table;
}
