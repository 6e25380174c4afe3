#!/usr/bin/env python3
"""Workers of a campaign: nothing of them outlives it, and how they are started and asked changes no verdict."""
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from importlib.util import find_spec
from pathlib import Path

from command_line import Cli, run

KERNEL = '''
import os
import time
from pathlib import Path

import attest
import numpy as np

LIVES = Path(__file__).with_name("lives")


@attest.subject(contract={{"policy": "f32"}}, fork={fork})
def kernel(q, k, v, *, scale, causal=False, align="top_left"):
    with LIVES.open("a") as lives:
        lives.write(f"{{os.getpid()}} {{os.getppid()}}\\n")
    if {hangs}:
        time.sleep(3600)
    if q.shape[2] > 8 and q.shape[3] % 3 == 0:
        os._exit(5)
    if q.shape[2] > 3 and q.shape[3] % 5 == 0:
        raise ValueError("five")
    s = (q @ k.swapaxes(-1, -2).repeat(q.shape[1] // k.shape[1], 1)) * np.float32(scale)
    if causal:
        rows, keys = s.shape[-2:]
        shift = keys - rows if align == "bottom_right" else 0
        s = np.where(np.arange(keys) <= np.arange(rows)[:, None] + shift, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v.repeat(q.shape[1] // k.shape[1], 1) / p.sum(-1, keepdims=True)
'''


class Workers(Cli):
    def script(self, fork, hangs=False):
        (self.cwd / "kernel.py").write_text(KERNEL.format(fork=fork, hangs=hangs))
        return "kernel.py"

    def processes(self):
        """All processes that calls ran in, and their parents."""
        file = self.cwd / "lives"
        return {int(word) for word in file.read_text().split()} if file.exists() else set()

    def expect_gone(self, processes):
        end = time.monotonic() + 20
        while (left := [p for p in processes if is_alive(p)]) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(left, [])

    def test_a_killed_campaign_leaves_no_process(self):
        campaign = subprocess.Popen([self.program, "fuzz", self.script(fork=True, hangs=True), "--time", "60s", "--jobs", "2"],
                                    cwd=self.cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            end = time.monotonic() + 60
            while len(self.processes()) < 3 and time.monotonic() < end:  # two workers and their parent
                time.sleep(0.05)
            told = self.processes()
            self.assertEqual(len(told), 3)
            campaign.send_signal(signal.SIGKILL)
        finally:
            campaign.kill()
            campaign.wait()
        self.expect_gone(told)

    def test_a_campaign_that_ends_leaves_none(self):
        done = self.attest("check", self.script(fork=True), "--cases", 200, "--continue-after-failure", "--jobs", 2)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.expect_gone(self.processes() - {os.getpid()})

    def test_verdicts_are_the_same_however_lives_begin(self):
        told = []
        for fork, jobs in ((True, 1), (False, 1), (True, 2)):
            done = self.attest("check", self.script(fork), "--cases", 150, "--continue-after-failure", "--jobs", jobs,
                               "--seed", 3, "--json", "-", timeout=300)
            self.assertEqual(done.returncode, 1, done.stderr)
            summary = json.loads(done.stdout)
            told.append((summary["verdicts"], sorted((f["bucket"], f["problem"], f["case"]) for f in summary["findings"])))
        self.assertTrue(told[0][1])
        self.assertEqual(told[0], told[1])
        self.assertEqual(told[0], told[2])


def is_alive(process):
    try:
        return (Path("/proc") / str(process) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    python = os.environ.get("ATTEST_PYTHON")
    there = (find_spec("numpy") if not python else
             subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0)
    if not there:
        print("skipped: no numpy here; name a Python that has it with ATTEST_PYTHON")
        sys.exit(125)
    unittest.TestCase.maxDiff = None
    run()
