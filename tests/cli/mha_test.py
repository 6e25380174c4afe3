#!/usr/bin/env python3
"""mha through the verbs: judge, bound, compare, certify, export, stats.

Usage: mha_test.py ATTEST [unittest option...]. Tests that run an exported script are left out where $ATTEST_PYTHON, else python3, has no numpy.
"""
import json
import math
import random
import re
import subprocess
import unittest
import zipfile

from certify_test import digest
from command_line import ROOT, Cli, run
from interpreter import HAS_NUMPY, PYTHON
from saved_tensors import Array, to_half, to_single, write_npz, write_polygraphy_inputs, write_polygraphy_outputs

CORPUS = sorted(ROOT.glob("corpus/fault_mha-*/*.json"))


class Block:
    """A small block of self-attention with two heads, and what it returns: sums in double, stages rounded once."""
    b, l, e, heads, d = 2, 3, 4, 2, 2

    def __init__(self, round_to, descr, causal=False):
        rng = random.Random(7)
        numbers = lambda n: [round_to(rng.gauss(0, 1)) for _ in range(n)]
        self.descr = descr
        b, l, e, width = self.b, self.l, self.e, self.heads * self.d
        self.x = numbers(b * l * e)
        self.w = {name: numbers(width * e) for name in ("w_q", "w_k", "w_v")}
        self.w_out, self.b_out = numbers(e * width), numbers(e)
        self.b = {name: numbers(width) for name in ("b_q", "b_k", "b_v")}
        self.samples = b
        q, k, v = ([[round_to(math.fsum(x * w for x, w in zip(self.row(n), self.w["w_" + c][r * e:r * e + e])) + self.b["b_" + c][r])
                     for r in range(width)] for n in range(b * l)] for c in "qkv")
        joined = []
        for s in range(b):
            for i in range(l):
                row = []
                for h in range(self.heads):
                    at = range(h * self.d, h * self.d + self.d)
                    keys = [j for j in range(l) if not causal or j <= i]
                    scores = [math.fsum(q[s * l + i][c] * k[s * l + j][c] for c in at) / math.sqrt(self.d) for j in keys]
                    weights = [math.exp(z - max(scores)) for z in scores]
                    row += [round_to(math.fsum(w * v[s * l + j][c] for w, j in zip(weights, keys)) / math.fsum(weights)) for c in at]
                joined.append(row)
        self.out = [round_to(math.fsum(o * w for o, w in zip(row, self.w_out[r * width:r * width + width])) + self.b_out[r])
                    for row in joined for r in range(e)]
        self.stages = {"q": q, "k": k, "v": v, "heads_out": joined}

    def row(self, n):
        return self.x[n * self.e:(n + 1) * self.e]

    def inputs(self):
        width = self.heads * self.d
        arrays = {"x": Array((self.samples, self.l, self.e), self.x, self.descr)}
        arrays |= {name: Array((width, self.e), w, self.descr) for name, w in self.w.items()}
        arrays |= {name: Array((width,), b, self.descr) for name, b in self.b.items()}
        return arrays | {"w_out": Array((self.e, width), self.w_out, self.descr), "b_out": Array((self.e,), self.b_out, self.descr)}

    def outputs(self, stages=False):
        arrays = {"out": Array((self.samples, self.l, self.e), self.out, self.descr)}
        width = self.heads * self.d
        if stages:
            arrays |= {name: Array((self.samples, self.l, width), sum(rows, []), self.descr) for name, rows in self.stages.items()}
        return arrays


