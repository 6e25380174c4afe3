import attest
@attest.subject
def f(query, key, value): return value
