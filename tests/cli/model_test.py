"""attest fuzz, check and replay of ONNX models. Usage: model_test.py ATTEST"""
import base64
import importlib.util
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

for package in ("onnx", "onnxruntime"):
    need(package, "./run test installs it")
import onnx
import report_test
from command_line import ROOT, Cli, run
from onnx import TensorProto, helper

MODELS = ROOT / "tests" / "graph" / "models"
FOUNDING = ROOT / "docs" / "founding" / "S3-model"
os.environ["ATTEST_PYTHON"] = sys.executable

RUNTIME = '''
import os
import numpy as np
import onnxruntime
import attest

@attest.runtime(version="1", builds=("plain", "{build}"))
def own(model, *, build, threads):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    asked = []
    def run(feeds, names):
        got = session.run(names, feeds)
        asked.append({{name: feed.shape for name, feed in feeds.items()}})
        if build != "plain":
            {body}
        return got
    return run
'''


class Model(Cli):
    def setUp(self):
        super().setUp()
        for file in (*MODELS.glob("*.onnx"), *FOUNDING.iterdir()):
            shutil.copy(file, self.cwd)

    def runtime(self, body, build="other"):
        (self.cwd / "own.py").write_text(RUNTIME.format(body=body, build=build))
        return "own.py"

    def summary(self, *words, status):
        done = self.attest(*words, "--json", "out.json")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text()), done

    def write_in_codes(self, out):
        """x is quantised to float8e4m3fn and back; the model gives tensor `out` of it."""
        zero = helper.make_tensor("zero", TensorProto.FLOAT8E4M3FN, [], [0])
        nodes = [helper.make_node("Mul", ["x", "scale"], ["m"]), helper.make_node("QuantizeLinear", ["m", "scale", "zero"], ["q"]),
                 helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]), helper.make_node("Relu", ["d"], ["y"])]
        given = helper.make_tensor_value_info(out, TensorProto.FLOAT8E4M3FN if out == "q" else TensorProto.FLOAT, ["n", 16])
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 16])], [given],
                                  [zero, helper.make_tensor("scale", TensorProto.FLOAT, [], [0.11])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10), self.cwd / "codes.onnx")
        return "codes.onnx"

    def test_a_fault_behind_floats_of_eight_bits_has_its_place(self):
        body = 'if b"DequantizeLinear" in model: got = [array * np.float32(1.5) for array in got]'
        words = ("check", self.write_in_codes("y"), "--cases", "20", "--laws", "1")
        self.assertEqual(self.attest(*words).returncode, 0)
        summary, done = self.summary(*words, "--on", self.runtime(body), status=1)
        self.assertIn("d, that a node gives (DequantizeLinear)", done.stdout)
        self.assertIn("2 nodes by themselves fed with right tensors: q (QuantizeLinear), d (DequantizeLinear)", done.stdout)

    def test_an_output_that_no_runtime_hands_over_is_refused_at_the_start(self):
        done = self.attest("check", self.write_in_codes("q"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("output 'q' is of type float8e4m3fn, which no runtime's tensors in Python have", done.stderr)

    def test_onnxruntime_holds_at_every_level(self):
        for name in ("encoder", "attention-f16", "attention-both"):
            summary, done = self.summary("check", f"{name}.onnx", "--cases", 12, "--laws", "all", status=0)
            self.assertEqual((summary["cases"], summary["runs"], summary["findings"]), (12, 48, []))
            self.assertEqual(set(summary["verdicts"]), {"spread", "batch-alone", "batch-permuted", "batch-duplicated", "batch-padded",
                                                        "masked-positions", "repeat", "history",
                                                        "threads", "levels-agree", "static-dynamic", "constants-as-inputs", "input-layout", "proven-bound"})
            self.assertEqual(summary["verdicts"]["input-layout"].get("pass"), 48)
            self.assertIn("every law held", done.stdout)
            self.assertLess(summary["verdicts"]["spread"]["largest_z"], 10)

    def test_what_was_recognised_is_listed_at_the_start(self):
        summary, done = self.summary("check", "encoder.onnx", "--cases", 2, "--on", "onnxruntime:disabled", status=0)
        lines = done.stdout.splitlines()
        self.assertEqual(lines[2], "held to proven bounds by themselves: 1 attention, 3 layer_norm, 1 mha")
        self.assertEqual(sorted(part["operation"] for part in summary["parts"]), ["attention", "layer_norm", "layer_norm", "layer_norm", "mha"])
        self.assertTrue(all(part["nodes"] > 0 and not part["skipped"] for part in summary["parts"]))
        summary, done = self.summary("check", "attention-scores.onnx", "--cases", 2, "--on", "onnxruntime:disabled", "-o", "campaign", status=0)
        [_, block] = summary["parts"]
        self.assertEqual((block["operation"], block["skipped"]), ("mha", "no projection takes its heads"))
        self.assertIn(f"not held to a proven bound: 1 mha ({block['tensor']}): no projection takes its heads", done.stdout.splitlines())
        self.assertEqual(self.attest("report", "campaign").returncode, 0)
        self.assertIn("not held: no projection takes its heads", (self.cwd / "campaign" / "report.html").read_text())

    def data(self, batch=3, length=7):
        """Inputs of encoder.onnx, and what onnxruntime gives on them."""
        import numpy as np
        import onnxruntime
        random = np.random.default_rng(3)
        feeds = {"ids": random.integers(0, 24, (batch, length)), "mask": random.integers(0, 2, (batch, length)) | (np.arange(length) == 0)}
        session = onnxruntime.InferenceSession(self.cwd / "encoder.onnx", providers=["CPUExecutionProvider"])
        return feeds, dict(zip([one.name for one in session.get_outputs()], session.run(None, feeds)))

    @staticmethod
    def polygraphy_array(array):
        """An array as Polygraphy's JSON has it: the base64 text of an .npy."""
        import numpy as np
        file = io.BytesIO()
        np.save(file, array)
        return {"array": base64.b64encode(file.getvalue()).decode()}

    def test_a_campaign_is_drawn_around_data_of_ones_own(self):
        import numpy as np
        feeds, _ = self.data()
        feeds["ids"][1, 2:6] = [3, 17, 8, 20]
        (self.cwd / "data").mkdir()
        np.savez(self.cwd / "data" / "b.npz", **feeds)
        (self.cwd / "data" / "a.json").write_text(json.dumps([{name: self.polygraphy_array(array[:1]) for name, array in feeds.items()}]))
        # Four ids in a row, which random problems do not have.
        self.runtime("ids = next((array for name, array in feeds.items() if name == 'ids'), np.zeros((1, 1)))\n"
                     "            rows = [ids[:, i:i + 4] for i in range(ids.shape[1] - 3)]\n"
                     "            if any((row == [3, 17, 8, 20]).all(1).any() for row in rows):\n"
                     "                got = [g + 1 for g in got]")
        words = ("check", "encoder.onnx", "--on", "own.py", "--property", "spread", "--continue-after-failure", "--jobs", 1)
        self.assertEqual(self.summary(*words, "--cases", 24, status=0)[0]["findings"], [])
        summary, done = self.summary(*words, "--cases", 24, "--inputs", "data", "-o", "campaign", status=1)
        [finding] = summary["findings"]
        self.assertEqual((finding["case"], finding["levels"], finding["passes_at"]), (1, ["other"], ["plain"]))
        self.assertGreater(finding["failures"], 1)
        self.assertIn("values.ids=given", finding["problem"])
        self.assertEqual(self.attest("replay", "campaign/corpus").returncode, 0)
        self.assertEqual(self.attest("report", "campaign").returncode, 0)
        # The same data goes on, other data does not; nor does a reproducer.
        self.assertEqual(self.summary(*words, "--cases", 26, "--inputs", "data", "-o", "campaign", status=1)[0]["resumed"], 24)
        feeds["mask"][0, 1] ^= 1
        np.savez(self.cwd / "data" / "b.npz", **feeds)
        self.refused(*words, "--cases", 28, "--inputs", "data", "-o", "campaign", says=["inputs"])
        done = self.attest("replay", "campaign/corpus")
        self.assertIn("does not hold the inputs that the entry was made with", done.stdout)
        self.assertNotEqual(done.returncode, 0)

    def test_bad_data_is_one_sentence(self):
        import numpy as np
        feeds, _ = self.data()
        for changed, says in (({"mask": None}, "it has no array 'mask', an input of the model (i64 [batch, length]): it has ids"),
                              ({"ids": feeds["ids"][:, :3]}, "save them with one length"), ({"ids": feeds["ids"][0]}, "'ids' is i64 [7], and the model takes i64 [batch, length]"),
                              ({"ids": feeds["ids"].astype(np.float32)}, "save it with that type and shape"), ({"ids": feeds["ids"] + 20}, "has 24 rows")):
            np.savez(self.cwd / "bad.npz", **{name: array for name, array in (feeds | changed).items() if array is not None})
            self.refused("check", "encoder.onnx", "--inputs", "bad.npz", says=["bad.npz", says])
        q = np.zeros((1, 2, 3, 16), np.float32)
        q[0, 1, 2, 3] = np.nan
        np.savez(self.cwd / "bad.npz", q=q, k=q, v=q, mask=np.ones((1, 1, 1, 3), bool))
        self.refused("judge", "--model", "attention-scores.onnx", "--inputs", "bad.npz", "--outputs", "bad.npz", says=["q[0,1,2,3] is NaN"])
        (self.cwd / "torn.npz").write_bytes((self.cwd / "bad.npz").read_bytes()[:100])
        (self.cwd / "empty").mkdir()
        for path, says in (("torn.npz", "truncated"), ("absent.npz", "no such file"), ("empty", "holds no .npz")):
            self.refused("check", "encoder.onnx", "--inputs", path, says=[path, says])
        self.refused("check", "builtin:fused", "--inputs", "bad.npz", says=["is for models"])
        self.refused("check", "encoder.onnx", "--problem", "size.batch=1 size.length=1 values.ids=given values.mask=all seed=1", says=["--inputs"])

    def test_judge_holds_results_from_elsewhere(self):
        import numpy as np
        feeds, outputs = self.data(4, 33)
        np.savez(self.cwd / "x.npz", **feeds)
        words = ("judge", "--model", "encoder.onnx", "--inputs", "x.npz", "--outputs", "y.npz")
        def judged(outputs, status, *more):
            np.savez(self.cwd / "y.npz", **outputs)
            return self.summary(*words, *more, status=status)
        told, done = judged(outputs, 0)
        self.assertEqual((told["verdict"], [one["judged"] for one in told["tensors"]]), ("pass", [outputs[one["name"]].size for one in told["tensors"]]))
        # Another order of sums, as a kernel with other tiles has it: each sample by itself, the batch turned around.
        import onnxruntime
        session = onnxruntime.InferenceSession(self.cwd / "encoder.onnx", providers=["CPUExecutionProvider"])
        alone = [session.run(list(outputs), {name: array[i:i + 1] for name, array in feeds.items()}) for i in range(4)]
        judged({name: np.concatenate([one[k] for one in alone]) for k, name in enumerate(outputs)}, 0)
        # One element off, in one output of two.
        wrong = {name: array.copy() for name, array in outputs.items()}
        wrong["hidden"][2, 5, 3] += 1e-4
        wrong["hidden"][3, 1, 0] += 1e-2
        told, done = judged(wrong, 1)
        [hidden] = [one for one in told["tensors"] if one["name"] == "hidden"]
        self.assertEqual((hidden["wrong"], hidden["first"]["element"], hidden["worst"]["element"]), (2, (2 * 33 + 5) * 16 + 3, (3 * 33 + 1) * 16))
        self.assertIn("first      hidden[2,5,3] = ", done.stdout)
        self.assertEqual([one["wrong"] for one in told["tensors"] if one["name"] != "hidden"], [0])
        # A mask that was forgotten; float16 inside, which is right where that is the policy.
        wrong = session.run(list(outputs), feeds | {"mask": np.ones_like(feeds["mask"])})
        judged(dict(zip(outputs, wrong)), 1)
        rounded = {name: array.astype(np.float16).astype(np.float32) for name, array in outputs.items()}
        judged(rounded, 1)
        judged(rounded, 0, "--policy", "run=f16")
        told, done = judged({"hidden": outputs["hidden"]}, 0)
        self.assertEqual(told["absent"], ["logit"])
        np.savez(self.cwd / "y.npz", hidden=outputs["hidden"][:2])
        self.refused(*words, says=["y.npz", "'hidden' is f32 [2, 33, 16]", "[4, 33, 16]"])
        self.refused(*words[:-1], "x.npz", says=["x.npz", "none of the model's outputs, which are logit, hidden"])
        self.refused(*words, "--causal", says=["--causal", "not for models"])

    def test_a_judged_failure_is_an_entry(self):
        import numpy as np
        feeds, outputs = self.data(2, 9)
        np.savez(self.cwd / "x.npz", **feeds)
        outputs["hidden"][1, 5, 3] += 1e-2
        words = ("judge", "--model", "encoder.onnx", "--inputs", "x.npz", "--outputs", "y.npz")
        for saved in (outputs, {"hidden": outputs["hidden"]}):  # all of the model's, and some
            np.savez(self.cwd / "y.npz", **saved)
            told, done = self.summary(*words, status=1)
            entry = self.cwd / told["reproducer"]
            self.assertIn(f"stored     {told['reproducer']}", done.stdout)
            for name in ("x.npz", "y.npz"):  # the entry has its own
                (self.cwd / name).rename(self.cwd / f"away-{name}")
            done = self.attest("replay", entry)
            self.assertEqual((done.returncode, done.stdout.split()[0]), (0, "as_expected"), done.stdout)
            for name in ("x.npz", "y.npz"):
                (self.cwd / f"away-{name}").rename(self.cwd / name)
            script = self.attest("export", entry, "--to", "python").stdout
            (self.cwd / "script.py").write_text(script)
            ran = subprocess.run([sys.executable, "script.py"], cwd=self.cwd, capture_output=True, text=True, check=True).stdout
            self.assertRegex(ran, r"(?m)^hidden\[1, 5, 3\] got \S+, expected \S+: \d\S+ deviations$")
            self.assertEqual("logit" in ran, len(saved) == 2, ran)
            issue = self.attest("export", entry, "--to", "issue").stdout
            self.assertIn("hidden[1,5,3] = ", issue)
            self.assertEqual(self.attest("export", entry, "--to", "npz", "-o", "out.npz").returncode, 0)
            with np.load(self.cwd / "out.npz") as out:
                np.testing.assert_array_equal(out["got.hidden"], outputs["hidden"])
        self.assertEqual(len([*self.cwd.glob("attest-out/judge/corpus/*/*.json")]), 2)
        self.assertEqual(self.attest("replay", "attest-out/judge/corpus").returncode, 0)
        self.assertIn("1 defect of models in 2 reproducers", self.attest("triage", "attest-out/judge/corpus").stdout)
        for verb in ("explain", "shrink"):
            self.refused(verb, entry, says=["no runtime is there to be asked"])
        # Results that are right are no failure any more, results that changed are none of the entry's.
        beside = entry.with_suffix(".npz")
        beside.write_bytes(beside.read_bytes()[:-1] + b"x")
        done = self.attest("replay", entry)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("does not hold the results that the entry was made with", done.stdout)
        beside.unlink()
        self.assertNotEqual(self.attest("replay", entry).returncode, 0)
        # Nothing is stored where nothing fails, or where that was said.
        told, _ = self.summary(*words, "--corpus", "none", status=1)
        self.assertNotIn("reproducer", told)
        outputs["hidden"][1, 5, 3] -= 1e-2
        np.savez(self.cwd / "y.npz", **outputs)
        self.summary(*words, "--corpus", "none-is-made", status=0)
        self.assertFalse((self.cwd / "none-is-made").exists())

    def test_a_waiver_of_a_model_lasts_until_its_day(self):
        self.runtime("got = [g + 1 for g in got]")
        words = ("check", "encoder.onnx", "--on", "own.py", "--property", "spread", "--cases", 4, "--jobs", 1)
        self.summary(*words, "--corpus", "corpus", status=1)
        table = '[[waive]]\nentry = "corpus"\nreason = "TT-33304: mended in 2.1"\nuntil = {}\n'
        (self.cwd / "attest.toml").write_text(table.format("2999-12-31"))
        told, done = self.summary(*words, "-o", "campaign", status=0)
        self.assertIn(", waived until 2999-12-31: TT-33304: mended in 2.1", done.stdout)
        self.assertEqual(told["findings"][0]["waivers"], [{"reason": "TT-33304: mended in 2.1", "until": "2999-12-31", "over": False}])
        # Entries of models and of kernels lie in one corpus.
        kernel = ("check", "fault:scale-twice", "--cases", 40, "--continue-after-failure")
        self.assertEqual(self.attest(*kernel, "--corpus", "corpus").returncode, 1)
        self.assertEqual(self.attest(*kernel).returncode, 0)
        self.summary(*words, status=0)
        (self.cwd / "attest.toml").write_text(table.format("2020-02-29"))
        told, done = self.summary(*words, "-o", "over", status=1)
        self.assertRegex(done.stdout, r"waiver +waived until 2020-02-29, which is over: TT-33304: mended in 2.1")
        self.assertEqual(self.attest("report", "over").returncode, 0)
        self.assertIn("until 2020-02-29, which is over: TT-33304", (self.cwd / "over" / "report.html").read_text())

    def test_openvino_holds(self):
        if importlib.util.find_spec("openvino") is None:
            self.skipTest("openvino is not installed")
        for name in ("encoder", "attention-both"):
            summary, done = self.summary("check", f"{name}.onnx", "--on", "openvino", "--cases", 6, "--laws", "all", status=0)
            self.assertIn("openvino 20", done.stdout)
            self.assertEqual(summary["runs"], 6)
        summary, _ = self.summary("check", "norm.onnx", "--on", "openvino:hint+performance", "--policy", "run=bf16", "--cases", 6, status=0)
        self.assertEqual(summary["policy"], "run=bf16")

    def test_a_defect_of_a_fusion_is_found_where_it_is(self):
        """docs/findings.md, ort-explicit-1: a constant scale is rounded to float32 where it is fused into a product."""
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper, save
        if onnxruntime.__version__ != "1.31.1":
            self.skipTest("of onnxruntime 1.31.1")
        info = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape or None)
        nodes = [helper.make_node(op, inputs, [name], name=name, **attributes) for op, inputs, name, attributes in (
            ("Transpose", ["k"], "kt", {"perm": [0, 1, 3, 2]}), ("MatMul", ["q", "kt"], "scores", {}), ("Mul", ["scores", "scale"], "scaled", {}),
            ("Softmax", ["scaled"], "weights", {"axis": -1}), ("MatMul", ["weights", "v"], "out", {}))]
        inputs = [info("q", "batch", "heads", "queries", 12), info("k", "batch", "heads", "keys", 12), info("v", "batch", "heads", "keys", "dim_v")]
        scale = numpy_helper.from_array(numpy_helper.np.array(12 ** -0.5), "scale")
        graph = helper.make_graph(nodes, "g", inputs, [info("out")], [scale])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), self.cwd / "f64.onnx")
        summary, _ = self.summary("check", "f64.onnx", "--cases", 24, "--continue-after-failure", status=1)
        [finding] = summary["findings"]
        self.assertEqual((finding["levels"], finding["passes_at"]), (["all", "extended"], ["basic", "disabled"]))
        self.assertEqual((finding["place"]["tensor"], finding["place"]["segment"]), ("scaled", ["scores (MatMul)", "scaled (Mul)"]))
        self.assertGreater(finding["failures"], 10)

    def test_a_loop_without_a_number_of_times_is_built_for_the_lengths_of_a_problem(self):
        """ONNX Runtime wants to read that the number and the condition of its body are scalars, in files that attest writes, too."""
        import numpy as np
        from onnx import TensorProto as T, helper, numpy_helper, save
        info = helper.make_tensor_value_info
        body = helper.make_graph([helper.make_node("Add", ["c", "one"], ["c_next"]), helper.make_node("Less", ["c_next", "three"], ["on"]),
                                  helper.make_node("Mul", ["x_in", "half"], ["x_out"])], "body",
                                 [info("i", T.INT64, []), info("go", T.BOOL, []), info("c", T.INT64, []), info("x_in", T.FLOAT, ["n"])],
                                 [info("on", T.BOOL, []), info("c_next", T.INT64, []), info("x_out", T.FLOAT, ["n"])])
        constants = {"start": np.bool_(True), "one": np.int64(1), "three": np.int64(3), "zero": np.int64(0), "half": np.float32(0.5)}
        graph = helper.make_graph([helper.make_node("Loop", ["", "start", "zero", "x"], ["c_last", "y"], body=body)], "g", [info("x", T.FLOAT, ["n"])],
                                  [info("y", T.FLOAT, ["n"])], [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), self.cwd / "loop.onnx")
        self.summary("check", "loop.onnx", "--cases", 4, "--property", "static-dynamic", status=0)

    def test_an_epsilon_that_a_fusion_forgets_is_found(self):
        """docs/findings.md#ort-graph-1: with weights as inputs LayerNormalization is fused with an epsilon of 1e-5, whatever is handed over."""
        import numpy as np
        import onnxruntime
        from onnx import TensorProto, helper, numpy_helper, save
        if onnxruntime.__version__ != "1.31.1":
            self.skipTest("of onnxruntime 1.31.1")
        nodes = [helper.make_node(op, inputs.split(), [name], name=name, **attributes) for op, inputs, name, attributes in (
            ("ReduceMean", "x axis", "mean", {"keepdims": 1}), ("Sub", "x mean", "d", {}), ("Pow", "d two", "square", {}),
            ("ReduceMean", "square axis", "variance", {"keepdims": 1}), ("Add", "variance epsilon", "v", {}), ("Sqrt", "v", "root", {}), ("Div", "d root", "z", {}),
            ("Mul", "z gamma", "scaled", {}), ("Add", "scaled beta", "y", {}))]
        info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 8])
        constants = {"axis": np.array([-1]), "two": np.float32(2), "gamma": np.full(8, 2, np.float32), "beta": np.ones(8, np.float32)}
        for epsilon, status in ((0.1, 1), (1e-5, 0)):
            graph = helper.make_graph(nodes, "g", [info("x")], [info("y")], [numpy_helper.from_array(np.asarray(value), name)
                                                                            for name, value in (constants | {"epsilon": np.float32(epsilon)}).items()])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), self.cwd / "norm_of_ones_own.onnx")
            summary, _ = self.summary("check", "norm_of_ones_own.onnx", "--cases", 8, "--property", "constants-as-inputs", "--constrain", "values.x=normal,uniform",
                                      "--continue-after-failure", status=status)
            for finding in summary["findings"]:
                self.assertEqual(finding["key"], "constants-as-inputs/fail/finite")
                self.assertEqual((finding["levels"], finding["passes_at"]), (["all", "basic", "extended"], ["disabled"]))
            self.assertEqual(bool(summary["findings"]), status == 1)

    def test_a_program_of_torch_without_torch_says_what_to_do(self):
        if importlib.util.find_spec("torch") is not None:
            self.skipTest("torch is installed: torch_program_test.py")
        (self.cwd / "program.pt2").write_text("of whatever")
        done = self.attest("check", "program.pt2")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertRegex(done.stderr, "^attest: program.pt2: .* cannot export it: No module named 'torch'; install torch and onnxscript there, or name another interpreter with --python\n$")
        self.assertEqual(self.attest("check", "absent.pt2").returncode, 2)

    def test_a_runtime_of_ones_own(self):
        shutil.copy(ROOT / "examples" / "model_runtime.py", self.cwd)
        summary, done = self.summary("check", "encoder.onnx", "--on", "model_runtime.py", "--cases", 4, "--laws", "all", status=0)
        self.assertIn("external:onnx_reference", done.stdout)
        self.assertEqual(summary["verdicts"]["spread"]["pass"], 4)

    def test_a_campaign_has_a_report(self):
        words = ("fuzz", "cross-encoder.onnx", "--on", "leaky.py", "--seed", 3, "--jobs", 1, "--constrain", "size.length=1..6", "--cases", 12, "-o", "campaign")
        summary, _ = self.summary(*words, "--junit", "now.xml", "--sarif", "now.sarif", status=1)
        record = json.loads((self.cwd / "campaign" / "summary.json").read_text())
        self.assertEqual(record.pop("coverage")["problems"], 12)
        self.assertIn("cross-encoder.onnx --on leaky.py", record.pop("run")["command"])
        self.assertEqual(record, summary)
        done = self.attest("report", "campaign")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = (self.cwd / "campaign" / "report.html").read_text()
        page = report_test.Page(text)
        self.assertEqual(page.tags["script"] + page.tags["link"] + page.tags["img"] + page.tags["iframe"], 0)
        self.assertTrue({link[1:] for link in page.of("href")} <= set(page.of("id")))
        for finding in summary["findings"]:
            for said in (finding["problem"], finding["rerun"], finding["place"]["words"]):
                self.assertIn(said, page.text)
        self.assertEqual(page.of("class").count("card defect"), len(summary["findings"]))
        self.assertGreaterEqual(page.of("class").count("geometry"), len(summary["findings"]))
        for law, counts in summary["verdicts"].items():
            at = page.cells.index(law)
            self.assertEqual(page.cells[at + 1:at + 3], [str(counts.get("pass", 0)), str(counts.get("fail", 0))], law)
        done = self.attest("report", "campaign", "--junit", "later.xml", "--sarif", "later.sarif")
        self.assertEqual(done.returncode, 0, done.stderr)
        for kind in ("xml", "sarif"):
            self.assertEqual((self.cwd / f"later.{kind}").read_text(), (self.cwd / f"now.{kind}").read_text())
        self.attest("check", "norm.onnx", "--cases", 2, "--on", "onnxruntime:all", "--junit", "held.xml")
        self.assertIn('failures="0" errors="0"', (self.cwd / "held.xml").read_text())
        if report_test.CHROMIUM is None:
            self.skipTest("the page as a browser shows it: no Chromium here")
        report_test.must_fit(self, text, "cross-encoder")

    def test_a_failure_that_is_stored_nowhere_is_run_again_by_its_line(self):
        summary, _ = self.summary("check", "cross-encoder.onnx", "--on", "leaky.py", "--constrain", "size.batch=2 size.length=2", status=1)
        words = shlex.split(summary["findings"][0]["rerun"])
        self.assertEqual(words[:5], ["attest", "check", "cross-encoder.onnx", "--on", "leaky.py:O2"])
        self.assertEqual(self.attest(*words[1:]).returncode, 1)

    def test_fuzz_draws_until_the_time_is_over_and_makes_a_folder(self):
        summary, done = self.summary("fuzz", "norm.onnx", "--time", "2s", "--on", "onnxruntime:all,onnxruntime:basic", status=0)
        self.assertGreater(summary["cases"], 3)
        self.assertEqual(summary["runs"], 2 * summary["cases"])
        self.assertIn("x float32 [rows, 100] as numbers", done.stdout)
        self.assertTrue(list(self.cwd.glob("attest-out/norm.onnx/*/logs/*.log")))

    def test_the_same_seed_is_the_same_campaign(self):
        a, b = (self.summary("check", "encoder.onnx", "--seed", 5, "--cases", 6, "--on", "onnxruntime:all", "--jobs", jobs, status=0)[0]
                for jobs in (1, 3))
        for summary in (a, b):
            del summary["seconds"]
        self.assertEqual(a, b)

    def test_a_leak_is_found_localised_stored_and_replayed(self):
        summary, done = self.summary("check", "cross-encoder.onnx", "--on", "leaky.py", "--corpus", "corpus",
                                     "--constrain", "size.batch=4 size.length=4", status=1)
        [finding] = summary["findings"]
        self.assertEqual((finding["key"], finding["levels"], finding["passes_at"]), ("spread/fail/finite", ["O2"], ["O0"]))
        place = {key: value for key, value in finding["place"].items() if key not in ("words", "segment_words", "where")}
        self.assertEqual(place, {"tensor": "layer2.context", "node": "layer2.context", "op": "MatMul", "explains": True,
                                            "segment": ["layer2.context (MatMul)"]})
        self.assertIn("size.batch=4 size.length=4", finding["problem"])
        self.assertIn("batch-alone", finding["also"])
        [file] = self.cwd.glob("corpus/*/*.json")
        self.assertTrue(file.with_suffix(".onnx").is_file() and file.with_suffix(".npz").is_file())
        self.assertEqual(finding["rerun"], f"attest replay corpus/{file.parent.name}/{file.name}")
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)

        # Both files were named on the command line before: another user's state knows neither.
        shutil.rmtree(self.cwd / "state")
        done = self.attest("replay", "corpus")
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn("--subject", done.stdout)
        done = self.attest("replay", "corpus", "--subject", "cross-encoder.onnx")
        self.assertIn("--on", done.stdout)
        self.assertEqual(self.attest("replay", "corpus", "--subject", "cross-encoder.onnx", "--on", "leaky.py").returncode, 0)
        done = self.attest("replay", "corpus", "--subject", "encoder.onnx", "--on", "leaky.py")
        self.assertEqual(done.returncode, 4)
        self.assertIn("have changed", done.stdout)
        self.assertEqual(self.attest("replay", "corpus", "--subject", "cross-encoder.onnx", "--on", "onnxruntime").returncode, 4)
        (self.cwd / "leaky.py").write_text((self.cwd / "leaky.py").read_text().replace('"layer2.context"', '"nothing"'))
        done = self.attest("replay", "corpus", "--subject", "cross-encoder.onnx", "--on", "leaky.py")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mended", done.stdout)

        # The problem as it stands, and other verbs.
        done = self.attest("check", "cross-encoder.onnx", "--on", "onnxruntime:all", "--problem", finding["problem"])
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_an_entry_is_explained_and_a_corpus_grouped(self):
        constrain = ("--constrain", "size.batch=4 size.length=4")
        for law in ("spread", "batch-alone"):
            self.summary("check", "cross-encoder.onnx", "--on", "leaky.py", "--corpus", "corpus", "--property", law, *constrain, status=1)
        files = sorted(str(file.relative_to(self.cwd)) for file in self.cwd.glob("corpus/*/*.json"))
        self.assertEqual(len(files), 2)
        spread = next(file for file in files if "spread" in file)
        explained, done = self.summary("explain", spread, status=1)
        self.assertEqual((explained["verb"], explained["fails"]), ("explain", True))
        self.assertEqual(explained["findings"][0]["place"]["tensor"], "layer2.context")
        self.assertIn("layer2.context, that 'layer2.context' gives (MatMul)", done.stdout)
        self.assertIn(f"attest replay {spread}", done.stdout)
        told, done = self.summary("triage", "corpus", status=1)
        self.assertEqual([(one["tensor"], one["op"]) for one in told["models"]], [("layer2.context", "MatMul")])
        self.assertEqual(sorted(told["models"][0]["reproducers"]), files)
        self.assertIn("1 defect of models in 2 reproducers", done.stdout)
        # A failure of another model is another defect; the entries of kernels beside them stay theirs.
        self.summary("check", "norm.onnx", "--on", self.runtime("got = [array * np.float32(1.5) for array in got]"), "--corpus", "corpus",
                     "--property", "spread", "--cases", 3, status=1)
        self.assertEqual(self.attest("check", "fault:scale-missing", "--corpus", "corpus").returncode, 1)
        told, done = self.summary("triage", "corpus", status=1)
        self.assertEqual(sorted(len(one["reproducers"]) for one in told["models"]), [1, 2])
        self.assertEqual(len(told["defects"]), 1)
        self.assertIn("2 defects of models in 3 reproducers", done.stdout)
        # Mended: there is nothing to explain.
        (self.cwd / "leaky.py").write_text((self.cwd / "leaky.py").read_text().replace('"layer2.context"', '"nothing"'))
        self.assertFalse(self.summary("explain", spread, status=0)[0]["fails"])

    def test_what_a_corpus_knows_fails_nothing_and_has_its_name(self):
        words = ("check", "cross-encoder.onnx", "--on", "leaky.py", "--cases", 9)
        self.summary(*words, "--corpus", "corpus", status=1)
        [file] = self.cwd.glob("corpus/*/*.json")
        summary, done = self.summary(*words, "--known", "corpus", "-o", "campaign", "--junit", "j.xml", "--sarif", "s.sarif", status=0)
        [finding] = summary["findings"]
        self.assertEqual((finding["known"], finding["known_as"], summary["cases"]), (True, file.stem, 9))
        self.assertIn("nothing but known failures", done.stdout)
        self.assertIn(f", known: {file.stem}", done.stdout)
        self.assertNotIn("<failure", (self.cwd / "j.xml").read_text())
        [result] = json.loads((self.cwd / "s.sarif").read_text())["runs"][0]["results"]
        self.assertEqual((result["level"], result["baselineState"]), ("note", "unchanged"))
        self.assertIn(f"Known: {file.stem}", result["message"]["text"])
        self.assertEqual(self.attest("report", "campaign").returncode, 0)
        self.assertIn(f"(known: {file.stem})", (self.cwd / "campaign" / "report.html").read_text())

    def test_replay_takes_models_and_others_together(self):
        self.summary("check", "cross-encoder.onnx", "--on", "leaky.py", "--corpus", "corpus", "--cases", 9, status=1)
        self.reproducer()
        done = self.attest("replay", "corpus", "--json", "out.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(json.loads((self.cwd / "out.json").read_text())["as_expected"], 2)

    def test_crashes_and_hangs_are_verdicts(self):
        for body, key, words in (("os.kill(os.getpid(), 11)", "spread/crash/the-worker-was-killed-by-sigsegv", []),
                                 ("import time; time.sleep(60)", "spread/timeout/no-answer-within-", ["--timeout", "1s"]),
                                 ("raise ValueError('bad 7')", "spread/error/valueerror-bad-", [])):
            summary, _ = self.summary("check", "norm.onnx", "--on", self.runtime(body), "--constrain", "size.rows=1..2", *words, status=1)
            self.assertTrue(summary["findings"][0]["key"].startswith(key), summary["findings"])
            self.assertEqual(summary["findings"][0]["passes_at"], ["plain"])

    def test_inputs_that_lie_otherwise(self):
        """A runtime that hands the memory of its inputs on as if they were packed, and one that says it takes packed ones alone."""
        body = "got = session.run(names, {name: np.ndarray(feed.shape, feed.dtype, feed.tobytes('A')) for name, feed in feeds.items()})"
        script = (self.cwd / self.runtime(body)).read_text()
        (self.cwd / "own.py").write_text(script.replace('version="1"', 'version="1", layouts=attest.LAYOUTS'))
        summary, done = self.summary("check", "encoder.onnx", "--on", "own.py", "--property", "input-layout", "--corpus", "corpus", status=1)
        [finding] = summary["findings"]
        self.assertEqual((finding["key"], finding["levels"], finding["passes_at"]), ("input-layout/fail/finite", ["other"], ["plain"]))
        self.assertIn("with column_major inputs", finding["reason"])
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        (self.cwd / "own.py").write_text(script)
        summary, _ = self.summary("check", "encoder.onnx", "--on", "own.py", "--property", "*layout", "--cases", 3, status=5)
        self.assertEqual(list(summary["verdicts"]["input-layout"]["skip"]), ["the runtime takes packed inputs alone"])
        (self.cwd / "own.py").write_text(script.replace('version="1"', 'version="1", layouts=["diagonal"]'))
        self.refused("check", "encoder.onnx", "--on", "own.py", status=4, says=["there is no layout 'diagonal'"])

    def test_what_only_a_process_shows_that_was_asked_others(self):
        body = "got[0] = got[0] + (len({str(one) for one in asked}) > 2)"
        summary, done = self.summary("check", "norm.onnx", "--on", self.runtime(body), "--corpus", "corpus", "--laws", 0, status=1)
        [finding] = summary["findings"]
        self.assertEqual(len(finding["after"]), 2)
        self.assertIn("after", done.stdout)
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)

    def saved(self, name, nodes, inputs, outputs, constants=()):
        """A file of float32 with operators of version 18: (op, inputs, output); (name, axes)."""
        from onnx import TensorProto, helper, numpy_helper, save
        info = lambda name, *axes: helper.make_tensor_value_info(name, TensorProto.FLOAT, axes or None)
        graph = helper.make_graph([helper.make_node(op, read.split(), [gives], **dict(*more)) for op, read, gives, *more in nodes], "g",
                                  [info(one, *axes) for one, axes in inputs], [info(one) for one in outputs],
                                  [numpy_helper.from_array(value, one) for one, value in constants])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), self.cwd / name)
        return name

    def test_a_graph_that_pins_a_length_is_shrunk_as_far_as_it_goes(self):
        import numpy as np
        name = self.saved("pinned.onnx", [("Reshape", "x heads", "split"), ("Softmax", "split", "y")], [("x", ("batch", "length", 4))], ["y"],
                          [("heads", np.array([0, 5, 2, 2]))])
        summary, done = self.summary("check", name, "--on", self.runtime("got[0] = got[0] * 1.5"), "--corpus", "corpus", "--continue-after-failure", "-v", status=1)
        [finding] = [one for one in summary["findings"] if one["law"] == "spread"]
        self.assertTrue(finding["minimal"])
        self.assertIn("size.batch=1 size.length=5 ", finding["problem"])
        self.assertEqual(finding["place"]["tensor"], "split")
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        [reason] = summary["skipped"]  # with the numbers of the first
        self.assertRegex(reason, r"\(Reshape\): .*\d")
        self.assertIn(reason, done.stdout)

    def test_what_a_runtime_says_is_told_whole(self):
        said = "at the beginning " + "of a message that is long " * 40 + "the end"
        summary, done = self.summary("check", "norm.onnx", "--on", self.runtime(f"raise ValueError('{said}')") + ":other", "--property", "spread", "--cases", 1, status=1)
        self.assertIn("ValueError: " + said, summary["findings"][0]["reason"])
        self.assertIn(said, done.stdout)

    def test_what_only_the_history_of_a_part_shows(self):
        """A part by itself answers wrongly where the same shapes came before; the whole never does."""
        body = "got[0] = got[0] + (1 if 'ids' not in feeds and asked.count(asked[-1]) > 1 else 0)"
        summary, done = self.summary("check", "encoder.onnx", "--on", self.runtime(body) + ":other", "--corpus", "corpus", "--cases", 80, "--property", "proven-bound",
                                     "--constrain", "size.length=1..3 size.batch=1..2", "--shrink-budget", 60, status=1)
        [finding] = summary["findings"]
        self.assertEqual((finding["key"], finding["verdict"], len(finding["after"])), ("proven-bound/fail/finite", "fail", 1))
        self.assertTrue(finding["place"]["segment"])
        self.assertIn("after", done.stdout)
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        [file] = self.cwd.glob("corpus/*/*.json")
        import numpy as np
        beside = np.load(file.with_suffix(".npz"))
        inputs = {name for name in beside.files if not name.startswith("before.")} - {"got", "expected"}
        self.assertEqual({name for name in beside.files if name.startswith("before.")}, {f"before.0.{name}" for name in inputs})
        self.assertEqual(self.attest("export", file, "--to", "npz", "-o", "all.npz").returncode, 0)
        self.assertLessEqual({"ids", "mask", "before.0.ids", "before.0.mask"}, set(np.load(self.cwd / "all.npz").files))
        done = self.attest("export", file, "--to", "python", "-o", "script.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("\nbefore = [{", (self.cwd / "script.py").read_text())
        shown = subprocess.run([sys.executable, self.cwd / "script.py"], capture_output=True, text=True)
        self.assertRegex(shown.stdout, r"deviations", shown.stderr)
        done = self.attest("export", file, "--to", "onnx", "-o", "graphs")
        self.assertEqual(done.returncode, 0)
        self.assertIn("1 earlier call alone", done.stderr)

    def test_who_promises_16_bits_may_store_less(self):
        """Weights or inputs alone in 16 bits, float32 between: what saturates or is rounded there leads elsewhere than the members go."""
        shutil.copy(ROOT / "tests" / "subjects" / "scripts" / "stores_less.py", self.cwd)
        for model, kind, problem in (
                ("encoder", "f16", "size.batch=2 size.length=2 values.ids=any values.mask=few seed=5796301495839998141"),
                ("attention-both", "bf16", "size.batch=7 size.dim_v=4 size.heads=1 size.keys=29 size.queries=1 values.k=far values.mask=large values.q=large "
                                           "values.v=sparse seed=14855941883923404594")):
            for what in ("inputs", "weights", "both"):
                self.summary("check", f"{model}.onnx", "--on", f"stores_less.py:{kind}-{what}", "--policy", f"run={kind}", "--problem", problem, status=0)
            summary, _ = self.summary("check", f"{model}.onnx", "--on", f"stores_less.py:{kind}-eight", "--policy", f"run={kind}", "--cases", 40, status=1)
            self.assertEqual(summary["findings"][0]["law"], "spread")

    def test_a_campaign_that_is_killed_goes_on(self):
        words = ("fuzz", "cross-encoder.onnx", "--on", "leaky.py", "--seed", 3, "--jobs", 1, "--constrain", "size.length=1..6", "--cases", 24)
        whole, _ = self.summary(*words, "-o", "whole", status=1)
        progress = self.cwd / "killed" / "progress.jsonl"
        commits = lambda: progress.read_bytes().count(b"\n") if progress.is_file() else 0
        for seconds in (0, 0.3, 0.7):  # after a commit of its own
            before = commits()
            process = subprocess.Popen([self.program, *map(str, words), "-o", "killed"], cwd=self.cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while commits() == before and process.poll() is None:
                time.sleep(0.05)
            time.sleep(seconds)
            process.kill()
            process.wait()
        killed, done = self.summary(*words, "-o", "killed", status=1)
        self.assertIn("earlier runs of this campaign", done.stdout)
        for summary in (whole, killed):
            for changing in ("seconds", "resumed"):
                del summary[changing]
            for finding in summary["findings"]:
                for changing in ("seconds_to_first", "reproducer", "rerun"):
                    del finding[changing]
        self.assertEqual(killed, whole)
        [leak] = [finding for finding in whole["findings"] if finding["law"] == "spread"]
        self.assertEqual(set(leak["when"]["predicate"].split(" && ")), {"size.batch>1", "values.ids!=same"})
        self.refused(*words, "-o", "killed", "--policy", "run=bf16", says=["its policy is \"literal\", here it is \"run=bf16\""])

    def test_a_file_without_a_kernel_is_no_failure(self):
        """OperatorKernels.md of onnxruntime: its CPU computes Erf in float32 and float16 alone."""
        from onnx import TensorProto, helper, save
        for kind, status in ((TensorProto.DOUBLE, 5), (TensorProto.FLOAT, 0)):
            info = lambda name: helper.make_tensor_value_info(name, kind, ["n"])
            graph = helper.make_graph([helper.make_node("Erf", ["x"], ["y"])], "g", [info("x")], [info("y")])
            save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), self.cwd / "erf.onnx")
            summary, _ = self.summary("check", "erf.onnx", "--cases", 3, status=status)
            self.assertEqual(summary["findings"], [])
            reasons = summary["verdicts"]["spread"]["skip"]
            self.assertEqual(sum(reasons.values()), 12 if status else 0)
            self.assertTrue(all("Could not find an implementation for Erf" in one for one in reasons), reasons)

    def test_attest_toml_says_what_inputs_may_be(self):
        (self.cwd / "attest.toml").write_text('[graph]\nsize.batch = "2..3"\nsize.length = 4\nvalues.mask = "prefix"\n')
        summary, _ = self.summary("check", "encoder.onnx", "--cases", 5, "--on", "leaky.py", "--property", "spread", status=0)
        self.assertTrue(5 * 2 * 2 * 65 <= summary["elements"] <= 5 * 2 * 3 * 65, summary["elements"])  # logit and hidden of a sample
        self.assertEqual(set(summary["verdicts"]), {"spread"})
        self.refused("check", "norm.onnx", says=["size.batch", "no such open axis"])
        (self.cwd / "attest.toml").write_text("[graph]\nbatch = 4\n")
        self.refused("check", "norm.onnx", says=["graph.batch"])
        self.refused("list", "ops", says=["graph.batch"])

    def test_what_cannot_be_done_is_one_sentence(self):
        (self.cwd / "junk.onnx").write_text("this is no model")
        (self.cwd / "cut.onnx").write_bytes((MODELS / "encoder.onnx").read_bytes()[:4000])
        self.refused("fuzz", "nope.onnx", says=["nope.onnx", "no such file"])
        self.refused("fuzz", "junk.onnx", says=["junk.onnx", "no ONNX model"])
        self.refused("fuzz", "cut.onnx", says=["cut.onnx"])
        for words, says in ((["--on", "nope"], "no runtime of models 'nope'"), (["--on", "onnxruntime:O9"], "no build 'O9'"),
                            (["--on", ","], "names no runtime"), (["--policy", "f32"], "no precision of a graph"),
                            (["--shard", "1/2"], "not for models"), (["--assume", "b>1"], "not for models"),
                            (["--property", "nope"], "no law of models"), (["--constrain", "size.nope=3"], "no such open axis"),
                            (["--constrain", "batch"], "not key=value"), (["--problem", "size.batch=1"], "no size of the axis 'length'"),
                            (["--problem", "seed=1", "--seed", 3], "leave one of them out")):
            self.refused("check", "encoder.onnx", *words, says=[says])
        self.refused("check", "encoder.onnx", "--on", "nope.py", status=4, says=["no file nope.py"])
        self.refused("check", "encoder.onnx", "--python", "/nowhere/python", status=4, says=["/nowhere/python"])
        self.refused("check", "builtin:fused", "--on", "onnxruntime", says=["for models"])

    def test_an_operator_that_is_not_known_is_named(self):
        from onnx import TensorProto, helper, save
        node = helper.make_node("Unique", ["x"], ["y"], name="each")
        graph = helper.make_graph([node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["m"])])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), self.cwd / "unique.onnx")
        self.refused("fuzz", "unique.onnx", says=["Unique ('each')"])


if __name__ == "__main__":
    run()