class Saved(Cli):
    def save(self, block, stages=False, **changes):
        inputs = block.inputs() | changes
        write_npz(self.cwd / "in.npz", **{name: array for name, array in inputs.items() if array is not None})
        write_npz(self.cwd / "out.npz", **block.outputs(stages))

    words = ("judge", "--op", "mha", "--inputs", "in.npz", "--outputs", "out.npz")

    def judge(self, *words, heads=2):
        return self.attest(*self.words, "--heads", heads, *words)

    def test_what_is_right_is_held(self):
        for round_to, descr, policy in ((to_single, "<f4", "f32"), (to_half, "<f2", "f16")):
            for causal in (False, True):
                self.save(Block(round_to, descr, causal))
                words = ["--causal"] if causal else []
                done = self.judge("--policy", policy, "--json", "j.json", *words)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn(f"call       mha b=2 l=3 m=3 e=4 heads=2 kv_heads=2 head_dim=2 self=1 {policy}, self-attention, scale 0.7071",
                              done.stdout)
                self.assertIn("held: 24 elements inside", done.stdout)
                said = json.loads((self.cwd / "j.json").read_text())
                self.assertEqual((said["op"], said["shape"]["heads"], said["judged"]), ("mha", 2, 24))
                # The result is not that of the other call.
                done = self.judge("--policy", policy, *([] if causal else ["--causal"]))
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                told = "the call is causal (--causal)" if causal else "the call is not causal (without --causal)"
                self.assertEqual(done.stdout.count("  held if "), 1, done.stdout)
                self.assertIn(f"  held if    {told}\n", done.stdout)

    def test_polygraphy(self):
        block = Block(to_single, "<f4")
        write_polygraphy_inputs(self.cwd / "in.npz", block.inputs())
        write_polygraphy_outputs(self.cwd / "out.npz", trt=block.outputs())
        self.assertEqual(self.judge("--policy", "f32").returncode, 0)

    def test_what_is_wrong_is_told(self):
        block = Block(to_half, "<f2")
        block.out[9] += 0.25
        self.save(block)
        done = self.judge("--policy", "f16")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("first      out[0,2,1,0] = ", done.stdout)
        self.assertIn("1 element outside, 23 inside", done.stdout)
        self.assertNotIn("  held if ", done.stdout)
        self.assertNotIn("each result by itself is one that the contract permits", done.stdout)

    def test_so_many_rows_are_judged(self):
        # Rows 0, 2 and 4 of six are judged, [0,0], [0,2] and [1,1]; and no other.
        for stages, judged in ((False, 12), (True, 84)):  # the same rows of stages q and heads, and all of k and v
            self.save(Block(to_half, "<f2"), stages)
            done = self.judge("--policy", "f16", "--rows", 3, "--json", "j.json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(json.loads((self.cwd / "j.json").read_text())["judged"], judged)
        for row, status in ((2, 1), (3, 0), (4, 1)):
            block = Block(to_half, "<f2")
            block.out[row * block.e + 1] += 0.25
            self.save(block)
            done = self.judge("--policy", "f16", "--rows", 3)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            if status:
                self.assertIn(f"first      out[{row // 3},{row % 3},1,0] = ", done.stdout)
                self.assertIn("1 element outside, 11 inside", done.stdout)
        for row, status in ((3, 0), (4, 1)):
            block = Block(to_half, "<f2")
            block.stages["q"][row][0] += 1
            self.save(block, stages=True)
            self.assertEqual(self.judge("--policy", "f16", "--rows", 3).returncode, status)
        self.refused(*self.words, "--heads", 2, "--policy", "f16", "--rows", 0, says=["--rows"])

    def test_the_first_stage_outside_is_named(self):
        block = Block(to_half, "<f2")
        self.save(block, stages=True)
        done = self.judge("--policy", "f16")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("held: 120 elements inside", done.stdout)
        block.stages["v"][1][2] += 1
        self.save(block, stages=True)
        done = self.judge("--policy", "f16")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("first      v[0,1,1,0] = ", done.stdout)

    def test_the_stage_is_explained(self):
        block = Block(to_half, "<f2")
        block.out[9] += 0.25
        self.save(block)
        text = self.judge("--policy", "f16").stdout
        self.assertIn("  where      out: the one where ", text)
        self.assertNotIn("  stages ", text)  # none were given
        block = Block(to_half, "<f2")
        block.stages["v"][1][2] += 1
        self.save(block, stages=True)
        done = self.judge("--policy", "f16", "--json", "j.json")
        self.assertIn("  stages     q, k lie within their bounds; 1 of 24 v are out of theirs, first v[0,1,1,0] = ", done.stdout)
        self.assertIn("  stage      v, by: the first that is given and out of its bound", done.stdout)
        said = json.loads((self.cwd / "j.json").read_text())["explanation"]
        self.assertEqual([(stage["name"], stage["wrong"]) for stage in said["stages"]][:3], [("q", 0), ("k", 0), ("v", 1)])
        self.assertGreater(said["stages"][2]["first"]["ratio"] if said["stages"][2]["first"]["ratio"] != "inf" else 2, 1)
        # A right result is not explained.
        self.save(Block(to_half, "<f2"), stages=True)
        self.assertNotIn("stage ", self.judge("--policy", "f16").stdout.replace("stages", ""))

    def test_tokens_misread_after_a_transfer(self):
        """A packed copy does not show how they lay; the array does."""
        block = Block(to_half, "<f2")
        b, l, e = block.samples, block.l, block.e
        # The rows that it read in turn lay tokens first: row n is sample n % b, token n // b of the given array.
        given = [None] * (b * l)
        for n in range(b * l):
            given[n % b * l + n // b] = block.row(n)
        write_npz(self.cwd / "out.npz", **block.outputs(stages=True))
        write_npz(self.cwd / "in.npz", **(block.inputs() | {"x": Array((b, l, e), sum(given, []), "<f2")}))
        done = self.judge("--policy", "f16")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("tokens that came before samples read as if they lay behind them", done.stdout)
        self.assertIn("  stage      reading, by: tokens that came before samples", done.stdout)
        # The same tensor as an array [tokens, batch, e].
        by_tokens = sum((given[s * l + i] for i in range(l) for s in range(b)), [])
        write_npz(self.cwd / "in.npz", **(block.inputs() | {"x": Array((l, b, e), by_tokens, "<f2")}))
        done = self.judge("--policy", "f16", "--layout", "x=lbe")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("  in memory  x has strides ", done.stdout)
        self.assertIn("  stage      reading, by: ", done.stdout)

    def test_a_contract_that_permits_several_ways(self):
        self.save(Block(to_half, "<f2"))
        self.refused(*self.words, "--heads", 2, "--policy", "f16", "--contract", "projections=apart", says=["projections"])
        (self.cwd / "c.json").write_text(json.dumps({"contract": {"mha": {"projections": ["rounded", "unrounded"], "heads": ["rounded", "unrounded"]}}}))
        done = self.judge("--policy", "f16", "--contract", "c.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_does_not_fit_is_one_sentence(self):
        block = Block(to_single, "<f4")
        self.save(block)
        self.refused(*self.words, "--policy", "f32", says=["mha needs --heads N"])
        self.refused(*self.words, "--policy", "f32", "--heads", 3, says=["w_q is f32 [4, 4]: it must be [3 x head_dim, 4]"])
        self.refused(*self.words, "--policy", "f16", "--heads", 2, says=["which is no f16", "storage=f16"])
        self.refused(*self.words, "--policy", "f32", "--heads", 2, "--softcap", 5, says=["--softcap is of attention", "--op attention"])
        self.refused("judge", "--inputs", "in.npz", "--outputs", "out.npz", "--policy", "f32", "--w_q", "w_q", says=["--w_q is of mha"])
        self.refused(*self.words, "--policy", "f32,gemms=f16", "--heads", 2, says=["'gemms' matches no stage of mha"])
        self.refused(*self.words, "--policy", "f32", "--heads", 2, "--layout", "bshd", says=["--layout bshd: each item must be ble or lbe"])
        for change, says in (({"w_out": None}, "the inputs hold no array w_out"),
                             ({"w_k": None}, "the inputs hold no w_k"),
                             ({"memory": Array((2, 5, 3), [0.0] * 30)}, "memory is f32 [2, 5, 3]: it must be [2, 5, 4]"),
                             ({"mask": Array((3, 3), [1.0] * 9)}, "an array mask that nothing asks for"),
                             ({"keep": Array((3, 4), [True] * 12, "|b1")}, "it must broadcast to the scores, [B,H,L,S] = [2, 2, 3, 3]"),
                             ({"kv_lengths": Array((2,), [3, 4], "<i4")}, "kv_lengths[1] is 4: a length must be in 0..3"),
                             ({"key_padding": Array((3, 2), [True] * 6, "|b1")}, "key_padding must be bool [2, 3]"),
                             ({"w_v": Array((4, 4), [math.nan] * 16)}, "w_v[0,0] is nan: nothing is known"),
                             ({"x": Array((2, 3, 4), [math.inf] * 24)}, "x[0,0,0] is inf: nothing is known"),
                             ({"b_out": Array((3,), [1.0] * 3)}, "b_out is f32 [3]: it must be [4]")):
            self.save(block, **change)
            self.refused(*self.words, "--policy", "f32", "--heads", 2, says=[says])
        self.save(block)
        whole = (self.cwd / "in.npz").read_bytes()
        for damaged in (whole[:len(whole) // 2], whole[:40], b"", whole.replace(b"NUMPY", b"NUMPI")):
            (self.cwd / "in.npz").write_bytes(damaged)
            self.refused(*self.words, "--policy", "f32", "--heads", 2, says=["in.npz"])

    def test_saved_outputs_beside_a_subject(self):
        (self.cwd / "saved").mkdir()
        block = Block(to_half, "<f2")
        write_npz(self.cwd / "saved/good.npz", **block.inputs(), **block.outputs())
        words = ("compare", "saved/", "builtin:mha-explicit", "--op", "mha", "--policy", "f16", "--heads", 2)
        done = self.attest(*words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        block.out[5] += 1
        write_npz(self.cwd / "saved/wrong.npz", **block.inputs(), **block.outputs())
        done = self.attest(*words, "--json", "s.json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([call["verdict"] for call in json.loads((self.cwd / "s.json").read_text())["calls"]], ["pass", "fail"])
        done = self.attest("compare", "fault:mha-bias-missing", "saved/", "--op", "mha", "--policy", "f16", "--heads", 2)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)


class Verbs(Cli):
    def test_bound(self):
        problem = "op=mha b=1 l=8 m=8 e=32 heads=4 kv_heads=4 head_dim=8 dtype=f16 self=1 biases=all weights=dense seed=7"
        done = self.attest("bound", problem, "--policy", "f16", "--json", "b.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("  q          256 elements: two kernels atol=", done.stdout)
        said = json.loads((self.cwd / "b.json").read_text())
        self.assertEqual((said["elements"], said["undetermined"]), (256, 0))
        self.assertEqual([stage["stage"] for stage in said["stages"]], ["q", "k", "v", "heads"])
        self.assertGreater(said["two_kernels"]["sum_atol_alone"]["atol"], said["radius"]["largest"])
        # A weaker promise permits more.
        wider = json.loads(self.attest("bound", problem, "--policy", "f16,gemm=f16", "--json", "-").stdout)
        self.assertGreater(wider["radius"]["median"], 2 * said["radius"]["median"])
        self.refused("bound", problem, "--policy", "f32", says=["dtype=f16", "storage=f32"])
        self.refused("bound", "op=mha b=0 l=8 m=8", "--policy", "f32", says=["b=0 must be an integer in 1..4096"])
        self.refused("bound", "op=mha heads=3 kv_heads=2", "--policy", "f32", says=["must be a multiple of kv_heads=2"])

    def test_bound_of_inputs_that_were_saved(self):
        block = Block(to_half, "<f2")
        words = ("bound", "--op", "mha", "--heads", 2, "--inputs", "in.npz", "--policy", "f16")
        write_npz(self.cwd / "in.npz", **block.inputs())
        done = self.attest(*words, "--json", "b.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("  call       mha b=2 l=3 m=3 e=4 heads=2", done.stdout)
        self.assertIn("these numbers are for the values that were saved alone", done.stdout)
        said = json.loads((self.cwd / "b.json").read_text())
        self.assertEqual((said["op"], said["elements"], [stage["stage"] for stage in said["stages"]]), ("mha", 24, ["q", "k", "v", "heads"]))
        self.assertNotIn("problem", said)
        # Results in the same file say nothing; what nothing asks for is refused as by judge.
        write_npz(self.cwd / "in.npz", **block.inputs(), **block.outputs(stages=True))
        again = json.loads(self.attest(*words, "--json", "-").stdout)
        self.assertEqual(again["two_kernels"], said["two_kernels"])
        write_npz(self.cwd / "in.npz", **block.inputs(), mask=Array((3, 3), [1.0] * 9))
        self.refused(*words, says=["an array mask that nothing asks for"])
        write_npz(self.cwd / "in.npz", **block.inputs())
        self.refused("bound", "--policy", "f16", says=["bound needs PROBLEM", "--inputs FILE"])
        self.refused("bound", "op=mha l=2 m=2 e=2 dtype=f16", "--inputs", "in.npz", "--policy", "f16", says=["--inputs is of saved inputs"])
        self.refused(*words[:3], "--inputs", "in.npz", "--policy", "f16", says=["mha needs --heads N"])

    def test_stats(self):
        done = self.attest("stats", "builtin:mha-fused", "--cases", 500, "--json", "s.json")
        self.assertEqual(done.returncode, 0, done.stderr)
        fields = {field["name"]: field for field in json.loads((self.cwd / "s.json").read_text())["fields"]}
        self.assertEqual(sum(value["count"] for value in fields["weights"]["values"]), 500)
        self.assertIn("padding         none ", done.stdout)
        narrowed = json.loads(self.attest("stats", "builtin:mha-fused", "--cases", 200, "--assume", "causal==1 && e<=8", "--json", "-").stdout)
        causal = {value["value"]: value["count"] for field in narrowed["fields"] if field["name"] == "causal" for value in field["values"]}
        self.assertEqual(causal, {"0": 0, "1": 200})

    def test_compare(self):
        words = ("--cases", 60, "--seed", 1, "--jobs", 1, "--policy", "f16", "--shrink-budget", 40)
        for a, b in (("explicit", "separate"), ("fused", "explicit"), ("separate", "fused")):
            done = self.attest("compare", f"builtin:mha-{a}", f"builtin:mha-{b}", *words, "-o", f"{a}-{b}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("no difference beyond both bounds", done.stdout)
        done = self.attest("compare", "builtin:mha-fused", "fault:mha-bias-missing", *words[:2], "--assume", "e<=4 && l<=2", *words[2:],
                           "-o", "there")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("B is outside its own bound", done.stdout)
        self.assertIn("A          ", done.stdout)
        self.assertEqual(self.attest("replay", "there/corpus").returncode, 0)
        file = next((self.cwd / "there/corpus").rglob("*.json"))
        self.refused("export", file, "--to", "python", says=["two subjects"])
        self.refused("compare", "builtin:mha-fused", "builtin:fused", "--op", "mha", says=["builtin:fused does not offer the operation mha"])


class Reproducers(Cli):
    """Those of the corpus: one a fault."""

    def files(self):
        self.assertGreaterEqual(len(CORPUS), 6)
        return {file.parent.name.removeprefix("fault_mha-"): file for file in CORPUS
                if json.loads(file.read_text())["property"] == "policy-bound"}

    def resealed(self, file, change):
        text = file.read_text()
        head = text[:text.rindex('  "digest"')]
        changed = change(head)
        self.assertNotEqual(head, changed)
        to = self.cwd / "entry.json"
        to.write_text(f'{changed}  "digest": "{digest(changed.encode())}"\n}}\n')
        return to

    def test_certify(self):
        files = self.files()
        self.assertGreaterEqual(len(files), 4, files)
        for fault, file in files.items():
            done = self.attest("certify", file, "--json", "proof.json")
            self.assertEqual(done.returncode, 0, fault + done.stdout + done.stderr)
            self.assertIn("no implementation that keeps this contract can give out[", done.stdout)
            proof = json.loads((self.cwd / "proof.json").read_text())
            self.assertEqual(proof["outcome"], "stands")
            self.assertFalse(proof["rounded_lo"] <= proof["value"] <= proof["rounded_hi"], proof)
            self.assertEqual([way["outcome"] for way in proof["ways"]], ["stands"] * len(proof["ways"]))

    def test_a_tampered_file_does_not_stand_or_is_refused(self):
        file = next(iter(self.files().values()))
        proof = json.loads(self.attest("certify", file, "--json", "-").stdout)

        def with_value(text):
            return lambda head: re.sub(r'("seen".*?"got": )[^,]+', lambda m: m.group(1) + text, head, count=1, flags=re.S)
        done = self.attest("certify", self.resealed(file, with_value(repr(proof["rounded_lo"]))))
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertTrue(done.stdout.startswith("does not stand "), done.stdout)
        self.refused("certify", self.resealed(file, with_value("0.123456789")), says=["entry.json", "0.123456789 is no number of"])
        self.refused("certify", self.resealed(file, lambda head: re.sub(r'("seen".*?"index": \[\s*)[01]', r"\g<1>7", head, count=1, flags=re.S)),
                     says=["entry.json", "element [7,"])
        (self.cwd / "entry.json").write_text(file.read_text().replace('"seed"', '"sEed"').replace('"subject"', '"subjekt"', 1))
        self.refused("certify", "entry.json", says=["entry.json", "digest"])

    def test_other_laws_are_not_covered(self):
        exact = [file for file in CORPUS if json.loads(file.read_text())["property"].startswith(("block-", "guards"))]
        for file in exact[:3]:
            done = self.attest("certify", file)
            self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
            self.assertTrue(done.stdout.startswith("not covered "), done.stdout)

    def test_npz_is_judged_as_the_file_was(self):
        for fault, file in self.files().items():
            self.assertEqual(self.attest("export", file, "--to", "npz", "-o", "x.npz").returncode, 0)
            with zipfile.ZipFile(self.cwd / "x.npz") as archive:
                manifest, names = json.loads(archive.read("manifest.json")), archive.namelist()
            self.assertTrue({"x.npy", "w_q.npy", "w_k.npy", "w_v.npy", "w_out.npy", "out.npy"} <= set(names), names)
            problem = manifest["problem"]
            words = ["--causal", "--align", problem.get("align", "top_left")] if problem.get("causal") else []
            done = self.attest("judge", "--op", "mha", "--inputs", "x.npz", "--outputs", "x.npz", "--policy", manifest["contract"]["policy"],
                               "--heads", problem["heads"], "--kv-heads", problem["kv_heads"], "--scale", float.fromhex(manifest["scale"]),
                               *words)
            self.assertEqual(done.returncode, 1, fault + done.stdout + done.stderr)

    def test_issue(self):
        file = next(iter(self.files().values()))
        script = self.attest("export", file, "--to", "python").stdout
        self.assertIn("# law: out lies in [lo, hi] of docs/mha.md", script)
        self.assertIn("# what an attention block means, in float64, rounded where its contract rounds", script)
        self.assertIn(script, self.attest("export", file, "--to", "issue").stdout)

    @unittest.skipUnless(HAS_NUMPY, "no numpy")
    def test_scripts_show_the_failure_with_numpy_alone(self):
        for fault, file in self.files().items():
            seen = json.loads(file.read_text())["seen"]["witness"]
            self.assertEqual(self.attest("export", file, "--to", "python", "-o", "script.py").returncode, 0)
            done = subprocess.run([PYTHON, "-I", "script.py"], cwd=self.cwd, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, fault + done.stderr)
            self.assertEqual(done.stderr, "", fault)
            printed = dict(re.findall(r"^(expected|got) +(\S+)$", done.stdout, re.M))
            expected, got = float(printed["expected"]), float(printed["got"])
            slack = 1e-3 * abs(float(seen["got"]))  # NumPy prints as many digits as its type needs
            self.assertAlmostEqual(got, float(seen["got"]), delta=slack, msg=fault)
            self.assertNotEqual(got, expected, fault)
            slack = 1e-6 * abs(expected)
            self.assertTrue(float(seen["lo"]) - slack <= expected <= float(seen["hi"]) + slack, (fault, expected, seen))

    @unittest.skipUnless(HAS_NUMPY, "no numpy")
    def test_a_stage_is_shown_from_those_before(self):
        subject = ROOT / "examples/mha_subject.py:heads_transposed"
        done = self.attest("check", subject, "--python", PYTHON, "--property", "stage-bound", "--cases", 200, "--jobs", 1, "--corpus", "c",
                           "--assume", "e<=6 && l<=4", "--shrink-budget", 60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"witness +heads\[")
        file = next((self.cwd / "c").rglob("*.json"))
        seen = json.loads(file.read_text())["seen"]["witness"]
        # The inputs alone exclude it, whatever projections leave of them.
        done = self.attest("certify", file)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no implementation that keeps this contract can give heads[", done.stdout)
        # Where they do not, what the subject gave of q, k and v may, and that is in no file.
        text = file.read_text()
        head = text[:text.rindex('  "digest"')]
        expected = re.search(r'"expected": ([^,\n]+)', head).group(1)
        head = re.sub(r'"got": [^,\n]+', f'"got": {expected}', head, count=1)
        (self.cwd / "near.json").write_text(f'{head}  "digest": "{digest(head.encode())}"\n}}\n')
        done = self.attest("certify", "near.json", "--json", "near-proof.json")
        self.assertEqual(done.returncode, 125, done.stdout + done.stderr)
        self.assertIn("not covered     stage-bound: the inputs alone do not exclude heads[", done.stdout)
        self.assertEqual(json.loads((self.cwd / "near-proof.json").read_text())["outcome"], "not_covered")
        done = self.attest("export", file, "--to", "python", "-o", "script.py", "--subject", subject, "--python", PYTHON)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("each stage from those before as the block gave them", (self.cwd / "script.py").read_text())
        done = subprocess.run([PYTHON, "script.py"], cwd=self.cwd, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        printed = {name: float(number) for name, number in re.findall(r"^(expected|got) heads +(\S+)$", done.stdout, re.M)}
        self.assertAlmostEqual(printed["got"], float(seen["got"]), delta=1e-3 * abs(float(seen["got"])))
        self.assertAlmostEqual(printed["expected"], float(seen["expected"]), delta=1e-3 * abs(float(seen["expected"])) + 1e-6)
        self.assertNotEqual(printed["got"], printed["expected"])
        # The function itself is wrong: without its defect the results agree.
        mended = (self.cwd / "script.py").read_text().replace("script.heads_transposed(", "script.plain(")
        (self.cwd / "mended.py").write_text(mended)
        done = subprocess.run([PYTHON, "mended.py"], cwd=self.cwd, capture_output=True, text=True)
        printed = {name: float(number) for name, number in re.findall(r"^(expected|got) heads +(\S+)$", done.stdout, re.M)}
        self.assertAlmostEqual(printed["got"], printed["expected"], delta=1e-3 * abs(printed["expected"]) + 1e-6, msg=done.stdout)
        # And npz holds the stages, which judge names.
        self.assertEqual(self.attest("export", file, "--to", "npz", "-o", "x.npz", "--subject", subject, "--python", PYTHON).returncode, 0)
        with zipfile.ZipFile(self.cwd / "x.npz") as archive:
            manifest, names = json.loads(archive.read("manifest.json")), archive.namelist()
        self.assertTrue({"q.npy", "k.npy", "v.npy", "heads.npy"} <= set(names), names)
        problem = manifest["problem"]
        (self.cwd / "c.json").write_text(json.dumps(manifest["contract"]))
        words = ["--causal"] if problem.get("causal") else []
        done = self.attest("judge", "--op", "mha", "--inputs", "x.npz", "--outputs", "x.npz", "--policy", manifest["contract"]["policy"],
                           "--contract", "c.json", "--heads", problem["heads"], "--kv-heads", problem["kv_heads"], "--scale",
                           float.fromhex(manifest["scale"]), *words)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("first      heads[", done.stdout)

    @unittest.skipUnless(HAS_NUMPY, "no numpy")
    def test_a_projection_that_is_wrong_is_certified(self):
        (self.cwd / "kernel.py").write_text(f"""
import sys
sys.path.insert(0, {str(ROOT / "examples")!r})
import attest
from mha_subject import block, options

@attest.subject(**options)
def without_b_k(x, w_q, w_k, w_v, w_out, *, b_q=None, b_k=None, b_v=None, b_out=None, heads, kv_heads, scale, stages=()):
    return block(x, None, (w_q, w_k, w_v, w_out), (b_q, None, b_v, b_out), heads, kv_heads, scale, False, None, stages,
                 lambda o: o.swapaxes(1, 2))
""")
        done = self.attest("check", "kernel.py:without_b_k", "--python", PYTHON, "--property", "stage-bound", "--cases", 200, "--jobs", 1, "--corpus",
                           "c", "--assume", "e<=6 && l<=3 && biases==all", "--shrink-budget", 40)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        file = next((self.cwd / "c").rglob("*.json"))
        done = self.attest("certify", file, "--json", "proof.json")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("no implementation that keeps this contract can give k[0,", done.stdout)
        self.assertEqual(json.loads((self.cwd / "proof.json").read_text())["tensor"], "k")


if __name__ == "__main__":
    run()
