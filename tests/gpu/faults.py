#!/usr/bin/env python3
"""Defects of CUDA kernels, planted in examples/cuda/fused_attention.cu: each replaces one place and nothing else.

Usage: faults.py NAME FILE      writes the example's kernel with that defect
       faults.py --list
"""
import sys
from dataclasses import dataclass
from pathlib import Path

KERNEL = Path(__file__).resolve().parents[2] / "examples/cuda/fused_attention.cu"


@dataclass
class Fault:
    name: str
    what: str
    old: str
    new: str
    subject: str = "fused"  # the subject of the example's plug-in that is asked


FAULTS = [
    Fault("misaligned-loads", "16 bytes are loaded at once wherever strides permit, whatever the first address is",
          "return rows && reinterpret_cast<uintptr_t>(t.data) % 16 == 0;",
          "return rows;"),
    Fault("last-partial-block", "keys behind the last whole tile are left out",
          "(range.last - range.first + tile - 1) / tile : 0;",
          "(range.last - range.first) / tile : 0;"),
    Fault("split-count", "so are those behind the last whole split",
          "plan.splits = (p.keys + plan.per_split - 1) / plan.per_split;",
          "plan.splits = std::max<int64_t>(1, p.keys / plan.per_split);"),
    Fault("int32-offset", "offsets are computed in 32 bits",
          "const int64_t offset = i0 * t.strides[0]",
          "const int32_t offset = i0 * t.strides[0]", subject="far"),
    Fault("missing-synchronise", "a warp does not wait for what the others load",
          "      __syncthreads();  // the tile is there\n",
          ""),
    Fault("stale-workspace", "a split without keys leaves what an earlier call wrote into the workspace",
          "} else {  // also for a split that has no key",
          "} else if (tiles > 0) {"),
    Fault("wrong-stream", "splits are merged on a stream of their own, which waits for nothing",
          "  merge<T><<<blocks, 256, 0, stream>>>(p, plan);",
          "  static cudaStream_t own = nullptr;\n"
          "  if (own == nullptr) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);\n"
          "  merge<T><<<blocks, 256, 0, own>>>(p, plan);"),
    Fault("batch-limit", "the batch is the grid's second axis, which ends at 65,535",
          "static_cast<unsigned>(std::min(p.batch, longest_grid_y))",
          "static_cast<unsigned>(p.batch)"),
]


def planted(fault):
    source = KERNEL.read_text()
    if source.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: '{fault.old.strip()}' is {source.count(fault.old)} times in {KERNEL.name}, not once")
    return source.replace(fault.old, fault.new)


def main(arguments):
    if arguments == ["--list"]:
        print("\n".join(f"{fault.name:20} {fault.what}" for fault in FAULTS))
        return 0
    by_name = {fault.name: fault for fault in FAULTS}
    if len(arguments) != 2 or arguments[0] not in by_name:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    Path(arguments[1]).write_text(planted(by_name[arguments[0]]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
