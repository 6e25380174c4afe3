# onnxruntime:MultiHeadAttention fails guards, version onnxruntime 1.31.1, onnx 1.23.2
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=0 dtype=f32 values=constant:1 seed=0
import numpy as np

q = np.array([[[[1]]]], np.float32)
k = np.array([[[[1]]]], np.float32)
v = np.zeros((1, 1, 1, 0,), np.float32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

print('expected\n', expected)

import onnxruntime as ort
from onnx import helper as h
feed = {"query": q.transpose(0, 2, 1, 3).reshape(1, 1, 1),
        "key": k.transpose(0, 2, 1, 3).reshape(1, 1, 1),
        "value": v.transpose(0, 2, 1, 3).reshape(1, 1, 0)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("MultiHeadAttention", ['query', 'key', 'value'], ['output'], domain='com.microsoft', num_heads=1)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(['output'], feed)[0].reshape(1, 1, 1, 0).transpose(0, 2, 1, 3)
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got\n', got)
