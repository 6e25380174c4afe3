import attest


@attest.runtime
def one(model, *, build, threads):
    raise attest.Unsupported("nothing")


@attest.runtime
def two(model, *, build, threads):
    raise attest.Unsupported("nothing")
