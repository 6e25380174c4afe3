#!/usr/bin/env python3
"""The CUDA example and the program that looks for growth, compiled by nvcc without a warning; its planted faults, compiled.

Usage: compile_test.py. 125 where there is no nvcc.
"""
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults import FAULTS, KERNEL, planted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def main():
    if shutil.which("nvcc") is None:
        print("skipped: there is no nvcc on the PATH", file=sys.stderr)
        return 125
    with tempfile.TemporaryDirectory() as folder:
        sources = {"plugin": ROOT / "examples/cuda/plugin.cu", "kernel": KERNEL, "growth": HERE / "growth.cpp"}
        clean = set(sources)
        for fault in FAULTS:
            sources[fault.name] = Path(folder, f"{fault.name}.cu")
            sources[fault.name].write_text(planted(fault))

        def compiled(name):
            command = ["nvcc", "-std=c++17", "-arch=sm_80", "-x", "cu", "-I", ROOT / "include", "-I", ROOT / "examples/cuda", "-Xcompiler",
                       "-fPIC,-Wall,-Wextra,-Wconversion", "-c", sources[name], "-o", Path(folder, f"{name}.o")]
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            return "" if done.returncode == 0 and not (done.stderr and name in clean) else f"{name}:\n{done.stderr}"

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            complaints = [complaint for complaint in pool.map(compiled, sources) if complaint]
    print("\n".join(complaints) or f"{len(sources)} sources compile")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
