"""A runtime of models that are no ONNX files: a word says what such a model does."""
import os
import time

import numpy as np

import attest


def accepts(build):
    if build == "gone":
        raise attest.Unsupported("no such device")
    return build.startswith("plain+")


@attest.runtime(version="1.2", builds=("plain", "twice"), layouts=attest.LAYOUTS, accepts=accepts)
def words(model, *, build, threads):
    word = model.decode()
    if word == "refused":
        raise attest.Refused("it does not like the model")
    if word == "unsupported":
        raise attest.Unsupported("no such models")

    def run(feeds, names):
        x = feeds["x"]
        if word == "dies":
            os.abort()
        if word == "hangs":
            time.sleep(60)
        if word == "raises":
            raise ValueError("a bad value")
        if word == "changes":
            x.flat[0] += 1
        if word == "strides":
            return [np.array([stride // feeds[name].itemsize for stride in feeds[name].strides]) for name in names]
        if word == "address":
            return [np.array([feeds[name].ctypes.data % 64]) for name in names]
        if word == "gap":
            np.lib.stride_tricks.as_strided(feeds["x"], (2,), (feeds["x"].itemsize,))[1] = 7
        if word == "few":
            return []
        if word == "objects":
            return [np.array([None]) for _ in names]
        if word == "large":
            return [np.zeros(1 << 22) for _ in names]
        factor = 2 if build == "twice" else 1
        return [feeds[name] * feeds[name].dtype.type(factor) if name in feeds else np.float32(threads) for name in names]
    if word == "noted":
        run.note = "half of it\tis elsewhere"
    return run
