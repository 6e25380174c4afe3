"""A subject that says that it must not be forked."""
import os

import attest
import numpy as np


@attest.subject(fork=False)
def life(q, k, v, *, scale):
    if scale == 2:
        os._exit(7)
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    out[0, 0, 0, :3] = [os.getpid(), os.getppid(), 1]
    return out
