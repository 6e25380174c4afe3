import attest
@attest.subject
def f(q, k, v, *, casual=False): return v
