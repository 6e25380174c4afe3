"""The Python worker as attest asks it (docs/worker.md), by its pipe alone."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / "subjects" / "python"


class Worker:
    """One that serves the subjects of `script`; its arena, of 4096 float32, lies in `folder`."""

    def __init__(self, script, folder):
        self.arena = np.memmap(Path(folder) / "arena", np.float32, "w+", shape=4096)
        self.arena[:] = np.nan
        self.process = subprocess.Popen([sys.executable, "-m", "attest.worker", str(script)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, cwd=PYTHON, text=True)
        described = self.ask(message="describe", arena=str(Path(folder) / "arena"), subject="", timeout_ms=60000)
        self.described = {subject["name"]: subject["describe"] for subject in described["subjects"]}

    def ask(self, **message):
        self.process.stdin.write(json.dumps({"protocol": 1, **message}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, subject, **call):
        return self.ask(message="run", id=1, subject=subject, timeout_ms=60000, arena_bytes=self.arena.nbytes, calls=[call])

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(30)


def tensor(first, *shape, strides=None):
    """A tensor of a message, in the arena from element `first` on, packed unless it has `strides`."""
    packed = [int(np.prod(shape[axis + 1:])) for axis in range(len(shape))]
    return {"offset": 4 * first, "dtype": "f32", "shape": list(shape), "strides": strides or packed}
