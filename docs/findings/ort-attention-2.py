# onnxruntime:Attention fails policy-bound, version onnxruntime 1.31.1, onnx 1.23.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.5, expected 1, permitted 0.9936285839929022 .. 1.0063714160070978 (78.5 x the permitted distance)
# problem: op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f16 keep=open lengths=one values=huge_scores:1 q_form=power_of_two k_form=power_of_two v_form=power_of_two seed=0 edit=k[0,0,1,0]:0x0p+0
import numpy as np

q = np.array([[[[-32768]]]], np.float16)
k = np.array([[[[32768], [0]]]], np.float16)
v = np.array([[[[1], [0.5]]]], np.float16)
keep = np.array([[[[True, True]]]], np.bool_)
kv_lengths = np.array([1], np.int32)
scale = 1

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
s = np.where(j < kv_lengths[:, None, None, None], s, -np.inf)
s = np.where(keep, s, -np.inf)
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), 0.0, expected)  # its contract: zeros

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f16-all returns something in [0.9936285839929022, 1.0063714160070978]')

import onnxruntime as ort
from onnx import helper as h
feed = {"Q": q,
        "K": k,
        "V": v,
        "attn_mask": keep[0, 0],
        "nonpad_kv_seqlen": kv_lengths.astype(np.int64)}
info = lambda n, a, s: h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(a.dtype), s)
node = h.make_node("Attention", ['Q', 'K', 'V', 'attn_mask', '', '', 'nonpad_kv_seqlen'], ['Y'])
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
