# onnx:Attention fails guards, version onnx 1.23.2
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 keep=open values=constant:1 q_form=zero k_form=zero v_form=zero seed=0 form.mask=0d
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[0]]]], np.float32)
keep = np.array([[[[True]]]], np.bool_)
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

print('expected\n', expected)

from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": np.array(True, np.bool)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask'], ['Y'])
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
from onnx.reference import ReferenceEvaluator
got = ReferenceEvaluator(model).run(['Y'], feed)[0]
print('got\n', got)
