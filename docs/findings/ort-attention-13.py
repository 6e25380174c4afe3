# onnxruntime:Attention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 1, expected 0 (nothing else is permitted); no key is open in this row
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 keep=sparse values=constant:1 q_form=zero seed=0 form.qk_output=read_2
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[1]]]], np.float32)
v = np.array([[[[1]]]], np.float32)
keep = np.array([[[[False]]]], np.bool_)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = np.where(keep, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 0, 0)
print('expected', expected[at])

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": keep[0, 0]}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask'], ['Y', '', '', 'qk_matmul_output'], qk_matmul_output_mode=2)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)


def attended(qk, values, softcap=0.0, mask=None, weights=False):
    """The output [B, H, Lq, Dv] that the rest of attention makes of qk [B, H, Lq, Lk], in float64, rounded to the type of the values [B,
    H or fewer heads, Lk, Dv]: a softcap, a mask to add and the softmax, or, of weights, none of these but that keys where the mask is
    -inf are left out. A row without keys is 0."""
    with np.errstate(all="ignore"):
        w = qk.astype(np.float64)
        if softcap:
            w = softcap * np.tanh(w / softcap)
        if weights:
            w = w if mask is None else np.where(np.isneginf(mask), 0, w)
        else:
            w = w if mask is None else w + mask
            w = np.exp(w - np.maximum(w.max(-1, keepdims=True, initial=-np.inf), np.finfo(float).min))
            total = w.sum(-1, keepdims=True)
            w = w / np.where(total == 0, 1, total)
        out = w @ np.repeat(values.astype(np.float64), w.shape[1] // max(values.shape[1], 1), axis=1)
        return out.astype(values.dtype)


options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = attended(session.run(['qk_matmul_output'], feed)[0], v)
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
