#!/usr/bin/env python3
"""Turns a CUDA source into C++ for the runtime of this folder: launches and shared memory, which are no C++.

Usage: on_host.py FILE.cu FILE.cpp
"""
import re
import sys
from pathlib import Path

LAUNCH = re.compile(r"(\w+(?:<\w+>)?)<<<(.*?)>>>\(")
SHARED = re.compile(r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];")


def on_host(text):
    text = LAUNCH.sub(r"host_cuda::launch(\1, \2, ", text)
    return SHARED.sub(r"\1* const \2 = static_cast<\1*>(host_cuda::shared_memory());", text)


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(f'#line 1 "{source}"\n' + on_host(source.read_text()))
