"""The kernel of worker_bench: attention in few numpy calls. Run as a program, it prints the nanoseconds of a bare call."""
import statistics
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "subjects/python"))
import attest  # noqa: E402


@attest.subject(dtypes=["float32"], contract={"policy": "f32"})
def kernel(q, k, v, *, scale):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


def main():
    b, h, lq, lk, d = map(int, sys.argv[1:])
    q, k, v = (np.ones((b, h, length, d), np.float32) for length in (lq, lk, lk))
    times = []
    for _ in range(20000):
        start = time.perf_counter_ns()
        kernel(q, k, v, scale=0.5)
        times.append(time.perf_counter_ns() - start)
    print(statistics.median(times))


if __name__ == "__main__":
    main()
