#!/usr/bin/env python3
"""layer_norm through the verbs: policies of several operations, judge, bound, export, certify, compare, list.

Usage: layer_norm_test.py ATTEST [unittest option...]
"""
import json
import math
import struct
import zipfile

from command_line import Cli, run
from saved_tensors import Array, write_npz


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Policies(Cli):
    def test_a_pattern_that_matches_nothing_lists_the_stages(self):
        for words in (("check", "builtin:ln-fused", "--cases", 1), ("judge", "--op", "layer_norm"),
                      ("bound", "op=layer_norm rows=1 hidden=4 dtype=f32"), ("compare", "builtin:ln-fused", "builtin:ln-explicit")):
            done = self.attest(*words, "--policy", "f16,layernorm*=f32")
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertIn("policy pattern 'layernorm*' matches no stage of layer_norm: the stages are storage, sum, statistics, "
                          "normalise, affine, output; those of attention are attention.storage,", done.stderr)

    def test_one_of_another_operation_is_said(self):
        done = self.attest("check", "builtin:ln-fused", "--policy", "f16,softmax=f32,layer_norm.statistics=f32", "--cases", 20)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("attest: policy pattern 'softmax' matches stages of attention and mha alone, and says nothing of layer_norm",
                      done.stderr)
        self.assertNotIn("statistics' matches", done.stderr)
        done = self.attest("check", "builtin:fused", "--policy", "f16,softmax=f16,layer_norm*=f32", "--cases", 20)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("pattern 'layer_norm*' matches stages of layer_norm alone", done.stderr)

    def test_the_last_that_matches_wins_and_the_kernel_computes_in_it(self):
        done = self.attest("check", "builtin:ln-fused", "--policy", "f16,layer_norm*=f32,layer_norm.s*=f16,layer_norm.storage=f32",
                           "--problem", "op=layer_norm rows=1 hidden=4 dtype=f32 values=normal seed=1", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_campaign_goes_on_under_such_a_policy(self):
        words = ("fuzz", "builtin:ln-fused", "--policy", "f16,softmax=f32,layer_norm*=f32", "--seed", 3, "--jobs", 1, "-o", "there")
        self.assertEqual(self.attest(*words, "--cases", 20).returncode, 0)
        done = self.attest(*words, "--cases", 40)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_effective_precision_stands_beside_what_was_requested(self):
        done = self.attest("check", "fault:ln-policy-ignored", "--policy", "f32", "--cases", 200, "--jobs", 1, "--json", "s.json")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("     precision  requested f32 (", done.stdout)
        effective = json.loads((self.cwd / "s.json").read_text())["defects"][0]["effective"]
        self.assertEqual(effective["requested"], "f32")
        self.assertTrue(effective["fits"] and all("=f16" in policy for policy in effective["fits"]), effective)

    def test_lists_are_of_the_operation(self):
        rows = json.loads(self.attest("list", "policies", "--op", "layer_norm", "--json", "-").stdout)
        self.assertEqual(list(rows[0]["stages"]), ["storage", "sum", "statistics", "normalise", "affine", "output"])
        self.assertIn("softmax", json.loads(self.attest("list", "policies", "--json", "-").stdout)[0]["stages"])
        names = [row["name"] for row in json.loads(self.attest("list", "generators", "--op", "layer_norm", "--json", "-").stdout)]
        self.assertIn("hidden", names)
        self.assertEqual(self.attest("list", "faults", "--op", "layer_norm").returncode, 2)


class Saved(Cli):
    def setUp(self):
        super().setUp()
        self.rows, self.hidden = 3, 8
        x = [single(math.sin(7 * i) * 3 + 1) for i in range(self.rows * self.hidden)]
        gamma = [single(1 + i / 8) for i in range(self.hidden)]
        beta = [single(i / 16) for i in range(self.hidden)]
        out = []
        for row in range(self.rows):
            part = x[row * self.hidden:(row + 1) * self.hidden]
            mean = math.fsum(part) / self.hidden
            variance = math.fsum((v - mean) ** 2 for v in part) / self.hidden
            out += [single((v - mean) / math.sqrt(variance + 1e-5) * g + b) for v, g, b in zip(part, gamma, beta)]
        self.out = out
        write_npz(self.cwd / "in.npz", x=Array((self.rows, self.hidden), x), weight=Array((self.hidden,), gamma),
                  beta=Array((self.hidden,), beta))
        write_npz(self.cwd / "out.npz", out=Array((self.rows, self.hidden), out))

    def judge(self, *words):
        return self.attest("judge", "--op", "layer_norm", "--inputs", "in.npz", "--outputs", "out.npz", "--gamma", "weight", *words)

    def test_what_is_right_is_held(self):
        done = self.judge("--policy", "f32", "--json", "j.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("call       layer_norm rows=3 hidden=8 f32, layer, epsilon 1e-05, gamma, beta\n", done.stdout)
        self.assertIn("held: 24 elements inside", done.stdout)
        said = json.loads((self.cwd / "j.json").read_text())
        self.assertEqual((said["op"], said["shape"]), ("layer_norm", {"rows": 3, "hidden": 8, "dtype": "f32"}))

    def test_what_is_wrong_is_told(self):
        self.out[11] += 1e-3
        write_npz(self.cwd / "out.npz", out=Array((self.rows, self.hidden), map(single, self.out)))
        done = self.judge("--policy", "f32")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("out[1,3,0,0] = 2.04042", done.stdout)
        self.assertIn("1 element outside, 23 inside", done.stdout)

    def test_options_are_those_of_the_operation(self):
        self.assertEqual(self.judge("--policy", "f32", "--rms").returncode, 1)
        self.assertEqual(self.judge("--policy", "f32", "--epsilon", "0.5").returncode, 1)
        done = self.judge("--policy", "f32", "--causal")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--causal is of attention", done.stderr)
        done = self.attest("judge", "--inputs", "in.npz", "--outputs", "out.npz", "--policy", "f32", "--rms")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--rms is of layer_norm", done.stderr)

    def test_a_contract_of_several_operations(self):
        (self.cwd / "contract.json").write_text(json.dumps({"contract": {"attention": {"exp_ulp": 2},
                                                                         "layer_norm": {"variance": "welford", "policy": "f32"}}}))
        done = self.judge("--policy", "f32", "--contract", "contract.json", "--json", "j.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads((self.cwd / "j.json").read_text())["contract"]["variance"], "welford")

    def test_bound_of_inputs_that_were_saved(self):
        write_npz(self.cwd / "in.npz", x=Array((2, 4), [1, 2, 3, 5, -1, 0, 4, 2], "<f2"), gamma=Array((4,), [1, 2, 1, 1], "<f2"))
        done = self.attest("bound", "--op", "layer_norm", "--inputs", "in.npz", "--policy", "f16-all", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["op"], said["elements"], said["shape"]), ("layer_norm", 8, {"rows": 2, "hidden": 4, "dtype": "f16"}))
        self.assertGreater(said["two_kernels"]["sum_atol_alone"]["atol"], 0)

    def test_bound_says_what_to_ask_for(self):
        done = self.attest("bound", "op=layer_norm rows=4 hidden=64 dtype=f16 values=normal seed=2", "--policy", "f16", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual((said["elements"], said["undetermined"]), (256, 0))
        self.assertGreater(said["two_kernels"]["sum_atol_alone"]["atol"], said["radius"]["largest"])
        done = self.attest("bound", "op=layer_norm rows=0 hidden=64 dtype=f16 values=normal seed=2", "--policy", "f16")
        self.assertEqual(done.returncode, 2)
        self.assertIn("give rows of the problem a size of 1 or more", done.stderr)


class Reproducers(Cli):
    def entry(self, fault, *words):
        done = self.attest("check", f"fault:{fault}", "--cases", 2000, "--jobs", 1, "--corpus", "corpus", *words)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return next((self.cwd / "corpus").rglob("*.json"))

    def test_certify(self):
        file = self.entry("ln-tail", "--policy", "f32", "--property", "policy-bound", "--assume", "offset==0")
        done = self.attest("certify", file, "--json", "proof.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no implementation that keeps this contract can give out[0,", done.stdout)
        proof = json.loads((self.cwd / "proof.json").read_text())
        self.assertLess(float(proof["lo"]), float(proof["hi"]))
        self.assertFalse(proof["rounded_lo"] <= proof["value"] <= proof["rounded_hi"])
        self.assertEqual(proof["keys"], [])

    def test_npz(self):
        file = self.entry("ln-tail")
        self.assertEqual(self.attest("export", file, "--to", "npz", "-o", "x.npz").returncode, 0)
        with zipfile.ZipFile(self.cwd / "x.npz") as archive:
            manifest = json.loads(archive.read("manifest.json"))
            names = archive.namelist()
        self.assertIn("epsilon", manifest)
        self.assertEqual(manifest["problem"]["op"], "layer_norm")
        for name in ("x.npy", "out.npy"):
            self.assertIn(name, names)
        # judge reads the files that export writes: the fault is found again.
        policy = manifest["contract"]["policy"]
        words = ["--rms"] if manifest["problem"].get("norm") == "rms" else []
        done = self.attest("judge", "--op", "layer_norm", "--inputs", "x.npz", "--outputs", "x.npz", "--policy", policy,
                           "--epsilon", str(float.fromhex(manifest["epsilon"])), *words)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)

    def test_python_and_issue(self):
        file = self.entry("ln-eps-outside")
        script = self.attest("export", file, "--to", "python").stdout
        self.assertIn("# law: out and sum_out lie in [lo, hi] of docs/layer-norm.md", script)
        self.assertIn("epsilon = ", script)
        self.assertIn("+ epsilon)", script)
        issue = self.attest("export", file, "--to", "issue").stdout
        self.assertIn("# fault:ln-eps-outside", issue)
        self.assertIn(script, issue)

    def test_two_subjects(self):
        done = self.attest("compare", "builtin:ln-fused", "fault:ln-tail", "--cases", 100, "--seed", 1, "--jobs", 1, "-o", "there")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("B is outside its own bound", done.stdout)
        self.assertEqual(self.attest("replay", "there/corpus").returncode, 0)
        done = self.attest("compare", "builtin:ln-fused", "builtin:ln-fused-welford", "--cases", 300, "--seed", 1, "-o", "held")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.attest("compare", "builtin:ln-fused", "builtin:fused", "--op", "layer_norm")
        self.assertEqual(done.returncode, 2)
        self.assertIn("builtin:fused does not offer the operation layer_norm", done.stderr)


if __name__ == "__main__":
    run()
