# onnxruntime:QAttention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.05395863205194473, expected 1.5, permitted 1.4999922289573018 .. 1.5000077710426982 (1.86e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 scale=0x0p+0 values=integers:1 q_form=one seed=3373583441
import numpy as np

q = np.array([[[[1]]]], np.float32)
k = np.array([[[[0], [-4]]]], np.float32)
v = np.array([[[[0], [3]]]], np.float32)
scale = 0

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [1.4999922289573018, 1.5000077710426982]')

import onnxruntime as ort
from onnx import helper as h
feed = {"input": np.array([[[1]]], np.uint8),
        "weight": np.array([[1, -1, 1]], np.int8),
        "bias": np.zeros((3,), np.float32),
        "input_scale": np.array(1.0, np.float32),
        "weight_scale": np.array([1.0, 4.0, 3.0], np.float32),
        "past": np.zeros((2, 1, 1, 1, 1), np.float32)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("QAttention", ['input', 'weight', 'bias', 'input_scale', 'weight_scale', '', '', '', 'past'], ['output', 'present'], domain='com.microsoft', num_heads=1, scale=0.0)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(['output'], feed)[0].reshape(1, 1, 1, 1).transpose(0, 2, 1, 3)
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
