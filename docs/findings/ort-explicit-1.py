# onnxruntime:explicit fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 2.3947506461780708, expected 2.394750640449808, permitted 2.3947506404497747 .. 2.3947506404498418 (1.7e+05 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f64 scale=0x1.999999999999ap-3 values=integers:1 q_form=one seed=169862648
import numpy as np

q = np.array([[[[1]]]], np.float64)
k = np.array([[[[2], [0]]]], np.float64)
v = np.array([[[[4], [0]]]], np.float64)
scale = 0.2

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
print('a kernel that keeps the policy f64 returns something in [2.3947506404497747, 2.3947506404498418]')

import onnxruntime as ort
from onnx import helper as h
feed = {"q": np.array([[[[1.0]]]], np.float64),
        "k": np.array([[[[2.0], [0.0]]]], np.float64),
        "v": np.array([[[[4.0], [0.0]]]], np.float64),
        "scale": np.array(0.2, np.float64)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
nodes = [h.make_node("Transpose", ['k'], ['transpose_0'], perm=[0, 1, 3, 2]),
         h.make_node("MatMul", ['q', 'transpose_0'], ['matmul_1']),
         h.make_node("Mul", ['matmul_1', 'scale'], ['mul_2']),
         h.make_node("Softmax", ['mul_2'], ['softmax_3'], axis=-1),
         h.make_node("MatMul", ['softmax_3', 'v'], ['out'])]
outputs = [info(n, q, None) for n in ['out']]
from onnx import numpy_helper
constants = [numpy_helper.from_array(np.asarray(feed.pop(n), order='C'), n) for n in ['scale']]
graph = h.make_graph(nodes, "g", [info(n, a, [None] * a.ndim) for n, a in feed.items()], outputs, constants)
model = h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)
options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = 2, 4  # errors are raised
try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(['out'], feed)[0]
except Exception as error:
    raise SystemExit(f"refused: {str(error).strip()}")
print('got     ', got[at])
