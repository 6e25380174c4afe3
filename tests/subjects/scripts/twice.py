import attest
@attest.subject
def f(q, k, v): return v
@attest.subject(name='f')
def g(q, k, v): return v
