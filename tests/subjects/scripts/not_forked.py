"""Subjects that cannot be forked once this is imported: a thread is under way."""
import os
import threading

import attest
import numpy as np

threading.Thread(target=threading.Event().wait, daemon=True).start()


@attest.subject
def life(q, k, v, *, scale):
    if scale == 2:
        os._exit(7)
    out = np.zeros((*q.shape[:3], v.shape[3]), q.dtype)
    out[0, 0, 0, :3] = [os.getpid(), os.getppid(), threading.active_count()]
    return out
