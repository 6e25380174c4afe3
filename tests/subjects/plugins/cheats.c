/* Kernels that answer without doing the work, or do more than they may, each in one way. All are right where they do it honestly. */
#define _POSIX_C_SOURCE 199309L
#define attest_plugin attest_plugin_of_the_example
#include "../../../examples/attention_plugin.c"
#undef attest_plugin
#include <string.h>
#include <time.h>

/* ---- results kept from call to call ---- */

enum { by_q = 1, by_k = 2, by_v = 4, by_masks = 8, most_kept = 1 << 14 };

/* What a call is known again by. */
static uint64_t key_of_contents(const attest_attention* call, int of) {
  const attest_tensor* tensors[] = {&call->q, &call->k, &call->v, &call->bias, &call->keep, &call->kv_lengths};
  uint64_t key = 14695981039346656037u; /* FNV-1a */
  for (int t = 0; t < 6; ++t) {
    const attest_tensor* tensor = tensors[t];
    if (!attest_present(tensor)) continue;
    int64_t n[4] = {1, 1, 1, 1};
    for (int axis = 0; axis < tensor->ndim; ++axis) n[axis] = tensor->shape[axis];
    for (int axis = 0; axis < 4; ++axis) key = (key ^ (uint64_t)n[axis]) * 1099511628211u;
    if (!(of & (t < 3 ? 1 << t : by_masks))) continue;
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t b = 0; b < n[1]; ++b)
        for (int64_t c = 0; c < n[2]; ++c)
          for (int64_t d = 0; d < n[3]; ++d) {
            const unsigned char* at = attest_at(tensor, a, b, c, d);
            for (int byte = 0; byte < tensor->dtype.bits / 8; ++byte) key = (key ^ at[byte]) * 1099511628211u;
          }
  }
  return key;
}

static uint64_t key_of_addresses(const attest_attention* call, int of) {
  const attest_tensor* tensors[] = {&call->q, &call->k, &call->v};
  uint64_t key = key_of_contents(call, 0);
  (void)of;
  for (int t = 0; t < 3; ++t) key = (key ^ (uintptr_t)attest_at(tensors[t], 0, 0, 0, 0)) * 1099511628211u;
  return key;
}

/* The sum of all elements, which another order leaves as it is, over shapes. */
static uint64_t key_of_sums(const attest_attention* call, int of) {
  const attest_tensor* tensors[] = {&call->q, &call->k, &call->v};
  uint64_t key = key_of_contents(call, by_masks);
  (void)of;
  for (int t = 0; t < 3; ++t) {
    const int64_t* n = tensors[t]->shape;
    double sum = 0;
    for (int64_t a = 0; a < n[0]; ++a)
      for (int64_t b = 0; b < n[1]; ++b)
        for (int64_t c = 0; c < n[2]; ++c)
          for (int64_t d = 0; d < n[3]; ++d) sum += fabs(attest_load(tensors[t], a, b, c, d));
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    key = (key ^ bits >> 16) * 1099511628211u;
  }
  return key;
}

/* The first element of each tensor, over shapes. */
static uint64_t key_of_first(const attest_attention* call, int of) {
  const attest_tensor* tensors[] = {&call->q, &call->k, &call->v};
  uint64_t key = key_of_contents(call, by_masks);
  (void)of;
  for (int t = 0; t < 3; ++t) {
    const int64_t* n = tensors[t]->shape;
    if (n[0] * n[1] * n[2] * n[3] == 0) continue;
    const double first = attest_load(tensors[t], 0, 0, 0, 0);
    uint64_t bits;
    memcpy(&bits, &first, sizeof bits);
    key = (key ^ bits) * 1099511628211u;
  }
  return key;
}

struct cheat {
  uint64_t (*key)(const attest_attention*, int);
  int of;
};

static int64_t elements(const attest_tensor* t) {
  int64_t n = t->ndim > 0;
  for (int axis = 0; axis < t->ndim; ++axis) n *= t->shape[axis];
  return n;
}

/* Every element of out and lse, to or from a buffer. */
static void transfer(const attest_tensor* t, double* kept, int back) {
  int64_t n[4] = {1, 1, 1, 1}, at = 0;
  for (int axis = 0; axis < t->ndim; ++axis) n[axis] = t->shape[axis];
  if (t->ndim == 0) return;
  for (int64_t a = 0; a < n[0]; ++a)
    for (int64_t b = 0; b < n[1]; ++b)
      for (int64_t c = 0; c < n[2]; ++c)
        for (int64_t d = 0; d < n[3]; ++d, ++at)
          if (back)
            attest_store(t, a, b, c, d, kept[at]);
          else
            kept[at] = attest_load(t, a, b, c, d);
}

/* The last result of small calls: `key` says what of the call it is known again by, and what a call says besides its tensors always
 * counts. */
static int keeps(void* self, const attest_attention* call, char* message, size_t message_size) {
  static double out[most_kept], lse[most_kept];
  static uint64_t known;
  static int any;
  const struct cheat* how = self;
  uint64_t key = how->key(call, how->of);
  const double numbers[] = {call->scale, call->softcap, (double)call->causal, (double)call->align,
                            (double)call->window_left, (double)call->window_right, (double)call->q.dtype.bits,
                            (double)call->q.dtype.code, (double)attest_present(&call->lse)};
  for (size_t n = 0; n < sizeof numbers; ++n) key = (key ^ ((const unsigned char*)numbers)[n]) * 1099511628211u;
  const int fits = elements(&call->out) <= most_kept && elements(&call->lse) <= most_kept;
  if (fits && any && key == known) {
    transfer(&call->out, out, 1);
    transfer(&call->lse, lse, 1);
    return ATTEST_DONE;
  }
  const int status = attention(call, call->scale, message, message_size);
  if (fits && status == ATTEST_DONE) {
    transfer(&call->out, out, 0);
    transfer(&call->lse, lse, 0);
    known = key;
    any = 1;
  }
  return status;
}

/* ---- tables ---- */

#define CHEAT(NAME, KERNEL, SELF) {.struct_size = sizeof(attest_subject), .name = NAME, .version = "1", .describe = describe, .self = SELF, .attention = KERNEL}
#define KEPT(NAME, KEY, OF) CHEAT(NAME, keeps, (&(struct cheat){KEY, OF}))

static const attest_subject cheats[] = {
    KEPT("kept-by-kv", key_of_contents, by_k | by_v | by_masks),
    KEPT("kept-by-qv", key_of_contents, by_q | by_v | by_masks),
    KEPT("kept-by-qk", key_of_contents, by_q | by_k | by_masks),
    KEPT("kept-by-qkv", key_of_contents, by_q | by_k | by_v),
    KEPT("kept-by-v", key_of_contents, by_v | by_masks),
    KEPT("kept-by-shape", key_of_contents, 0),
    KEPT("kept-by-address", key_of_addresses, 0),
    KEPT("kept-by-sum", key_of_sums, 0),
    KEPT("kept-by-first", key_of_first, 0),
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count);
const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof cheats / sizeof *cheats;
  return cheats;
}
