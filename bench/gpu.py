"""What campaigns on a GPU draw a second, beside loops by hand in the same run.

    gpu.py ATTEST [SECONDS]     ATTEST_PYTHON names a Python with torch and jax for CUDA; 10 seconds each if left out

A loop by hand draws a shape and numbers, has them answered by PyTorch's math backend on the GPU, and compares with attention in NumPy in
float64 within a tolerance: one call a problem, without masks, layouts, guards and laws. Of six jobs there are six loops in processes of
their own.
"""
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MATH = [("torch-cuda:math", 1), ("torch-cuda:math", 6)]
PLANS = [(subject, 16) for subject in ("torch-cuda:cudnn", "torch-cuda:compiled", "jax-cuda:sdpa", "jax-cuda:cudnn")]


def campaign(attest, subject, jobs, seconds):
    """Problems a second."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        subprocess.run([attest, "fuzz", subject, "--seed", "7", "--time", f"{seconds}s", "--jobs", str(jobs), "--json", report,
                        "--timeout", "120s", "-o", Path(folder) / "campaign"], stdout=subprocess.DEVNULL, check=False)
        told = json.loads(report.read_text())
    return told["cases"] / told["seconds"]


def loop_by_hand(seconds, seed):
    import numpy as np
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    rng = np.random.default_rng(seed)

    def problem():
        b, h, lq, lk, d = rng.integers(1, 4), rng.integers(1, 5), *(int(2 ** rng.uniform(0, 7)) for _ in range(3))
        dtype = rng.choice([np.float16, np.float32])
        q, k, v = (rng.standard_normal((b, h, length, d)).astype(dtype) for length in (lq, lk, lk))
        with sdpa_kernel(SDPBackend.MATH):
            got = torch.nn.functional.scaled_dot_product_attention(*(torch.from_numpy(x).to("cuda") for x in (q, k, v))).cpu().numpy()
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
        scores = q @ k.swapaxes(2, 3) / np.sqrt(d)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(got, weights @ v / weights.sum(-1, keepdims=True), rtol=1e-2, atol=1e-2)

    for _ in range(50):
        problem()
    count, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        problem()
        count += 1
    return count / seconds


def loops_by_hand(jobs, seconds):
    """Problems a second of so many at once."""
    python = os.environ.get("ATTEST_PYTHON", sys.executable)
    loops = [subprocess.Popen([python, __file__, "--loop", str(seconds), str(seed)], stdout=subprocess.PIPE, text=True)
             for seed in range(jobs)]
    return sum(float(loop.communicate()[0]) for loop in loops)


def main():
    if sys.argv[1:2] == ["--loop"]:
        print(loop_by_hand(float(sys.argv[2]), int(sys.argv[3])))
        return
    attest, seconds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10
    for subject, jobs in MATH:
        print(f"{subject}, {jobs} jobs: {campaign(attest, subject, jobs, seconds):.0f} problems/s; by hand "
              f"{loops_by_hand(jobs, seconds):.0f}", flush=True)
    for subject, jobs in PLANS:
        print(f"{subject}, {jobs} jobs: {campaign(attest, subject, jobs, 2 * seconds):.0f} problems/s", flush=True)


if __name__ == "__main__":
    main()
