# onnxruntime:Attention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0, expected 1, permitted 0.9999992251392675 .. 1.0000007748607325 (1.29e+06 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=1 d=1 dv=1 dtype=f32 bias=lowest values=constant:1 q_form=zero k_form=zero seed=1229469875
import numpy as np

q = np.array([[[[0]]]], np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[1]]]], np.float32)
bias = np.array([[[[-3.4028234663852886e+38]]]], np.float32)
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

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [0.9999992251392675, 1.0000007748607325]')

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": bias[0, 0]}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask'], ['Y'])
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
print('got     ', got[at])
