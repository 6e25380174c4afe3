# onnx:Attention fails policy-bound, version onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.3447911739349365, expected 0.3183002471923828, permitted 0.3182985922483154 .. 0.3183019233656529 (1.59e+04 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 softcap=0x1p+0 values=constant:1 seed=0 form.qk_output=read_0 edit=k[0,0,0,0]:0x0p+0;v[0,0,1,0]:0x0p+0
import numpy as np

q = np.array([[[[1]]]], np.float32)
k = np.array([[[[0], [1]]]], np.float32)
v = np.array([[[[1], [0]]]], np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = 1 * np.tanh(s / 1)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [0.3182985922483154, 0.3183019233656529]')

from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V'], ['Y', '', '', 'qk_matmul_output'], softcap=1.0, qk_matmul_output_mode=0)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
from onnx.reference import ReferenceEvaluator


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


got = attended(ReferenceEvaluator(model).run(['qk_matmul_output'], feed)[0], v, softcap=1.0)
print('got     ', got[at])
