# onnxruntime:Attention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = -1, expected -0.5, permitted -0.5000000000000071 .. -0.49999999999999295 (7.04e+13 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 causal=1 align=bottom_right lengths=full values=integers:1 q_form=zero k_form=zero seed=1156887258
import numpy as np

q = np.array([[[[0]]]], np.float64)
k = np.array([[[[0], [0]]]], np.float64)
v = np.array([[[[-1], [0]]]], np.float64)
kv_lengths = np.array([2], np.int32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
g = i + kv_lengths[:, None, None, None] - q.shape[2]
s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)
s = np.where(j <= g, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f64 returns something in [-0.5000000000000071, -0.49999999999999295]')

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "nonpad_kv_seqlen": kv_lengths.astype(np.int64)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', '', '', '', 'nonpad_kv_seqlen'], ['y'], is_causal=1)
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], [info(n, q, None) for n in node.output])
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 24)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(["y"], feed)[0]
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
