# onednn:sdpa fails policy-bound, version oneDNN 3.13.2
# law: RN(lo) <= out <= RN(hi), RN(lo) <= lse <= RN(hi)
# seen: out[0,0,0,0] = 0.5, expected 1, permitted 0.9999989867204606 .. 1.0000010132795394 (4.93e+05 x the permitted distance)
# problem: op=attention b=1 hq=2 hkv=2 lq=1 lk=2 d=1 dv=1 dtype=f32 v_layout=bshd values=constant:1 q_form=zero k_form=zero seed=0 form.unit_axes=one
import numpy as np

q = np.array([[[[0]], [[0]]]], np.float32)
k = np.array([[[[0], [0]], [[0], [0]]]], np.float32)
v = np.array([[[[1], [1]], [[1], [1]]]], np.float32)
scale = 1
got = np.array([[[[0.5]], [[0.5]]]], np.float32)

# what attention means, in float64
group = q.shape[1] // k.shape[1]
K, V = (np.repeat(t.astype(np.float64), group, axis=1) for t in (k, v))
s = scale * (q.astype(np.float64) @ K.transpose(0, 1, 3, 2))
with np.errstate(invalid='ignore'):  # a row with every score at -inf has no defined mean
    w = np.exp(s - s.max(-1, keepdims=True))
    w = w / w.sum(-1, keepdims=True)
    expected = w @ V
expected = np.where((s == -np.inf).all(-1, keepdims=True), np.nan, expected)  # its contract: NaN

at = (0, 0, 0, 0)
print('expected', expected[at])
print('a kernel that keeps the policy f32 returns something in [0.9999989867204606, 1.0000010132795394]')
print('got     ', got[at])
