// The offers, promises and grounds of ggml:flash_attn_ext, for the plug-in in flash_attn_ext.cpp.
//
// Documents: ggml 0.25.3 as llama-cpp-python 0.3.36 brings it (llama.cpp at 0c1e57098): ggml.h, ggml-cpu.h, the sources
// and docs/ops/CPU.csv, a table of the calls that the CPU backend supports. `documents` has the sentences relied on; a
// test looks each of them up (tests/python/test_ggml_adapter.py). They are read as follows:
// - q and the result are float32 (the result's type is written down, q's is nowhere), k and v float16, bfloat16 or
//   float32. A call of a 16-bit type hands q over in float32, which is exact, and rounds the result once.
// - precision: nothing is said of a call as it is made, so every step may be in the tensors' type. ggml_prec_set_acc
//   "requires accumulation of the results in F32" where asked (`prec` f32, as llama.cpp always does): the sums are
//   float32 then, those of q.k, of the weights, of the values and of parts; their terms may still be 16 bits wide, and
//   so may the results of exp (`exp_rel`). Where float16 or bfloat16 is asked for, sums may be in that type. exp is off
//   by 1.95 ulp at most, says the source; the division is said there to be a product with the reciprocal.
// - the mask is float16 and added; it says everything that closes a key. It is contiguous, of [n_kv, n_batch, ne32,
//   ne33].
// - n_kv_max is the largest number of finite entries in a row of the mask, or left alone.
// max_bias (slopes that multiply the mask) stays 0 and sinks are absent: a call of attest has neither. Nothing is said
// on empty rows, NaN, determinism, batches: nothing is claimed.
#pragma once

inline constexpr const char* describe_flash_attn_ext = R"json({
  "ops": ["attention"], "dtypes": ["f32", "f16", "bf16"], "concurrent": false,
  "supports": {
    "bias_dtypes": ["f16"], "lse": false, "strides": "last_dim_contiguous", "far": true,
    "forms": {
      "prec": ["default",
               {"value": "f32", "contract": {
                 "policy": {"f32": "f32", "f16": "f16-all,qk=f32,softmax=f32,pv=f32,partial=f32",
                            "bf16": "bf16-all,qk=f32,softmax=f32,pv=f32,partial=f32"},
                 "exp_rel": {"f16": 0.0009765625, "bf16": 0.0078125}}},
               {"value": "f16", "contract": {
                 "policy": {"f32": "*=f16,storage=f32,output=f32", "f16": "f16-all", "bf16": "*=f16,storage=bf16,output=bf16"}}},
               {"value": "bf16", "contract": {
                 "policy": {"f32": "*=bf16,storage=f32,output=f32", "f16": "*=bf16,storage=f16,output=f16", "bf16": "bf16-all"}}}],
      "mask": ["narrowed", "full", "always"],
      "n_kv_max": ["none", "bound"],
      "implementation": ["optimised", "reference"]
    }
  },
  "contract": {"exp_ulp": {"f32": 2}, "div_ulp": {"f32": 1.5}, "flush_to_zero": {"bf16": true}, "mask_added": true},
  "documents": {
    "attention": [
      "ggml 0.25.3, ggml.h: \"q:    [n_embd_k, n_batch, n_head,    ne3 ]\"",
      "ggml 0.25.3, ggml.h: \"v:    [n_embd_v, n_kv,    n_head_kv, ne3 ] !! not transposed !!\"",
      "ggml 0.25.3, ggml.h: \"res:  [n_embd_v, n_head,  n_batch,   ne3 ] !! permuted !!\"",
      "ggml 0.25.3, ggml-cpu/ops.cpp: \"input tensor rows must be contiguous\""],
    "dtypes": [
      "ggml 0.25.3, ggml.c: \"struct ggml_tensor * result = ggml_new_tensor(ctx, GGML_TYPE_F32, 4, ne);\"",
      "llama.cpp 0c1e57098, docs/ops/CPU.csv: \"prec=f32,type_KV=f32,permute=[0,1,2,3]\",\"support\",\"1\",\"yes\"",
      "llama.cpp 0c1e57098, docs/ops/CPU.csv: \"prec=f32,type_KV=bf16,permute=[0,1,2,3]\",\"support\",\"1\",\"yes\"",
      "llama.cpp 0c1e57098, docs/ops/CPU.csv: \"prec=f32,type_KV=f16,permute=[0,1,2,3]\",\"support\",\"1\",\"yes\""],
    "gqa": "ggml 0.25.3, ggml.h: \"n_head % n_head_kv == 0\"",
    "bias": [
      "ggml 0.25.3, ggml.h: \"mask: [n_kv,     n_batch, ne32,      ne33]\"",
      "ggml 0.25.3, ggml.h: \"fused soft_max(a*scale + mask*(ALiBi slope))\"",
      "ggml 0.25.3, ggml.c: \"GGML_ASSERT(mask->type == GGML_TYPE_F16);\""],
    "keep": "ggml 0.25.3, ggml.h: \"fused soft_max(a*scale + mask*(ALiBi slope))\"",
    "mask_added": "ggml 0.25.3, ggml-cpu/ops.cpp: \"s += mv; // apply mask\"",
    "softcap": "ggml 0.25.3, ggml-cpu/ops.cpp: \"s = logit_softcap*tanhf(s);\"",
    "scale": "ggml 0.25.3, ggml-cpu/ops.cpp: \"s = s*scale; // scale KQ value\"",
    "lse": "ggml 0.25.3, ggml.h: \"res:  [n_embd_v, n_head,  n_batch,   ne3 ] !! permuted !!\"",
    "form.prec": [
      "ggml 0.25.3, ggml.h: \"set the minimum required accumulator type for the implementation to use during the compute\"",
      "ggml 0.25.3, ggml.h: \"GGML_PREC_F32  - requires accumulation of the results in F32\"",
      "ggml 0.25.3, ggml.h: \"GGML_PREC_F16  - can accumulate the results in F16, F32\"",
      "ggml 0.25.3, ggml.h: \"GGML_PREC_BF16 - can accumulate the results in BF16, F32\""],
    "form.mask": [
      "ggml 0.25.3, ggml.h: \"n_head % ne32      == 0\"",
      "ggml 0.25.3, ggml.h: \"ne3    % ne33      == 0\""],
    "form.n_kv_max": [
      "ggml 0.25.3, ggml.h: \"Use finite mask entries as a sparse K/V set. Set 0 to disable.\"",
      "ggml 0.25.3, ggml.h: \"n_kv_max must bound the number of finite entries in every mask row.\""],
    "form.implementation": "ggml 0.25.3, ggml-cpu.h: \"use only reference implementations\""
  }
})json";
