# onnxruntime:Attention fails guards, version onnxruntime 1.31.1, onnx 1.23.2
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=2 lk=1 d=1 dv=1 dtype=f32 bias=zero bias_axes=8 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0
import numpy as np

q = np.array([[[[0], [0]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[0]]]], np.float32)
bias = np.broadcast_to(np.array([[[[0]]]], np.float32), (1, 1, 2, 1, ))
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
s = s + bias.astype(np.float64)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

print('expected\n', expected)

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": bias[0, 0, :1]}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask'], ['y'])
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], [info(n, q, None) for n in node.output])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(["y"], feed)[0]
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got\n', got)
