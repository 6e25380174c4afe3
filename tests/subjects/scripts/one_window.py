import attest
@attest.subject
def f(q, k, v, *, window_left=None): return v
