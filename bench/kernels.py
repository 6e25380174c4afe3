#!/usr/bin/env python3
"""How fast the built-in kernels are beside attention that people run on CPUs, in one run, by turns.

Prefill in f32 beside onnxruntime's MultiHeadAttention and, where torch is installed, its CPU flash kernel; decoding beside NumPy;
storage of 16 bits beside f32. A time is the best round's mean: processor time on one thread, the clock's on more, which
therefore want a machine that does nothing else. Prints GFLOP/s a core, 2 Lq Lk (D + Dv) a head, and kernel : peer.

Runs build/release/bin/kernels_bench (cmake --preset release -DATTEST_BUILD_BENCH=ON). The peers are installed, pinned, into
build/.venv-kernels the first time, or --python names an interpreter that has them.
"""
import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from peers import private_python

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build/.venv-kernels"
REQUIREMENTS = ROOT / "bench/requirements-kernels.txt"
# b, heads, lq, lk, d
PREFILL = [(1, 8, 128, 128, 64), (1, 8, 512, 512, 64), (4, 16, 128, 128, 64)]
DECODE = (8, 16, 1, 4096, 128)
KERNELS = ("explicit", "fused")


def flop(shape):
    b, heads, lq, lk, d = shape
    return 4 * b * heads * lq * lk * d


def seconds_of_kernels(program, kernels, policy, shape, threads, seconds):
    """Mean seconds a call of each kernel, by Google Benchmark."""
    b, heads, lq, lk, d = shape
    problem = f"b={b} hq={heads} hkv={heads} lq={lq} lk={lk} d={d} dv={d} threads={threads}"
    result = subprocess.run([program, f"--benchmark_min_time={seconds}", "--benchmark_format=json",
                             *(f"{kernel}/{policy}/{problem}" for kernel in kernels)],
                            env=os.environ | {"OMP_NUM_THREADS": str(threads)}, text=True, capture_output=True)
    if result.returncode != 0:
        sys.exit(f"kernels: {result.stderr}")
    key = "cpu_time" if threads == 1 else "real_time"
    return [entry[key] * 1e-9 for entry in json.loads(result.stdout)["benchmarks"]]


def onnxruntime_peer(shape, threads):
    import numpy
    import onnxruntime
    from onnx import TensorProto, helper
    b, heads, lq, lk, d = shape
    names = {"q": lq, "k": lk, "v": lk}
    value = helper.make_tensor_value_info
    node = helper.make_node("MultiHeadAttention", list(names), ["out"], domain="com.microsoft", num_heads=heads)
    graph = helper.make_graph([node], "attention", [value(n, TensorProto.FLOAT, [b, l, heads * d]) for n, l in names.items()],
                              [value("out", TensorProto.FLOAT, [b, lq, heads * d])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    draw = numpy.random.default_rng(0).standard_normal
    feeds = {n: draw((b, l, heads * d), dtype=numpy.float32) for n, l in names.items()}
    return lambda: session.run(None, feeds)


def torch_peer(shape, threads):
    import torch
    torch.set_num_threads(threads)
    b, heads, lq, lk, d = shape
    q, k, v = (torch.randn(b, heads, length, d) for length in (lq, lk, lk))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)


def numpy_peer(shape, threads):
    import numpy
    b, heads, lq, lk, d = shape
    draw = numpy.random.default_rng(0).standard_normal
    q, k, v = (draw((b, heads, length, d), dtype=numpy.float32) for length in (lq, lk, lk))

    def attention():
        s = q @ k.transpose(0, 1, 3, 2)
        s *= numpy.float32(d ** -0.5)
        s -= s.max(-1, keepdims=True)
        numpy.exp(s, out=s)
        s /= s.sum(-1, keepdims=True)
        return s @ v
    return attention


def seconds_of_peer(call, threads, seconds):
    clock = time.process_time if threads == 1 else time.perf_counter
    call()
    calls, begin, end = 0, clock(), time.perf_counter() + seconds
    while calls == 0 or time.perf_counter() < end:
        call()
        calls += 1
    return (clock() - begin) / calls


def compare(options, threads, shape, peers):
    """Prints a line for each kernel: the best of all rounds, by turns with the peers'."""
    calls = {}
    for name, make in peers.items():
        try:
            calls[name] = make(shape, threads)
        except ImportError:
            print(f"  {name} is not installed")
    best = {}
    for _ in range(options.rounds):
        for policy in options.policies:
            measured = seconds_of_kernels(options.program, KERNELS, policy, shape, threads, options.seconds)
            for kernel, seconds in zip(KERNELS, measured):
                best[kernel, policy] = min(seconds, best.get((kernel, policy), seconds))
        for name, call in calls.items():
            seconds = seconds_of_peer(call, threads, options.seconds)
            best[name, ""] = min(seconds, best.get((name, ""), seconds))
    for (name, policy), seconds in best.items():
        rate = f"{flop(shape) / seconds / threads * 1e-9:7.1f} GFLOP/s a core, {seconds * 1e6:9.1f} us"
        beside = [f"{best[peer, ''] / seconds:.2f} of {peer}" for peer in calls if policy == "f32"]
        if policy not in ("", "f32"):
            beside = [f"{best[name, 'f32'] / seconds:.2f} of its f32"]
        print(f"  {name + ' ' + policy:16} {rate}   {', '.join(beside)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.2, help="of each kernel and peer in a round")
    parser.add_argument("--policies", nargs="+", default=["f32", "bf16"])
    parser.add_argument("--program", default=ROOT / "build/release/bin/kernels_bench", type=Path)
    parser.add_argument("--python", type=Path, help="has numpy, onnx and onnxruntime, and torch if that is to be measured")
    parser.add_argument("--measured-threads", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.program.exists():
        sys.exit(f"kernels: there is no {options.program}: build it with -DATTEST_BUILD_BENCH=ON")
    if options.measured_threads is None:  # a process for each number, which BLAS reads as it is loaded
        python = options.python or private_python("kernels", "NumPy and ONNX Runtime", VENV, REQUIREMENTS)
        for threads in options.threads:
            count = {n: str(threads) for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
            subprocess.run([python, __file__, *sys.argv[1:], "--measured-threads", str(threads)],
                           env=os.environ | count, check=True)
        return
    threads = options.measured_threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for shape in PREFILL + [DECODE]:
        print(f"{shape} on {threads} thread{'s' if threads > 1 else ''}", flush=True)
        compare(options, threads, shape,
                {"numpy": numpy_peer} if shape is DECODE else {"onnxruntime": onnxruntime_peer, "torch": torch_peer})


if __name__ == "__main__":
    main()
