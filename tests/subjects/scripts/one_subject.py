import attest
@attest.subject
def only(q, k, v): return v[:, :, :1]
