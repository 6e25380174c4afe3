# onnxruntime:MultiHeadAttention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.25, expected 0, permitted -7.006509006938146e-45 .. 7.006509006938146e-45 (3.57e+43 x the permitted distance)
# problem: op=attention b=2 hq=1 hkv=1 lq=2 lk=4 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero seed=0 form.beam=two form.past=shared edit=v[0,0,0,0]:0x0p+0;v[0,0,1,0]:0x0p+0;v[0,0,2,0]:0x0p+0;v[0,0,3,0]:0x0p+0;v[1,0,0,0]:0x0p+0;v[1,0,2,0]:0x0p+0;v[1,0,3,0]:0x0p+0
import numpy as np

q = np.array([[[[0], [0]]], [[[0], [0]]]], np.float32)
k = np.array([[[[0], [0], [0], [0]]], [[[0], [0], [0], [0]]]], np.float32)
v = np.array([[[[0], [0], [0], [0]]], [[[0], [1], [0], [0]]]], np.float32)
scale = 1

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
print('a kernel that keeps the policy f32 returns something in [-7.006509006938146e-45, 7.006509006938146e-45]')

import onnxruntime as ort
from onnx import helper as h
feed = {"query": q.transpose(0, 2, 1, 3).reshape(2, 2, 1),
        "key": k[:, :, :2].transpose(0, 2, 1, 3).reshape(2, 2, 1),
        "value": v[:, :, 2:].transpose(0, 2, 1, 3).reshape(2, 2, 1),
        "past_key": np.array([[[[0.0], [0.0], [1.0], [1.0], [1.0], [1.0], [1.0]]], [[[0.0], [0.0], [1.0], [1.0], [1.0], [1.0], [1.0]]]], np.float32),
        "past_value": np.array([[[[0.0], [1.0], [1.0], [1.0], [1.0], [1.0], [1.0]]], [[[0.0], [0.0], [1.0], [1.0], [1.0], [1.0], [1.0]]]], np.float32),
        "past_sequence_length": np.array([2], np.int32),
        "cache_indirection": np.array([[[0, 1, 0, 1, 0, 1, 0], [1, 0, 1, 0, 1, 0, 1]]], np.int32)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("MultiHeadAttention", ['query', 'key', 'value', '', '', '', 'past_key', 'past_value', 'past_sequence_length', 'cache_indirection'], ['output', 'present_key', 'present_value'], domain='com.microsoft', num_heads=1)
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
    got = binding.get_outputs()[0].numpy().reshape(2, 2, 1, 1).transpose(0, 2, 1, 3)
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
