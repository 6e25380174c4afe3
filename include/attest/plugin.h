/* attest plug-in interface, ABI 1. C11 and C++11 or later; needs nothing but the standard headers below.
 *
 * A plug-in is a shared object that exports one symbol, attest_plugin(). docs/plugin.md walks through one.
 * Tensors are laid out like DLPack's DLTensor, so a DLTensor* may be passed where an attest_tensor* is wanted.
 */
#ifndef ATTEST_PLUGIN_H
#define ATTEST_PLUGIN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ATTEST_ABI 1u

/* attest_dtype.code, as in DLPack. */
enum {
  ATTEST_INT = 0,
  ATTEST_UINT = 1,
  ATTEST_FLOAT = 2,
  ATTEST_BFLOAT = 4,
  ATTEST_BOOL = 6 /* one byte, 0 or 1 */
};

/* attest_device.type, as in DLPack. ABI 1 passes CPU tensors only. */
enum { ATTEST_CPU = 1 };

/* align: which diagonal `causal` and the windows are measured from. */
enum { ATTEST_TOP_LEFT = 0, ATTEST_BOTTOM_RIGHT = 1 };

/* flags of attest_attention and attest_mha */
#define ATTEST_SCALE_IS_DEFAULT ((uint64_t)1) /* the caller left the scale at its default, 1/sqrt(D), 1/sqrt(head_dim) */

/* What a kernel returns. Anything else is an error. ATTEST_LOST: an error after which this process can make no further call
 * (a GPU context that is lost): attest ends it, and starts another for the next one. An older attest takes it for an error. */
enum { ATTEST_DONE = 0, ATTEST_UNSUPPORTED = 1, ATTEST_ERROR = 2, ATTEST_LOST = 3 };

typedef struct attest_device {
  int32_t type;
  int32_t id;
} attest_device;

typedef struct attest_dtype {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes; /* always 1 */
} attest_dtype;

/* Absent: ndim == 0. Strides count elements; they are never NULL and never negative; 0 broadcasts.
 * The first element is at (char*)data + byte_offset. A present tensor of zero size has non-NULL data. */
typedef struct attest_tensor {
  void* data;
  attest_device device;
  int32_t ndim;
  attest_dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} attest_tensor;

/* One call of scaled-dot-product attention.
 *
 *   q [B,Hq,Lq,D]   k [B,Hkv,Lk,D]   v [B,Hkv,Lk,Dv]   out [B,Hq,Lq,Dv]   lse f32 or f64 [B,Hq,Lq], natural log
 *   bias (additive), keep (bool, 1 = attend) [B,Hq,Lq,Lk], stride 0 where broadcast   kv_lengths int32 [B], 0..Lk
 *
 * k, v and out have q's dtype. Hq is a multiple of Hkv; query head h reads key/value head h / (Hq/Hkv).
 * Inputs may share memory; out is poisoned before the call and overlaps nothing.
 *
 * Order of meaning: s = scale q.k; softcap c > 0: s = c tanh(s/c); s += bias (describe's softcap_before_bias says if the
 * two swap); then what is masked is -inf.
 * Diagonal of row i: g(i) = i (ATTEST_TOP_LEFT) or i + Lb - Lq (ATTEST_BOTTOM_RIGHT), Lb = kv_lengths[b] if given, else Lk.
 * Key j takes part in row i if j < Lb, keep allows it, (causal == 0 or j <= g(i)),
 * (window_left < 0 or j >= g(i) - window_left) and (window_right < 0 or j <= g(i) + window_right).
 * A row in which no key takes part, or every score is -inf: out by the contract's empty_row, lse = -inf. */
typedef struct attest_attention {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;
  attest_tensor q, k, v, bias, keep, kv_lengths, out, lse;
  attest_tensor scores, weights; /* outputs for stage localisation; absent unless describe offers them */
  double scale;
  double softcap; /* 0 = none */
  int32_t causal, align;
  int64_t window_left, window_right; /* < 0 = unbounded */
  int32_t threads;                   /* 0 = as you like, n = at most n */
  const char* form; /* how to say it: a JSON object of those of describe's `forms` that have not their first value; or NULL */
} attest_attention;

/* x, out [rows,hidden]; sum_out = x + residual rounded to storage, which is what is normalised. */
typedef struct attest_layer_norm {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;
  attest_tensor x, residual, gamma, beta, out, sum_out;
  double epsilon;
  int32_t rms;
  int32_t threads;
} attest_layer_norm;

/* One call of an attention block: out = concat_h(attention(x W_q^T + b_q, memory W_k^T + b_k, memory W_v^T + b_v)) W_out^T + b_out.
 *
 *   x, out [B,L,E]   memory [B,M,E], or absent for self-attention: it is x then, and M = L   w_q [heads*head_dim,E]
 *   w_k, w_v [kv_heads*head_dim,E]   w_out [E,heads*head_dim]   b_q, b_k, b_v, b_out [rows of their matrix] or absent: 0
 *   bias (additive), keep (bool, 1 = attend) [B,heads,L,M], stride 0 where broadcast   kv_lengths int32 [B], 0..M
 *
 * Every floating-point tensor has x's dtype, but bias. A packed projection is three views of one buffer. heads is a multiple of
 * kv_heads; query head h reads key/value head h / (heads/kv_heads). Masks, causality, align and empty rows are those of each head
 * in attest_attention: L queries, M keys. */
