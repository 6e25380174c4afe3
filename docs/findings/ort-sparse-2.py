# onnxruntime:SparseAttention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,1] = -0.119548499584198, expected -1.5, permitted -1.5000077710426982 .. -1.4999922289573018 (1.78e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=8 dv=8 dtype=f32 scale=0x0p+0 values=integers:1 seed=0
import numpy as np

q = np.array([[[[-4, -2, 0, 4, 1, 2, 2, -3]]]], np.float32)
k = np.array([[[[-4, -1, -2, 0, 4, 4, -4, 3], [1, 1, 3, 1, 2, 0, -4, -4]]]], np.float32)
v = np.array([[[[3, 0, 4, 2, -2, 4, 1, -1], [3, -3, -4, 3, 0, -3, -2, 2]]]], np.float32)
scale = 0

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V

at = (0, 0, 0, 1)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [-1.5000077710426982, -1.4999922289573018]')

import onnxruntime as ort
from onnx import helper as h
feed = {"query": q.transpose(0, 2, 1, 3).reshape(1, 1, 8),
        "key": k[:, :, 1:].transpose(0, 2, 1, 3).reshape(1, 1, 8),
        "value": v[:, :, 1:].transpose(0, 2, 1, 3).reshape(1, 1, 8),
        "past_key": np.array([[[[-4.0, -1.0, -2.0, 0.0, 4.0, 4.0, -4.0, 3.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]]], np.float32),
        "past_value": np.array([[[[3.0, 0.0, 4.0, 2.0, -2.0, 4.0, 1.0, -1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]]], np.float32),
        "block_row_indices": np.array([[0, 1]], np.int32),
        "block_col_indices": np.zeros((1, 1), np.int32),
        "total_sequence_length": np.array(2, np.int32),
        "key_total_sequence_lengths": np.array([2], np.int32)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("SparseAttention", ['query', 'key', 'value', 'past_key', 'past_value', 'block_row_indices', 'block_col_indices', 'total_sequence_length', 'key_total_sequence_lengths'], ['output', 'present_key', 'present_value'], domain='com.microsoft', num_heads=1, kv_num_heads=1, sparse_block_size=16, scale=0.0)
outputs = [info(n, q, None) for n in node.output if n]
graph = h.make_graph([node], "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    values = {n: ort.OrtValue.ortvalue_from_numpy(np.array(a, order="C")) for n, a in feed.items()}
    binding, places = session.io_binding(), {'present_key': 'past_key', 'present_value': 'past_value'}
    for n, value in values.items():
        binding.bind_ortvalue_input(n, value)
    for n in ['output', 'present_key', 'present_value']:
        binding.bind_ortvalue_output(n, values[places[n]]) if n in places else binding.bind_output(n)
    session.run_with_iobinding(binding)
    got = binding.get_outputs()[0].numpy().reshape(1, 1, 1, 8).transpose(0, 2, 1, 3)
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
