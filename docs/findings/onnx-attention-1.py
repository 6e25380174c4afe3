# onnx:Attention fails policy-bound, version onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,1,0] = 1, expected 0.5, permitted 0.49999740965243394 .. 0.500002590347566 (1.93e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=2 lk=2 d=1 dv=1 dtype=f32 causal=1 keep=open keep_axes=8 values=constant:1 q_form=zero k_form=zero seed=0 edit=v[0,0,1,0]:0x0p+0
import numpy as np

q = np.array([[[[0], [0]]]], np.float32)
k = np.array([[[[0], [0]]]], np.float32)
v = np.array([[[[1], [0]]]], np.float32)
keep = np.broadcast_to(np.array([[[[True, True]]]], np.bool_), (1, 1, 2, 2, ))
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i
s = np.where(keep, s, -np.inf)
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 1, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [0.49999740965243394, 0.500002590347566]')

from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": keep[0, 0, :1]}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask'], ['Y'], is_causal=1)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
from onnx.reference import ReferenceEvaluator
got = ReferenceEvaluator(model).run(['Y'], feed)[0]
print('got     ', got[at])
