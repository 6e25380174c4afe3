# openvino:sdpa fails guards, version openvino 2026.4.1
# law: writes(call) = elements of out and lse
# problem: op=attention b=1 hq=1 hkv=1 lq=0 lk=1 d=1 dv=1 dtype=f32 values=constant:1 q_form=zero k_form=zero v_form=zero seed=0 form.build=static form.rank=5d form.scale=explicit
import numpy as np

q = np.zeros((1, 1, 0, 1,), np.float32)
k = np.array([[[[0]]]], np.float32)
v = np.array([[[[0]]]], np.float32)
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

import openvino as ov
from openvino import opset13
feed = {"query": q.reshape((1, 1, 1, 0, 1)),
        "key": k.reshape((1, 1, 1, 1, 1)),
        "value": v.reshape((1, 1, 1, 1, 1)),
        "attention_mask": np.array(0.0, np.float32),
        "scale": np.array(1.0, np.float32)}
feed = {n: np.require(a, requirements="CW") for n, a in feed.items()}
kinds = {n: ov.Type.boolean if a.dtype == bool else ov.Type.f32 for n, a in feed.items()}
tensor = lambda a, t: ov.Tensor(a)
stored = ()  # part of the model
parameters = {n: opset13.parameter(list(a.shape), kinds[n]) for n, a in feed.items() if n not in stored}
nodes = [parameters[n] if n in parameters else ov.op.Constant(tensor(a, kinds[n])) for n, a in feed.items()]
node = opset13.scaled_dot_product_attention(*nodes, causal=False)
try:
    model = ov.Core().compile_model(ov.Model([node], list(parameters.values())), "CPU", {'EXECUTION_MODE_HINT': 'ACCURACY'})
    request = model.create_infer_request()
    for i, n in enumerate(parameters):
        request.set_input_tensor(i, tensor(feed[n], kinds[n]))
    request.infer()
    got = request.get_output_tensor().data.reshape(1, 1, 0, 1)
except RuntimeError as error:
    raise SystemExit(f"refused: {error}")
print('got\n', got)
