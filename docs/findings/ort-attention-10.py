# onnxruntime:Attention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = -1.0757657123989397, expected -1.0757656854799804, permitted -1.0757656854800064 .. -1.0757656854799544 (1.04e+06 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 scale=0x1p-1 values=integers:1 q_form=one seed=3226359986
import numpy as np

q = np.array([[[[1]]]], np.float64)
k = np.array([[[[2], [0]]]], np.float64)
v = np.array([[[[0], [-4]]]], np.float64)
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
print('a kernel that keeps the policy f64 returns something in [-1.0757656854800064, -1.0757656854799544]')

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V'], ['y'], scale=0.5)
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