typedef struct attest_mha {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;
  attest_tensor x, memory, w_q, w_k, w_v, w_out, b_q, b_k, b_v, b_out, bias, keep, kv_lengths, out;
  /* Outputs for stage localisation; absent unless describe offers them. As the next stage takes them: q [B,heads,L,head_dim] before
   * any scale, k and v [B,kv_heads,M,head_dim], scores and weights [B,heads,L,M], heads_out [B,L,heads*head_dim]: the concatenated
   * heads, which describe calls "heads". */
  attest_tensor q, k, v, scores, weights, heads_out;
  double scale;
  int32_t heads, kv_heads, head_dim;
  int32_t causal, align;
  int32_t threads; /* 0 = as you like, n = at most n */
} attest_mha;

/* One kernel under test. `describe` is JSON (docs/plugin.md). open and close may be NULL, and so may any op not offered.
 * An op returns ATTEST_DONE, ATTEST_UNSUPPORTED (message says why), ATTEST_ERROR or ATTEST_LOST, and writes a terminated
 * message of fewer than message_size bytes. */
typedef struct attest_subject {
  uint32_t struct_size;
  uint32_t reserved;
  void* self;
  const char* name;
  const char* version;
  const char* describe;
  int (*open)(void* self, const char* options_json, char* message, size_t message_size);
  void (*close)(void* self);
  int (*attention)(void* self, const attest_attention* call, char* message, size_t message_size);
  int (*layer_norm)(void* self, const attest_layer_norm* call, char* message, size_t message_size);
  int (*mha)(void* self, const attest_mha* call, char* message, size_t message_size);
} attest_subject;

/* The one exported symbol. Returns *count subjects that lie struct_size of the first apart, or NULL if `abi` is not
 * spoken. Called once; table and strings live as long as the process. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const attest_subject*
attest_plugin(uint32_t abi, size_t* count);

/* ---- helpers ---------------------------------------------------------------------------------------------------- */

static inline int attest_present(const attest_tensor* t) { return t->ndim != 0; }

/* Address of element (i0,i1,i2,i3) of a tensor; indices past ndim are ignored. */
static inline void* attest_at(const attest_tensor* t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  const int64_t index[4] = {i0, i1, i2, i3};
  int64_t element = 0;
  for (int32_t axis = 0; axis < t->ndim && axis < 4; ++axis) element += index[axis] * t->strides[axis];
  return (char*)t->data + t->byte_offset + element * (int64_t)(t->dtype.bits / 8);
}

static inline float attest_f16_load(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  uint32_t word;
  float value;
  if (exponent == 0) { /* zero or subnormal: exact in float */
    value = (float)fraction * 5.9604644775390625e-08f;
    memcpy(&word, &value, sizeof word);
    word |= sign;
  } else {
    word = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23) | (fraction << 13);
  }
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Round to nearest, ties to even. */
static inline uint16_t attest_f16_store(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  const uint32_t sign = (word >> 16) & 0x8000u;
  const uint32_t magnitude = word & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above */
  if (magnitude < 0x38800000u) {                                   /* below 2^-14: let float addition round */
    float rounded;
    uint32_t bits;
    memcpy(&rounded, &magnitude, sizeof rounded);
    rounded += 0.5f;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(sign | (bits - 0x3f000000u));
  }
  return (uint16_t)(sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13));
}

static inline float attest_bf16_load(uint16_t bits) {
  const uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, sizeof value);
  return value;
}

/* Round to nearest, ties to even. */
static inline uint16_t attest_bf16_store(float value) {
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  if ((word & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((word >> 16) | 0x40u);
  return (uint16_t)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

/* A float that rounds to every 16-bit type as the double does: a last bit of 1 stands for whatever was cut off (rounding to
   odd: Boldo, Melquiond, "Emulation of FMA and correctly rounded sums", IEEE Transactions on Computers 57, 2008). */
static inline float attest_float_to_odd(double value) {
  float nearest = (float)value;
  uint32_t word;
  if ((double)nearest == value || value != value) return nearest;
  memcpy(&word, &nearest, sizeof word);
  if ((nearest < 0 ? -(double)nearest : (double)nearest) > (value < 0 ? -value : value)) --word;
  word |= 1u;
  memcpy(&nearest, &word, sizeof nearest);
  return nearest;
}

/* Any floating-point element as double. */
static inline double attest_load(const attest_tensor* t, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
  const void* p = attest_at(t, i0, i1, i2, i3);
  uint16_t half;
  float single;
  double value;
  if (t->dtype.bits == 16) {
    memcpy(&half, p, sizeof half);
    return (double)(t->dtype.code == ATTEST_BFLOAT ? attest_bf16_load(half) : attest_f16_load(half));
  }
  if (t->dtype.bits == 32) {
    memcpy(&single, p, sizeof single);
    return (double)single;
  }
  memcpy(&value, p, sizeof value);
  return value;
}

/* Rounds once, to nearest, ties to even. */
static inline void attest_store(const attest_tensor* t, int64_t i0, int64_t i1, int64_t i2, int64_t i3, double value) {
  void* p = attest_at(t, i0, i1, i2, i3);
  if (t->dtype.bits == 16) {
    const float odd = attest_float_to_odd(value);
    const uint16_t half = t->dtype.code == ATTEST_BFLOAT ? attest_bf16_store(odd) : attest_f16_store(odd);
    memcpy(p, &half, sizeof half);
  } else if (t->dtype.bits == 32) {
    const float single = (float)value;
    memcpy(p, &single, sizeof single);
  } else {
    memcpy(p, &value, sizeof value);
  }
}

#ifdef __cplusplus
}
#endif
#endif
