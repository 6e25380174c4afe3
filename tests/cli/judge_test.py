#!/usr/bin/env python3
"""judge, bound and values=file: on the command line.

Usage: judge_test.py ATTEST [unittest option...]
"""
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from saved_tensors import Array, Call, to_half, to_single, write_npz, write_polygraphy_inputs, write_polygraphy_outputs

ATTEST = None


class Cli(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.cwd = Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def attest(self, *words):
        env = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"}
        return subprocess.run([ATTEST, *map(str, words)], cwd=self.cwd, env=env, capture_output=True, text=True, timeout=600)

    def gives(self, status, *words, says=()):
        done = self.attest(*words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for word in says:
            self.assertIn(word, done.stdout + done.stderr)
        if status not in (0, 1):
            self.assertTrue(done.stderr.startswith("attest: "), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done


class Judge(Cli):
    def setUp(self):
        super().setUp()
        self.call = Call()
        write_npz(self.cwd / "in.npz", **self.call.arrays())
        write_npz(self.cwd / "good.npz", zipfile.ZIP_DEFLATED, out=self.call.out())
        write_npz(self.cwd / "bad.npz", out=self.call.out(scale=1))

    def judge(self, status, *words, inputs="in.npz", outputs="good.npz", says=()):
        return self.gives(status, "judge", "--inputs", inputs, "--outputs", outputs, "--policy", "f32", *words, says=says)

    def test_right_and_wrong(self):
        self.judge(0, says=["held: 24 elements"])
        self.judge(1, outputs="bad.npz", says=["FAILED", "first      out[0,0,0,0]", "expected", "permitted", "worst", "outside"])
        self.judge(0, "--scale", 1, outputs="bad.npz")
        self.judge(1, "--causal")

    def test_causal_and_half(self):
        call = Call(round_to=to_half, descr="<f2", causal=True)
        write_npz(self.cwd / "in.npz", **call.arrays())
        write_npz(self.cwd / "out.npz", out=call.out())
        half = ["--policy", "f16"]
        self.judge(0, "--causal", *half, outputs="out.npz")
        self.judge(1, *half, outputs="out.npz")
        self.judge(1, "--causal", "--align", "bottom_right", *half, outputs="out.npz")

    def held_if(self, *words, **files):
        done = self.judge(1, *words, **files)
        found = [line.split("held if", 1)[1].strip() for line in done.stdout.splitlines() if line.startswith("  held if ")]
        object = json.loads(self.judge(1, *words, "--json", "-", **files).stdout)
        self.assertEqual(found, [f"{other['words']} ({other['options']})" for other in object["held_if"]])
        return found

    def test_an_option_that_was_forgotten_is_told(self):
        call = Call(h=2, lq=3, lk=5, causal=True)
        write_npz(self.cwd / "in.npz", **call.arrays())
        write_npz(self.cwd / "causal.npz", out=call.out())
        self.assertEqual(self.held_if(outputs="causal.npz"), ["the call is causal (--causal)"])
        self.assertEqual(self.held_if("--causal", "--align", "bottom_right", outputs="causal.npz"),
                         ["the diagonal begins at the top left (without --align)"])
        corner = call.out(corner=2)
        write_npz(self.cwd / "corner.npz", out=corner)
        self.assertEqual(self.held_if(outputs="corner.npz"),
                         ["the call is causal, and its diagonal begins at the bottom right (--causal --align bottom_right)"])
        self.assertEqual(self.held_if("--causal", outputs="corner.npz"),
                         ["the diagonal begins at the bottom right (--align bottom_right)"])
        write_npz(self.cwd / "all.npz", out=Call(h=2, lq=3, lk=5).out())
        self.assertEqual(self.held_if("--causal", outputs="all.npz"), ["the call is not causal (without --causal)"])

    def test_a_scale_that_was_forgotten_is_told(self):
        self.assertEqual(self.held_if(outputs="bad.npz"), ["the scale is 1 (--scale 1)"])
        self.assertEqual(self.held_if("--scale", 2), ["the scale is 1/sqrt(D) (without --scale)"])

    def test_a_layout_that_was_forgotten_is_told(self):
        call = Call(h=4, lq=4, lk=4, d=4)
        inside = lambda x: Array(x.shape, [x.values[(h * 4 + i) * 4 + c] for i in range(4) for h in range(4) for c in range(4)])
        write_npz(self.cwd / "in.npz", **{n: inside(x) for n, x in call.arrays().items()})
        write_npz(self.cwd / "out.npz", out=inside(call.out()))
        write_npz(self.cwd / "mixed.npz", out=call.out())
        self.assertEqual(self.held_if(outputs="out.npz"), ["all tensors are [B,L,H,D] (--layout bshd)"])
        self.assertEqual(self.held_if(outputs="mixed.npz"),
                         ["q, k and v are [B,L,H,D], and out is [B,H,L,D] (--layout q=bshd,k=bshd,v=bshd)"])

    def test_another_order_of_key_value_heads_is_told(self):
        call = Call(h=4, lq=3, lk=5, d=4)
        size = call.lk * call.d
        few = lambda data: data[:2 * size]
        k, v = few(call.k), few(call.v)
        for name, order in (("grouped", (0, 0, 1, 1)), ("interleaved", (0, 1, 0, 1))):
            call.k, call.v = ([x for h in order for x in data[h * size:(h + 1) * size]] for data in (k, v))
            write_npz(self.cwd / f"{name}.npz", out=call.out())
        write_npz(self.cwd / "in.npz", q=call.arrays()["q"], k=Array((1, 2, 5, 4), k), v=Array((1, 2, 5, 4), v))
        self.judge(0, outputs="grouped.npz")
        self.judge(0, "--kv-order", "interleaved", outputs="interleaved.npz")
        self.assertEqual(self.held_if(outputs="interleaved.npz"),
                         ["query head h reads key/value head h modulo their number (--kv-order interleaved)"])
        self.assertEqual(self.held_if("--kv-order", "interleaved", outputs="grouped.npz"),
                         ["query heads that read one key/value head lie side by side (without --kv-order)"])
        self.judge(2, "--kv-order", "any", says=["--kv-order any"])

    def test_an_array_that_was_ignored_is_told(self):
        call = Call(b=2, h=1, lk=5)
        whole = call.out()
        for name, array, shown in (("m", Array((5,), [True] * 4 + [False], "|b1"), "m is the mask of open keys (--keep m)"),
                                   ("n", Array((2,), [4, 4], "<i4"),
                                    "n is the number of keys of each sample (--kv_lengths n)")):
            write_npz(self.cwd / "in.npz", **call.arrays(), **{name: array})
            write_npz(self.cwd / "out.npz", out=call.out(open_keys=4))
            self.assertEqual(self.held_if("--ignore", name, outputs="out.npz"), [shown])
            write_npz(self.cwd / "out.npz", out=whole)
            self.judge(0, "--ignore", name, outputs="out.npz")

    def test_of_what_is_wrong_nothing_is_told(self):
        """Whatever was said: one element that is off, an exp that is poor, and intervals too long to say anything."""
        for call in (Call(h=4, lq=4, lk=4, d=4), Call(h=2, lq=3, lk=5, causal=True)):
            write_npz(self.cwd / "in.npz", **call.arrays())
            for out in (call.out(), call.out(exp=lambda x: math.exp(x) * (1 + (x < -0.5) * 2.0**-12))):
                if out.values == call.out().values:
                    out.values[5] += 0.01
                write_npz(self.cwd / "wrong.npz", out=out)
                for words in ([], ["--causal"], ["--scale", 1], ["--layout", "bhsd"]):
                    self.assertEqual(self.held_if(*words, outputs="wrong.npz"), [])

    def test_intervals_too_long_to_say_anything_tell_nothing(self):
        """Large scores whose keys are the same: whatever the scale, each value counts as much, and more may be lost the larger it is."""
        call = Call(h=1, lq=2, lk=8, d=4)
        call.q, call.k = [x * 1e4 for x in call.q], call.k[:4] * 8
        write_npz(self.cwd / "in.npz", **call.arrays())
        for error, told in ((1e-4, []), (2e-3, ["the scale is 1/sqrt(D) (without --scale)"])):
            off = call.out()
            off.values[0] += error
            write_npz(self.cwd / "off.npz", out=off)
            self.judge(0, outputs="off.npz")
            self.assertEqual(self.held_if("--scale", 1e-7, outputs="off.npz"), told)

    def test_of_other_operations_too(self):
        row = [1.0, 2.0, 4.0, 9.0]
        def norm(epsilon, mean):
            variance = sum((x - mean) ** 2 for x in row) / 4
            return Array((1, 4), [(x - mean) / math.sqrt(variance + epsilon) for x in row])
        write_npz(self.cwd / "in.npz", x=Array((1, 4), row))
        for epsilon, mean, said, told in ((1e-3, 4, [], ["epsilon is 1e-3 (--epsilon 1e-3)"]),
                                          (1e-5, 0, [], ["it is RMSNorm: no mean is taken off (--rms)"]),
                                          (1e-5, 4, ["--rms"], ["a mean is taken off (without --rms)"]),
                                          (0.1, 4, [], [])):
            write_npz(self.cwd / "out.npz", out=norm(epsilon, mean))
            self.assertEqual(self.held_if("--op", "layer_norm", *said, outputs="out.npz"), told)

    def test_lse_is_judged(self):
        c = self.call
        lse = []
        for head in range(c.h):
            for i in range(c.lq):
                s = [c.d ** -0.5 * sum(c.q[(head * c.lq + i) * c.d + x] * c.k[(head * c.lk + j) * c.d + x] for x in range(c.d))
                     for j in range(c.lk)]
                lse.append(math.log(sum(map(math.exp, s))))
        for change, status in ((0, 0), (1e-3, 1)):
            lse[4] += change
            write_npz(self.cwd / "both.npz", out=c.out(), lse=Array((1, c.h, c.lq), lse))
            self.judge(status, outputs="both.npz", says=["lse[0,1,1]" if status else "30 elements"])

    def test_json(self):
        object = json.loads(self.judge(1, "--json", "-", outputs="bad.npz").stdout)
        self.assertEqual((object["verb"], object["verdict"], object["exit"]), ("judge", "fail", 1))
        self.assertEqual(object["witness"]["tensor"], "out")
        self.assertGreater(object["survey"]["outside"], 0)
        object = json.loads(self.judge(0, "--json", "-").stdout)
        self.assertEqual((object["verdict"], object["judged"], object["exit"]), ("pass", 24, 0))

    def stored(self, *words, outputs="bad.npz", inputs="in.npz", policy="f32"):
        done = self.gives(1, "judge", "--inputs", inputs, "--outputs", outputs, "--policy", policy, *words, "--json", "-")
        return json.loads(done.stdout).get("reproducer"), done.stderr

    def test_a_failure_is_stored_proven_replayed_and_written_up(self):
        entry, _ = self.stored()
        self.assertTrue(entry.startswith("attest-out/judge/corpus/saved_bad.npz/"), entry)
        self.judge(1, outputs="bad.npz", says=["stored     " + entry])
        self.gives(0, "certify", entry, says=["stands", "out[0,0,0,0]"])
        self.gives(0, "replay", entry, says=["1 as expected"])
        self.gives(1, "replay", entry, "--expect-pass", says=["expected to pass, and fails"])
        # A kernel that is right gives other numbers; one with the fault gives these.
        self.gives(1, "replay", entry, "--subject", "builtin:explicit", says=["1 mended"])
        self.gives(1, "replay", entry, "--subject", "fault:scale-missing", "--expect-pass", says=["expected to pass, and fails"])
        issue = self.gives(0, "export", entry, "--to", "issue").stdout
        self.assertIn("# saved:bad.npz, f32: wrong result", issue)
        self.assertIn("expected", issue)
        self.gives(0, "export", entry, "--to", "npz", "-o", "again.npz")
        self.judge(1, inputs="again.npz", outputs="bad.npz")
        self.judge(0, inputs="again.npz")
        self.gives(4, "explain", entry, says=["holds saved numbers"])

    def test_what_holds_is_not_stored(self):
        self.judge(0, "--corpus", "kept")
        self.assertFalse((self.cwd / "kept").exists())
        self.assertEqual(self.stored("--corpus", "none"), (None, ""))
        self.assertFalse((self.cwd / "attest-out").exists())

    def test_an_entry_says_all_of_the_call(self):
        """Masks, options, tensors of two types, numbers that are not finite, many numbers: the number is as wrong in the entry."""
        for name, call, extra, words in (
                ("keep", Call(), {"keep": Array((3, 5), [True, False, True, True, True] * 3, "|b1")}, ["--softcap", 2]),
                ("bias", Call(round_to=to_half, descr="<f2"), {"bias": Array((1, 2, 1, 5), [0.1 * n for n in range(10)])}, ["--causal"]),
                ("lengths", Call(b=2), {"kv_lengths": Array((2,), [3, 4], "<i4")}, ["--window-left", 1, "--align", "bottom_right"]),
                ("many", Call(h=4, lq=64, lk=64, d=16), {}, ["--causal"])):
            with self.subTest(name):
                policy = "f16" if name == "bias" else "f32"
                write_npz(self.cwd / "in.npz", **call.arrays(), **extra)
                out = call.out()
                out.values[9] += 3
                write_npz(self.cwd / "wrong.npz", out=out)
                entry, notes = self.stored(*words, "--corpus", name, outputs="wrong.npz", policy=policy)
                self.assertEqual(notes, "")
                self.assertEqual(len(list((self.cwd / name).rglob("values-*.npz"))), int(name == "many"))
                self.gives(0, "certify", entry, says=["stands"])
                self.gives(0, "replay", entry)
                self.gives(0, "export", entry, "--to", "npz", "-o", "again.npz")
                said = [json.loads(self.gives(1, "judge", "--inputs", inputs, "--outputs", "wrong.npz", "--policy", policy, *words,
                                              "--corpus", "none", "--json", "-").stdout) for inputs in ("in.npz", "again.npz")]
                self.assertEqual(said[0]["witness"], said[1]["witness"])
                self.assertEqual(said[0]["survey"], said[1]["survey"])

    def test_of_norms_the_row_is_stored(self):
        rows, hidden = 40, 512
        x = [to_single(math.sin(n)) for n in range(rows * hidden)]
        out = []
        for row in range(rows):
            one = x[row * hidden:(row + 1) * hidden]
            mean = sum(one) / hidden
            deviation = math.sqrt(sum((y - mean) ** 2 for y in one) / hidden + 1e-5)
            out += [(y - mean) / deviation for y in one]
        write_npz(self.cwd / "in.npz", x=Array((rows, hidden), x))
        out[7 * hidden + 3] += 0.01
        write_npz(self.cwd / "wrong.npz", out=Array((rows, hidden), out))
        entry, _ = self.stored("--op", "layer_norm", outputs="wrong.npz")
        self.assertIn("rows=1 hidden=512", json.loads((self.cwd / entry).read_text())["text"])
        self.gives(0, "certify", entry, says=["stands", "out[0,3,0,0]"])
        self.gives(0, "replay", entry)

    def test_what_no_problem_says_is_judged_and_not_stored(self):
        call = Call(h=1, lq=300, lk=300, d=1)
        write_npz(self.cwd / "in.npz", **call.arrays(), bias=Array((300, 300), [0] * 90000))
        write_npz(self.cwd / "wrong.npz", out=call.out(scale=3))
        entry, notes = self.stored("--corpus", "kept", outputs="wrong.npz")
        self.assertIsNone(entry)
        self.assertIn("no reproducer is stored: 90000 numbers", notes)

    def test_names_layout_and_masks(self):
        a = self.call.arrays()
        swapped = {n: Array((1, x.shape[2], 2, 4), [x.values[(h * x.shape[2] + i) * 4 + c] for i in range(x.shape[2])
                                                    for h in range(2) for c in range(4)]) for n, x in a.items()}
        out = self.call.out()
        flat = Array((1, 3, 8), [out.values[(h * 3 + i) * 4 + c] for i in range(3) for h in range(2) for c in range(4)])
        write_npz(self.cwd / "in.npz", Q=swapped["q"], K=swapped["k"], V=swapped["v"], m=Array((5,), [True] * 5, "|b1"))
        write_npz(self.cwd / "out.npz", y=flat)
        names = ["--q", "Q", "--k", "K", "--v", "V", "--out", "y", "--layout", "bshd", "--heads", 2]
        self.judge(0, *names, "--keep", "m", outputs="out.npz", says=["keep"])
        self.judge(2, *names, outputs="out.npz", says=["an array m that nothing asks for"])
        self.judge(0, *names, "--ignore", "m", outputs="out.npz")
        write_npz(self.cwd / "in.npz", Q=swapped["q"], K=swapped["k"], V=swapped["v"],
                  m=Array((5,), [False] + [True] * 4, "|b1"))
        self.judge(1, *names, "--keep", "m", outputs="out.npz")

    def test_a_layout_for_each_tensor(self):
        a = self.call.arrays()
        inside = lambda x: Array((1, x.shape[2], 2, 4), [x.values[(h * x.shape[2] + i) * 4 + c] for i in range(x.shape[2])
                                                         for h in range(2) for c in range(4)])
        write_npz(self.cwd / "in.npz", q=inside(a["q"]), k=a["k"], v=inside(a["v"]))
        self.judge(0, "--layout", "q=bshd,k=bhsd,v=bshd")
        self.judge(0, "--layout", "v=bshd,q=bshd", "--heads", 2)
        self.judge(1, "--layout", "v=bshd,q=bshd", outputs="bad.npz")
        self.judge(2, "--layout", "q=bshd", says=["do not fit each other", "--layout"])
        self.judge(2, "--layout", "bshd")
        for wrong in ("q=bshd,bhsd", "q=bsdh", "w=bshd", "q=bshd,q=bshd", "q", "", "bshd,", "=bshd"):
            self.judge(2, "--layout", wrong, says=["--layout", "as in q=bshd,out=bshd"])

    def test_polygraphy(self):
        write_polygraphy_inputs(self.cwd / "in.json", self.call.arrays())
        write_polygraphy_outputs(self.cwd / "out.json", ort={"out": self.call.out()})
        self.judge(0, inputs="in.json", outputs="out.json", says=["24 elements"])
        write_polygraphy_outputs(self.cwd / "two.json", ort={"out": self.call.out()}, trt={"out": self.call.out(scale=1)})
        self.judge(2, inputs="in.json", outputs="two.json", says=["the runners ort, trt", "--runner"])
        self.judge(0, "--runner", "ort", inputs="in.json", outputs="two.json")
        self.judge(1, "--runner", "trt", inputs="in.json", outputs="two.json")
        self.judge(2, "--iteration", 1, inputs="in.json", outputs="out.json", says=["no iteration 1"])
        for option in (["--runner", "ort"], ["--iteration", 1]):
            self.judge(2, *option, says=["an .npz holds one run alone"])

    def test_contract(self):
        """Outputs that hold under the wider promise and not without it."""
        rough = lambda x: math.exp(x) * (1 + (1000 if int(x * 64) % 2 else -1000) * 2.0**-23)
        write_npz(self.cwd / "rough.npz", out=self.call.out(exp=rough))
        self.judge(1, outputs="rough.npz", says=["FAILED"])
        self.judge(1, "--contract", "exp_ulp=20,fold=q+k", outputs="rough.npz", says=["FAILED"])
        self.judge(0, "--contract", "exp_ulp=2048,fold=q+k", outputs="rough.npz", says=["held: 24 elements"])
        (self.cwd / "contract.json").write_text('{"contract": {"exp_ulp": 2048}}')
        self.judge(0, "--contract", "contract.json", outputs="rough.npz", says=["held: 24 elements"])

        subnormal = Call()  # in the last column of v, and 0 in that of the output
        subnormal.v = [to_single(x * 1e-41) if i % 4 == 3 else x for i, x in enumerate(subnormal.v)]
        write_npz(self.cwd / "in.npz", **subnormal.arrays())
        write_npz(self.cwd / "zero.npz", out=Array((1, 2, 3, 4), [0.0 if i % 4 == 3 else x
                                                                  for i, x in enumerate(subnormal.out().values)]))
        self.judge(1, outputs="zero.npz", says=["out[0,0,0,3] = 0"])
        self.judge(0, "--contract", "flush_to_zero=true", outputs="zero.npz", says=["held: 24 elements"])

        self.judge(2, "--contract", "exp_ulps=2", says=["no key 'exp_ulps'"])
        self.judge(2, "--contract", "missing.json", says=["missing.json"])

    def test_bad_words(self):
        for words, word in ((["--layout", "sbhd"], "--layout sbhd"), (["--align", "left"], "--align left"),
                            (["--scale", "one"], "--scale one"), (["--rows", "0"], "--rows 0"), (["--op", "rope"], "--op rope"),
                            (["--policy", "f16"], "which is no f16"), (["--policy", "f99"], "f99"), (["--out", "y"], "no array y")):
            self.judge(2, *words, says=[word])
        self.judge(2, outputs="missing.npz", says=["missing.npz"])
        self.judge(2, outputs="", says=["path of a file is empty"])
        self.judge(2, "--heads", 3, says=["--heads says 3"])
        self.judge(2, "--kv-heads", 3, says=["--kv-heads says 3"])
        self.judge(0, "--heads", 2, "--kv-heads", 2)
        self.judge(2, outputs=".", says=["."])
        self.gives(2, "judge", "--inputs", "in.npz", "--outputs", "good.npz", says=["--policy is needed"])
        self.gives(2, "judge", "--policy", "f32", "--outputs", "good.npz", says=["--inputs FILE is needed"])

    def test_a_report_does_not_replace_the_tensors(self):
        for name in ("in.npz", "good.npz"):
            before = (self.cwd / name).read_bytes()
            self.judge(2, "--json", f"./{name}", says=["holds the saved tensors"])
            self.assertEqual((self.cwd / name).read_bytes(), before)

    def test_nothing_judged_is_no_pass(self):
        call = Call(lk=2, d=1)
        call.k = [1e38] * 4
        call.q = [1e38] * 6
        write_npz(self.cwd / "in.npz", **call.arrays())
        write_npz(self.cwd / "nan.npz", out=Array((1, 2, 3, 1), [float("nan")] * 6))
        self.judge(5, outputs="nan.npz", says=["nothing judged"])

    def test_damaged_files(self):
        whole = (self.cwd / "good.npz").read_bytes()
        for size in range(0, len(whole), 7):
            (self.cwd / "cut.npz").write_bytes(whole[:size])
            self.judge(2, outputs="cut.npz", says=["cut.npz"])

    def test_what_export_writes_it_reads(self):
        self.attest("check", "fault:scale-twice", "--policy", "bf16", "--cases", 300, "--jobs", 1, "--property", "policy-bound",
                    "--assume", "keep==none && bias==none && lengths==none && causal==0 && window_left==-1 && "
                    "window_right==-1 && softcap==0", "--corpus", "corpus")
        entry = next(self.cwd.glob("corpus/*/*.json"))
        self.gives(0, "export", entry, "--to", "npz", "-o", "e.npz")
        problem = dict(item.split("=", 1) for item in json.loads(entry.read_text())["text"].split())
        scale = ["--scale", problem["scale"]] if "scale" in problem else []
        self.gives(1, "judge", "--inputs", "e.npz", "--outputs", "e.npz", "--policy", "bf16", *scale, says=["bf16", "FAILED"])


class Bound(Cli):
    PROBLEM = "b=1 hq=1 hkv=1 lq=4 lk=33 d=8 dv=8 dtype=f16 values=normal:1 seed=7"

    def test_text_and_json(self):
        self.gives(0, "bound", self.PROBLEM, "--policy", "f16",
                   says=["radius", "median", "torch.testing.assert_close", "numpy.testing.assert_allclose", "polygraphy run"])
        object = json.loads(self.gives(0, "bound", self.PROBLEM, "--policy", "f16", "--rtol", "1e-3", "--json", "-").stdout)
        self.assertEqual(object["elements"], 32)
        two, exact = object["two_kernels"], object["exact_reference"]
        self.assertEqual(two["sum"]["rtol"], 1e-3)
        self.assertLess(two["sum"]["atol"], two["sum_atol_alone"]["atol"])
        self.assertLess(exact["sum_atol_alone"]["atol"], two["sum_atol_alone"]["atol"])
        self.assertGreaterEqual(two["either"]["atol"], two["sum"]["atol"])
        self.assertGreaterEqual(two["sum"]["blind"]["largest"], two["sum"]["blind"]["median"])

    def test_of_inputs_that_were_saved(self):
        """The same numbers as of the problem that they are the values of."""
        self.gives(1, "check", "fault:scale-twice", "--problem", self.PROBLEM, "--policy", "f16", "--corpus", "c", "--shrink-budget", 1,
                   "--property", "policy-bound")
        entry = next(self.cwd.glob("c/*/*.json"))
        text = json.loads(entry.read_text())["text"]
        self.gives(0, "export", entry, "--to", "npz", "-o", "e.npz")
        of_problem = json.loads(self.gives(0, "bound", text, "--policy", "f16", "--json", "-").stdout)
        scale = [word for key, word in (item.split("=") for item in text.split()) if key == "scale"]
        of_inputs = json.loads(self.gives(0, "bound", "--inputs", "e.npz", "--policy", "f16", "--json", "-",
                                          *(["--scale", scale[0]] if scale else [])).stdout)
        self.assertEqual(of_inputs["two_kernels"], of_problem["two_kernels"])
        self.assertEqual(of_inputs["shape"]["dtype"], "f16")

    def test_a_wider_policy_is_wider(self):
        atol = lambda policy: json.loads(self.gives(0, "bound", self.PROBLEM, "--policy", policy, "--json", "-").stdout)[
            "two_kernels"]["sum_atol_alone"]["atol"]
        self.assertLess(2 * atol("f16"), atol("f16-all"))

    def test_bad_words(self):
        self.gives(2, "bound", self.PROBLEM, says=["--policy is needed"])
        self.gives(2, "bound", self.PROBLEM, "--policy", "f32", says=["dtype=f16", "storage=f32"])
        self.gives(2, "bound", self.PROBLEM, "--policy", "f16", "--rtol", "1", says=["--rtol 1", "less than 1"])
        self.gives(2, "bound", "b=0.5", "--policy", "f16", says=["b=0.5"])

    def test_an_element_that_is_undetermined_and_may_be_nan_counts_once(self):
        done = self.gives(0, "bound", "b=1 hq=1 hkv=1 lq=16 lk=4 d=4 dv=4 dtype=f16 keep=some_empty seed=3", "--policy", "f16")
        self.assertIn("64 of out: 32 (50 %) undetermined, 0 (0 %) wide, 32 (50 %) may be NaN", done.stdout)
        self.assertIn("of 32 elements no tolerance is safe", done.stdout)

    def test_no_elements(self):
        self.gives(2, "bound", "lq=0 lk=4 dtype=f16", "--policy", "f16", says=["out has no elements", "lq"])

    def test_nothing_bounded(self):
        self.gives(5, "bound", "b=1 hq=1 hkv=1 lq=1 lk=2 d=1 dv=1 dtype=f32 values=constant:0x1p+100 seed=0", "--policy", "f32",
                   says=["no element of out is bounded"])


class CapturedActivations(Cli):
    def setUp(self):
        super().setUp()
        write_npz(self.cwd / "act.npz", **Call(h=4, lq=7, lk=19, d=8).arrays())

    def test_check_shrinks_to_a_reproducer_without_the_file(self):
        self.gives(0, "check", "builtin:fused", "--problem", "values=file:act.npz", "--laws", "all")
        self.gives(1, "check", "fault:scale-twice", "--problem", "values=file:act.npz", "--laws", "all", "--corpus", "corpus",
                   says=["replay corpus/"])
        (self.cwd / "act.npz").unlink()
        entry = next(self.cwd.glob("corpus/*/*.json"))
        self.assertNotIn("file:", json.loads(entry.read_text())["text"])
        self.gives(0, "replay", "corpus", says=["1 as expected"])

    def entry_on_a_file(self):
        """An entry of a fault that takes more than 64 keys to show: too many numbers to be literal. The file lay elsewhere."""
        (self.cwd / "there").mkdir()
        write_npz(self.cwd / "there/big.npz", **Call(h=1, lq=4, lk=100, d=64).arrays())
        self.gives(1, "check", "fault:tail-dropped", "--problem", "values=file:there/big.npz", "--property", "policy-bound",
                   "--corpus", "corpus", "--shrink-budget", 1)
        (self.cwd / "there/big.npz").unlink()
        entry = next(self.cwd.glob("corpus/*/*.json"))
        self.assertIn("values=file:big.npz ", json.loads(entry.read_text())["text"])
        self.assertNotIn("there", entry.read_text())
        return entry

    def test_an_entry_on_a_file_replays_shrinks_and_exports(self):
        entry = self.entry_on_a_file()
        self.gives(0, "replay", "corpus", says=["1 as expected"])
        self.gives(0, "export", entry, "--to", "npz", "-o", "e.npz")
        self.gives(1, "judge", "--inputs", "e.npz", "--outputs", "e.npz", "--policy", "f32", says=["FAILED"])
        self.gives(1, "shrink", entry)

    def test_a_path_comes_from_the_command_line_alone(self):
        beside = self.entry_on_a_file().parent / "big.npz"
        moved = beside.rename(self.cwd / "big.npz")  # where replay is started
        self.refuses(f"{beside.relative_to(self.cwd)} does not exist")
        beside.symlink_to(moved)
        self.refuses("big.npz is a symbolic link")
        beside.unlink()
        moved.rename(beside)
        self.gives(0, "replay", "corpus", says=["1 as expected"])

    def refuses(self, reason):
        done = self.attest("replay", "corpus")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(reason, done.stdout)
        self.assertIn("0 as expected", done.stdout)

    def test_bad_files(self):
        for text, word in (("values=file:missing.npz", "missing.npz does not exist"), ("values=file:act.npz lk=20", "lk=20"),
                           ("values=file:.", "no regular file"), ("values=file:act.npz:2", "act.npz:2")):
            self.gives(2, "check", "builtin:fused", "--problem", text, says=[word])

    def test_fuzz_takes_continue_after_failure(self):
        self.gives(0, "fuzz", "--cases", 5, "--jobs", 1, "--continue-after-failure")


if __name__ == "__main__":
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
