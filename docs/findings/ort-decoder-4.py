# onnxruntime:DecoderMaskedMultiHeadAttention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 1, expected 0, permitted -9.122839770294236e-45 .. 9.122839770294236e-45 (1.1e+44 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 lengths=one values=large_integers:4 q_form=power_of_two k_form=short_significand v_form=one seed=2674238318 edit=k[0,0,1,0]:0x0p+0;v[0,0,0,0]:0x0p+0
import numpy as np

q = np.array([[[[64]]]], np.float32)
k = np.array([[[[-192], [0]]]], np.float32)
v = np.array([[[[0], [1]]]], np.float32)
kv_lengths = np.array([1], np.int32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-9.122839770294236e-45, 9.122839770294236e-45]')

import onnxruntime as ort
from onnx import helper as h
feed = {"query": q.transpose(0, 2, 1, 3).reshape(1, 1, 1),
        "key": k,
        "value": v,
        "mask_index": np.array([[1, 0]], np.int32)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("DecoderMaskedMultiHeadAttention", ['query', 'key', 'value', 'mask_index'], ['output'], domain='com.microsoft', num_heads=1)
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
