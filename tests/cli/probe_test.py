#!/usr/bin/env python3
"""attest probe as a user meets it: statuses, its JSON, rows of repetition, and a rerun that shows what a row says.

Usage: probe_test.py ATTEST [unittest option...]
"""
import json
import re
import shlex

import command_line


class Probe(command_line.Cli):
    def probed(self, subject, *words, status):
        done = self.attest("probe", subject, "--no-speed", "--json", "seen.json", *words, timeout=240)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stdout, json.loads((self.cwd / "seen.json").read_text())

    def broken(self, subject):
        _, seen = self.probed(subject, "--policy", "f32", status=1)
        return {row["stage"]: row for row in seen["rows"] if row["standing"] == "contradicts"}

    def test_a_kernel_that_keeps_its_contract(self):
        text, seen = self.probed("builtin:fused", "--policy", "f16", status=0)
        self.assertIn("nothing seen contradicts the contract", text)
        self.assertEqual(seen["exit"], 0)
        rows = {row["stage"]: row for row in seen["rows"]}
        self.assertEqual(rows["qk"]["at_least"], "f32")
        self.assertEqual(rows["weights"]["at_least"], "f16")
        self.assertEqual(rows["empty row, by keep"]["observed"], "zero")
        self.assertEqual(seen["contract"]["policy"], "f16")

    def test_a_stage_that_is_narrower_and_its_rerun(self):
        text, seen = self.probed("fault:qk-acc-f16", "--policy", "f32", status=1)
        row = next(row for row in seen["rows"] if row["stage"] == "qk")
        self.assertEqual((row["standing"], row["observed"]), ("contradicts", "f16"))
        command = shlex.split(re.search(r"attest (check .*)", text).group(1))
        self.assertEqual(self.attest(*command).returncode, 1)

    def test_repetition_and_batches(self):
        self.assertEqual(self.broken("fault:race")["reruns"]["observed"], "bits differ")
        self.assertIn("threads", self.broken("fault:thread-split"))
        self.assertEqual(set(self.broken("fault:batch-split")), {"batch"})
        self.assertIn("outside the bound", self.broken("fault:batch-path")["batch"]["observed"])

    def test_words_that_it_refuses(self):
        self.refused("probe", "builtin:ln-fused", says=["no probes", "layer_norm"])
        self.refused("probe", "builtin:fused", "--op", "nothing", says=["--op", "attest list ops"])
        self.refused("probe", "builtin:nothing")
        self.refused("probe", "./nothing.so", status=4)


if __name__ == "__main__":
    command_line.run()
