import attest


@attest.subject(supports={"forms": {"mask": ["full", "1d"]}})
def kernel(q, k, v, *, scale):
    return v
