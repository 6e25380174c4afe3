import attest
@attest.subject(dtypes=['int8'])
def f(q, k, v): return v
