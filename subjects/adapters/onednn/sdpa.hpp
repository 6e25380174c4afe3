// The offers, promises and grounds of onednn:sdpa, for the plug-in in sdpa.cpp.
//
// Documents: "Scaled Dot-Product Attention (SDPA)", "Grouped Query Attention (GQA)" and "SoftMax" of oneDNN's Graph
// API, https://uxlfoundation.github.io/oneDNN/dev_guide_graph_sdpa.html, dev_guide_graph_gqa.html and
// dev_guide_op_softmax.html, and the headers of onednn-devel 2026.1.0, which is oneDNN 3.13.2. They are read as
// follows:
// - precision: float32 is computed in float32 (fpmath mode strict, the default, allows no downconversion). With
//   bfloat16 the scores are float32 up to the softmax, whose result is bfloat16, and sums are float32 (accumulation
//   mode strict, the default); the results of exp may be no better than bfloat16 (`exp_rel`). No document bounds the
//   error of exp in float32: 4 ulp. Subnormals may be taken for zero;
// - strides are the caller's; along an axis of one element (`unit_axes`) nothing lies, so that its stride may be any;
// - scale is an input of one element, by Multiply or Divide; there is no softcap;
// - a mask is Add, of -inf where a key is closed, or Select, a boolean that forces a score to -inf;
// - an empty row is NaN in the softmax of mode none, and zeros in that of mode inf_as_zero.
// - the log-sum-exp is the output `stats` of the softmax, max + log of the sum; for a row without keys, where that is
//   NaN, it goes out as -inf.
// float16 on a CPU takes instructions that few have. Nothing is said on determinism, batches, NaN: nothing is claimed.
#pragma once

inline constexpr const char* sdpa_refused_bias = "a boolean mask says no bias";

inline constexpr const char* describe_sdpa = R"json({
  "ops": ["attention"], "dtypes": ["f32", "bf16"], "concurrent": false, "warm_up_ms": 700,
  "supports": {
    "bias_dtypes": ["same", "f32"], "softcap": false,
    "forms": {
      "mask": ["add", {"value": "select", "contract": {"mask_added": false}}],
      "mask_shape": ["narrowed", "full"],
      "scaling": ["multiply", "divide"],
      "unit_axes": ["kept", "one"],
      "softmax": ["none", {"value": "inf_as_zero", "contract": {"empty_row": "zero"}}]
    }
  },
  "contract": {"policy": {"f32": "f32", "bf16": "bf16"}, "exp_ulp": {"f32": 4}, "exp_rel": {"bf16": 0.0078125},
               "flush_to_zero": true, "mask_added": true, "empty_row": "nan"},
  "documents": {
    "attention": "oneDNN, dev_guide_graph_sdpa: \"The first MatMul calculates the dot products between Query and Key.\"",
    "dtypes": "oneDNN, dev_guide_graph_sdpa: \"oneDNN defines floating-point (f32, bf16, or f16) SDPA as follows.\"",
    "policy": [
      "oneDNN, dev_guide_graph_sdpa: \"oneDNN supports bf16 or f16 SDPA with f32 intermediate type, which means the Q/K/V tensors have bf16 or f16 data type while the output of the first MatMul, Scale, Mask, and the input of SoftMax are in f32 data type.\"",
      "oneDNN 3.13.2, dnnl_common_types.h: \"Default behavior, no downconversions allowed\"",
      "oneDNN 3.13.2, dnnl_common_types.h: \"Default behavior, f32/f64 for floating point computation\""],
    "gqa": "oneDNN, dev_guide_graph_gqa: \"The input Query has a 5D shape: (N, H_kv, N_rep, S, D)\"",
    "bias": "oneDNN, dev_guide_graph_sdpa: \"The Mask node is optional and is used to apply an attention mask to the output of the previous Scale node.\"",
    "keep": "oneDNN, dev_guide_graph_sdpa: \"The `-inf` entries will become zero probability after Softmax is applied in the next step.\"",
    "scale": "oneDNN, dev_guide_graph_sdpa: \"The scaling factor is given by users as an input of SDPA.\"",
    "softcap": "oneDNN, dev_guide_graph_sdpa: \"The Mask node is optional and is used to apply an attention mask to the output of the previous Scale node.\"",
    "lse": "oneDNN, dev_guide_op_softmax: \"If the optional `stats` output is requested, it is defined as:\"",
    "empty_row": [
      "oneDNN, dev_guide_op_softmax: \"the operation will generate `NaN` if all the input elements are `-infinity` along the `axis` dimension.\"",
      "oneDNN, dev_guide_op_softmax: \"To prevent this, you can set the attribute to `inf_as_zero` so that the operation generates zeros for `-infinity` inputs.\""],
    "mask_added": "oneDNN, dev_guide_graph_sdpa: \"When the Add operation is used to apply the mask, the input mask is usually an upper triangular matrix with all the elements above the diagonal filled with `-inf` and zeroes elsewhere.\"",
    "form.mask=select": [
      "oneDNN, dev_guide_graph_sdpa: \"In this case, the input is a boolean tensor\"",
      "oneDNN, dev_guide_graph_sdpa: \"A `false` element in the mask forces the corresponding element of the scaled output to `-inf`, while a `true` element leaves it unchanged.\""],
    "form.mask_shape": "oneDNN, dev_guide_graph_sdpa: \"Add, Multiply, Divide, and Select operations require the input tensors to have the same shape or the shapes can be properly broadcasted based on the operation attribute.\"",
    "form.scaling": "oneDNN, dev_guide_graph_sdpa: \"It can be constructed by Multiply or Divide operation in Graph API.\"",
    "form.unit_axes": "oneDNN 3.13.2, dnnl_graph.h: \"Initializes a logical tensor with dimensions and strides provided by user.\"",
    "form.softmax=inf_as_zero": "oneDNN, dev_guide_op_softmax: \"To prevent this, you can set the attribute to `inf_as_zero` so that the operation generates zeros for `-infinity` inputs.\""
  }
})json";
