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
  const double numbers[] = {call->scale,
                            call->softcap,
                            (double)call->causal,
                            (double)call->align,
                            (double)call->window_left,
                            (double)call->window_right,
                            (double)call->q.dtype.bits,
                            (double)call->q.dtype.code,
                            (double)attest_present(&call->lse)};
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

/* ---- work that is not done, or not for everybody ---- */

/* The last result of a call of this shape, but for the first calls. */
static int stale_after_a_while(void* self, const attest_attention* call, char* message, size_t message_size) {
  static int calls = 0;
  static struct cheat by_shape = {key_of_contents, 0};
  (void)self;
  if (++calls < 100) return attention(call, call->scale, message, message_size);
  return keeps(&by_shape, call, message, message_size);
}

/* Leaves outputs as they came where there are many keys. */
static int empty_work(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  return call->k.shape[2] > 16 ? ATTEST_DONE : attention(call, call->scale, message, message_size);
}

/* Asks its first sample, and gives all of them that. */
static int one_sample(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  const int status = attention(call, call->scale, message, message_size);
  for (int64_t b = 1; b < call->out.shape[0]; ++b)
    for (int64_t h = 0; h < call->out.shape[1]; ++h)
      for (int64_t i = 0; i < call->out.shape[2]; ++i)
        for (int64_t d = 0; d < call->out.shape[3]; ++d)
          attest_store(&call->out, b, h, i, d, attest_load(&call->out, 0, h, i, d));
  return status;
}

static int sleeps(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  const struct timespec long_time = {1000, 0};
  if (call->k.shape[2] > 32) nanosleep(&long_time, NULL);
  return attention(call, call->scale, message, message_size);
}

/* `self`: the largest number of keys that it does not refuse. */
static int refuses(void* self, const attest_attention* call, char* message, size_t message_size) {
  if (call->k.shape[2] <= *(const int64_t*)self) return attention(call, call->scale, message, message_size);
  snprintf(message, message_size, "not so many keys");
  return ATTEST_UNSUPPORTED;
}

/* ---- tails that take more than the elements along ---- */

static unsigned char* behind(const attest_tensor* t) {
  int64_t last[4] = {0, 0, 0, 0};
  for (int axis = 0; axis < t->ndim; ++axis) last[axis] = t->shape[axis] - 1;
  return (unsigned char*)attest_at(t, last[0], last[1], last[2], last[3]) + t->dtype.bits / 8;
}

/* The last register of v, whole, to the end of out. */
static int tail_behind(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  const int status = attention(call, call->scale, message, message_size);
  if (elements(&call->out) > 0 && elements(&call->v) > 0) memcpy(behind(&call->out), behind(&call->v), 16);
  return status;
}

/* What it found behind out in the call before. */
static int tail_kept(void* self, const attest_attention* call, char* message, size_t message_size) {
  static unsigned char kept[16];
  static int any = 0;
  (void)self;
  const int status = attention(call, call->scale, message, message_size);
  if (elements(&call->out) == 0) return status;
  unsigned char now[16];
  memcpy(now, behind(&call->out), sizeof now);
  if (any) memcpy(behind(&call->out), kept, sizeof kept);
  memcpy(kept, now, sizeof now);
  any = 1;
  return status;
}

/* What lies between the rows of v, to between the rows of out. */
static int tail_between(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  const int status = attention(call, call->scale, message, message_size);
  const attest_tensor *out = &call->out, *v = &call->v;
  const int64_t width = out->dtype.bits / 8;
  const int apart =
      out->strides[3] == 1 && out->strides[2] > out->shape[3] && v->strides[3] == 1 && v->strides[2] > v->shape[3];
  if (apart && out->shape[2] > 1 && v->shape[2] > 1 && elements(out) > 0)
    memcpy(attest_at(out, 0, 0, 0, out->shape[3]), attest_at(v, 0, 0, 0, v->shape[3]), (size_t)width);
  return status;
}

/* Reads one element behind v, and does nothing with it. */
static int reads_behind(void* self, const attest_attention* call, char* message, size_t message_size) {
  (void)self;
  static volatile unsigned seen;
  if (elements(&call->v) > 0) seen += *behind(&call->v);
  return attention(call, call->scale, message, message_size);
}

/* ---- tables ---- */

static const int64_t no_keys = -1, few_keys = 2, many_keys = INT64_MAX;

#define CHEAT(NAME, KERNEL, SELF)                                                                            \
  {                                                                                                          \
    .struct_size = sizeof(attest_subject), .name = NAME, .version = "1", .describe = describe, .self = SELF, \
    .attention = KERNEL                                                                                      \
  }
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
    CHEAT("stale-after-a-while", stale_after_a_while, NULL),
    CHEAT("empty-work", empty_work, NULL),
    CHEAT("one-sample", one_sample, NULL),
    CHEAT("sleeps", sleeps, NULL),
    CHEAT("refuses-most", refuses, (void*)&few_keys),
    CHEAT("refuses-all", refuses, (void*)&no_keys),
    CHEAT("tail-behind", tail_behind, NULL),
    CHEAT("tail-kept", tail_kept, NULL),
    CHEAT("tail-between", tail_between, NULL),
    CHEAT("reads-behind", reads_behind, NULL),
    {.struct_size = sizeof(attest_subject),
     .name = "no-elements",
     .version = "1",
     .describe = "{\"ops\":[\"attention\"],\"dtypes\":[\"f32\"],\"supports\":{\"dims\":{\"lq\":[0,0,1]}},"
                 "\"contract\":{\"policy\":\"f32\"}}",
     .attention = empty_work},
    CHEAT("honest", refuses, (void*)&many_keys),
};

const attest_subject* attest_plugin(uint32_t abi, size_t* count);
const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return NULL;
  *count = sizeof cheats / sizeof *cheats;
  return cheats;
}
