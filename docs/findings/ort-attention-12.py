# onnxruntime:Attention fails guards, version onnxruntime 1.31.1, onnx 1.23.2
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=0 hkv=0 lq=1 lk=1 d=2 dv=1 dtype=f32 values=integers:1 seed=0
import numpy as np

q = np.zeros((1, 0, 1, 2,), np.float32)
k = np.zeros((1, 0, 1, 2,), np.float32)
v = np.zeros((1, 0, 1, 1,), np.float32)
scale = 0.7071067811865475

# what attention means, in float64
group = 1
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
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
        "V": v}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V'], ['Y'])
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(['Y'], feed)[0]
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got\n', got)
