#!/usr/bin/env python3
"""attest certify: reproducers that stand, one that falls, those that it does not cover, and damaged ones.

Usage: certify_test.py ATTEST [unittest option...]
"""
import json
import re

from command_line import ROOT, Cli, run

MASK = (1 << 64) - 1


def digest(data):
    """The digest of engine/file.hpp, with which a corpus file ends."""
    hash_ = 0xCBF29CE484222325
    for byte in data:
        hash_ = (hash_ ^ byte) * 0x100000001B3 & MASK
    hash_ = (hash_ + 0x9E3779B97F4A7C15) & MASK
    hash_ = (hash_ ^ hash_ >> 30) * 0xBF58476D1CE4E5B9 & MASK
    hash_ = (hash_ ^ hash_ >> 27) * 0x94D049BB133111EB & MASK
    return f"{hash_ ^ hash_ >> 31:016x}"


class Certify(Cli):
    def entry(self, name, change=None):
        """A corpus file of our own, changed and sealed again."""
        text = next(ROOT.glob(f"corpus/{name}.json")).read_text()
        head = text[:text.rindex('  "digest"')]
        if change:
            head = change(head)
        file = self.cwd / "entry.json"
        file.write_text(f'{head}  "digest": "{digest(head.encode())}"\n}}\n')
        return file

    def certify(self, file, status, outcome):
        done = self.attest("certify", file, "--json", "proof.json")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith(outcome), done.stdout)
        proof = json.loads((self.cwd / "proof.json").read_text())
        self.assertEqual(proof["exit"], status)
        return done.stdout, proof

    def test_a_finding_stands(self):
        text, proof = self.certify(self.entry("fault_scale-twice/policy-bound*"), 0, "stands ")
        self.assertIn("no implementation that keeps this contract can give out[0,0,0,0] = 0.37754067", text)
        self.assertIn("Arb 2.", text)
        self.assertLess(float(proof["lo"]), float(proof["exact"]))
        self.assertLess(float(proof["exact"]), float(proof["hi"]))
        self.assertLess(proof["rounded_hi"], proof["value"])
        self.assertEqual(proof["outcome"], "stands")
        self.assertEqual(proof["bits"], 256)
        self.assertEqual(len(proof["keys"]), int(proof["row"]["n"]))
        for key in ("u_sm", "c_e", "eta_pv"):
            self.assertGreater(float(proof["constants"][key]), 0)
        self.assertEqual(json.loads(self.attest("certify", "entry.json", "--json", "-").stdout), {**proof, "file": "entry.json"})

    def test_a_number_that_may_be_does_not_stand(self):
        def right(head):
            expected = re.search(r'"expected": ([-0-9.e]+)', head).group(1)
            return re.sub(r'"got": [-0-9.e]+', f'"got": {expected}', head)
        text, proof = self.certify(self.entry("fault_scale-twice/policy-bound*", right), 1, "does not stand ")
        self.assertEqual(proof["outcome"], "falls")
        self.assertIn("the bound does not exclude", text)

    def test_two_results_of_one_element_cannot_both_be_right(self):
        text, proof = self.certify(self.entry("fault_window-off-by-one/window-mask*"), 0, "stands ")
        self.assertEqual(proof["claim"], "pair")
        self.assertIn("one of the two results 1 and 0.5", text)

        def alike(head):
            return re.sub(r'"got": [-0-9.e]+', '"got": 0.5', head)
        self.certify(self.entry("fault_window-off-by-one/window-mask*", alike), 1, "does not stand ")

    def test_hull_and_log_sum_exp_and_nan(self):
        self.assertEqual(self.certify(self.entry("fault_scale-on-value/hull*"), 0, "stands ")[1]["claim"], "hull")
        self.assertEqual(self.certify(self.entry("fault_lse-wrong-base/lse*"), 0, "stands ")[1]["tensor"], "lse")
        proof = self.certify(self.entry("fault_row-empty-nan/result-class*causal-br*"), 0, "stands ")[1]
        self.assertEqual(proof["value"], "nan")

    def test_what_is_not_covered_says_so(self):
        for name, says in (("fault_race/repeat*", "exact"), ("fault_unwritten/guards*", "memory"),
                           ("fault_max-init-zero/score-shift*", "derives")):
            text, proof = self.certify(self.entry(name), 125, "not covered ")
            self.assertEqual(proof["outcome"], "not_covered")
            self.assertIn(says, text)
        file = next(ROOT.glob("docs/findings/ort-attention-4.json"))
        self.assertIn("kind 'error'", self.certify(file, 125, "not covered ")[0])

    def test_bad_files(self):
        file = self.entry("fault_scale-twice/policy-bound*")
        self.refused("certify", says=["FILE"])
        self.refused("certify", "missing.json", says=["missing.json"])
        self.refused("certify", file, "--json", "no/such/folder.json", says=["--json"])
        whole = file.read_text()
        file.write_text(whole[:len(whole) // 2])
        self.refused("certify", file, says=["entry.json", "truncated"])
        file.write_text(whole.replace('"got": 0.3775', '"got": 0.3776'))
        self.refused("certify", file, says=["entry.json", "digest"])

        def elsewhere(head):
            before, seen, after = head.partition('"seen"')
            return before + seen + re.sub(r'("index": \[\s*)0', r"\g<1>7", after, count=1)
        self.refused("certify", self.entry("fault_scale-twice/policy-bound*", elsewhere), says=["entry.json", "out[7,0,0,0]"])

        def no_f32(head):
            return re.sub(r'"got": [-0-9.e]+', '"got": 0.1', head)
        self.refused("certify", self.entry("fault_scale-twice/policy-bound*", no_f32), says=["entry.json", "0.1", "f32"])


if __name__ == "__main__":
    run()
