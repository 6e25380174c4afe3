# onnx:Attention fails policy-bound, version onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 2.92423428760106, expected 2.9242343145200196, permitted 2.924234314519982 .. 2.9242343145200573 (7.13e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 scale=0x1p-1 values=integers:1 q_form=one seed=169862648
import numpy as np

q = np.array([[[[1]]]], np.float64)
k = np.array([[[[2], [0]]]], np.float64)
v = np.array([[[[4], [0]]]], np.float64)
scale = 0.5

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f64 returns something in [2.924234314519982, 2.9242343145200573]')

from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V'], ['Y'], scale=0.5)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
from onnx.reference import ReferenceEvaluator
got = ReferenceEvaluator(model).run(['Y'], feed)[0]
print('got     ', got[at])
