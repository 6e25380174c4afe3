"""attest export --to onnx, polygraphy, trtexec and cpp, of kernels and of models: each is read by whom it is for, or by what its documents say.
Usage: export_formats_test.py ATTEST"""
import base64
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
import numpy as np
import onnx
import onnxruntime

from command_line import ROOT, Cli, run

FOUNDING = ROOT / "docs" / "founding" / "S3-model"
os.environ["ATTEST_PYTHON"] = sys.executable


def session(file):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def array_of(value):
    """polygraphy/json/serde.py: an ndarray is {"array": base64 of what numpy.save writes, "polygraphy_class": "ndarray"}."""
    assert value["polygraphy_class"] == "ndarray", value
    return np.load(io.BytesIO(base64.b64decode(value["array"], validate=True)), allow_pickle=False)


class Formats(Cli):
    def exported(self, entry, to, folder):
        done = self.attest("export", entry, "--to", to, "-o", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def kernel(self, problem, fault="scale-twice", policy="f32"):
        shutil.rmtree(self.cwd / "corpus", ignore_errors=True)
        done = self.attest("check", f"fault:{fault}", "--problem", problem, "--policy", policy, "--corpus", "corpus", "--shrink-budget", 1)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return next(self.cwd.glob("corpus/*/*.json")).relative_to(self.cwd)

    def model(self):
        for file in FOUNDING.iterdir():
            shutil.copy(file, self.cwd)
        done = self.attest("check", "cross-encoder.onnx", "--on", "leaky.py", "--corpus", "corpus", "--constrain", "size.batch=2..4 size.length=1..4")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return next(self.cwd.glob("corpus/*/*.json")).relative_to(self.cwd)

    PLAIN = "b=2 hq=4 hkv=2 lq=3 lk=5 d=4 dv=3 dtype=f32 scale=0x1p-1 values=normal:1 seed=3"

    def test_attention_in_three_placements_and_as_a_node(self):
        """The graphs of every kind of problem give the right results in onnxruntime without optimisations; tests/report/graphs_test.cpp asks attest's own evaluation."""
        for fault, problem in (("scale-twice", self.PLAIN), ("scale-twice", self.PLAIN.replace("f32", "f64")), ("scale-twice", self.PLAIN.replace("f32", "f16")),
                               ("causal-off-by-one", "b=1 hq=2 hkv=1 lq=4 lk=6 d=4 dv=4 dtype=f32 causal=1 align=bottom_right values=normal:1 seed=3"),
                               ("softcap-dropped", "b=1 hq=2 hkv=1 lq=4 lk=6 d=4 dv=4 dtype=f32 softcap=0x1p-1 bias=normal values=normal:1 seed=3")):
            with self.subTest(problem):
                dtype = re.search(r"dtype=(\w+)", problem).group(1)
                entry = self.kernel(problem, fault, policy=dtype)
                self.assertEqual(len(self.exported(entry, "onnx", "graphs")), 4)
                done = self.attest("export", entry, "--to", "python")
                scope = {}
                exec(compile(done.stdout.split("\nat = ")[0], "script", "exec"), scope)  # its own reference, in NumPy
                near = {"f16": 2e-2, "f32": 1e-5, "f64": 1e-12}[dtype]
                for name in ("explicit-queries", "explicit-scores", "explicit-both", "node"):
                    file = self.cwd / "graphs" / f"{name}.onnx"
                    onnx.checker.check_model(file, full_check=True)
                    tensors = np.load(file.with_suffix(".npz"))
                    feeds = {one: tensors[one] for one in tensors.files if not one.startswith("expected.")}
                    np.testing.assert_allclose(tensors["expected.out"].astype(np.float64), scope["expected"], atol=near, err_msg=name)
                    got = session(file).run(None, feeds)[0]
                    self.assertEqual(got.dtype, tensors["expected.out"].dtype)
                    np.testing.assert_allclose(got.astype(np.float64), scope["expected"], atol=max(near, 1e-6 if name == "node" else 0), err_msg=name)
                    scaled = [one.output[0] for one in onnx.load(file).graph.node if one.op_type == "Mul" and "scale" in one.output[0]]
                    self.assertEqual(scaled, {"explicit-queries": ["q_scaled"], "explicit-scores": ["scaled"], "explicit-both": ["q_scaled", "k_scaled"], "node": []}[name])
                shutil.rmtree(self.cwd / "graphs")

    def test_polygraphy(self):
        entry = self.kernel(self.PLAIN)
        lines = self.exported(entry, "polygraphy", "poly")
        self.assertEqual(len(lines), 4)
        for line in lines:
            words = shlex.split(line)
            self.assertEqual((words[:2], words[3], words[4], words[6]), (["polygraphy", "run"], "--onnxrt", "--load-inputs", "--load-outputs"))
            [feeds] = json.loads((self.cwd / words[5]).read_text())
            results = json.loads((self.cwd / words[7]).read_text())
            self.assertEqual(results["polygraphy_class"], "RunResults")
            [[_, [iteration]]] = results["lst"]
            got = session(self.cwd / words[2]).run(["out"], {name: array_of(value) for name, value in feeds.items()})[0]
            np.testing.assert_allclose(got, array_of(iteration["outputs"]["out"]["values"]), atol=1e-5)
        if importlib.util.find_spec("polygraphy") is None:
            print("skipped: polygraphy itself is not installed", flush=True)
            return
        for line in lines:
            words = shlex.split(line)
            code = "import sys; from polygraphy.tools import main; sys.exit(main())"
            done = subprocess.run([sys.executable, "-c", code, *words[1:]], cwd=self.cwd, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("PASSED | simple | All outputs matched", done.stdout + done.stderr)

    def test_trtexec(self):
        """trtexec --help: --loadInputs=name:file,..., each the bare bytes of the tensor; --shapes=name:2x3,... of inputs whose axes are open."""
        types = {1: np.float32, 7: np.int64, 9: np.bool_, 10: np.float16}
        for entry, opened in ((self.kernel(self.PLAIN), False), (self.model(), True)):
            for line in self.exported(entry, "trtexec", "trt"):
                words = dict(word.split("=", 1) for word in shlex.split(line)[1:] if "=" in word)
                self.assertEqual(shlex.split(line)[0], "trtexec")
                shapes = dict(one.split(":") for one in words.get("--shapes", "").split(",") if one)
                model = session(self.cwd / words["--onnx"])
                kinds = {one.name: types[one.type.tensor_type.elem_type] for one in onnx.load(self.cwd / words["--onnx"]).graph.input}
                feeds = {}
                for one in words["--loadInputs"].split(","):
                    name, file = one.split(":")
                    shape = [int(n) for n in shapes[name].split("x")] if name in shapes else next(i.shape for i in model.get_inputs() if i.name == name)
                    feeds[name] = np.frombuffer((self.cwd / file).read_bytes(), kinds[name]).reshape(shape)
                self.assertEqual(bool(shapes), opened)
                self.assertTrue(all(np.isfinite(one).all() for one in model.run(None, feeds)))
            self.assertTrue((self.cwd / "trt" / "trtexec.sh").read_text().startswith("trtexec "))
            shutil.rmtree(self.cwd / "trt")
        f64 = self.kernel(self.PLAIN.replace("f32", "f64"), policy="f64")
        self.refused("export", f64, "--to", "trtexec", "-o", "trt", says=["float64", "TensorRT"])

    BODY = """
for (int b = 0; b < {b}; ++b) for (int h = 0; h < {hq}; ++h) for (int i = 0; i < {lq}; ++i) {{
  double w[{lk}], sum = 0;
  for (int j = 0; j < {lk}; ++j) {{
    double s = 0;
    for (int c = 0; c < {d}; ++c) s += value(q[((b * {hq} + h) * {lq} + i) * {d} + c]) * value(k[((b * {hkv} + h / ({hq} / {hkv})) * {lk} + j) * {d} + c]);
    sum += w[j] = std::exp({times} * scale * s);
  }}
  for (int c = 0; c < {dv}; ++c) {{
    double o = 0;
    for (int j = 0; j < {lk}; ++j) o += w[j] / sum * value(v[((b * {hkv} + h / ({hq} / {hkv})) * {lk} + j) * {dv} + c]);
    out[((b * {hq} + h) * {lq} + i) * {dv} + c] = {stored};
  }}
}}
return 0;
"""

    def test_cpp(self):
        compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
        if compiler is None:
            self.skipTest("no C++ compiler")
        build = lambda *words: subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", "case.cpp", "-o", "case", *words], cwd=self.cwd, capture_output=True, text=True)
        for dtype, kind, stored in (("f32", "float", "float(o)"), ("f64", "double", "o"), ("f16", "half", "half{encoded(o)}")):
            entry = self.kernel(self.PLAIN.replace("f32", dtype), policy=dtype)
            self.exported(entry, "cpp", "case.cpp")
            self.assertIn("call your kernel here", build().stderr)
            shape = dict.fromkeys("b hq hkv lq lk d dv".split(), 1) | {key: int(n) for key, n in re.findall(r"\b(b|hq|hkv|lq|lk|d|dv)=(\d+)", json.loads((self.cwd / entry).read_text())["text"])}
            # The numbers take no more than 11 bits, with the exponent of a normal one: enough for the values here.
            encode = """
std::uint16_t encoded(double x) {
  if (x == 0) return 0;
  int e = 0;
  const double m = std::frexp(std::fabs(x), &e);
  const int shift = e < -13 ? -13 - e : 0;
  const long n = std::lrint(std::ldexp(m, 11 - shift));
  const long bits = shift > 0 ? n : (long(e + 14) << 10) + (n - 1024);
  return std::uint16_t(bits | (x < 0 ? 0x8000 : 0));
}
""" if dtype == "f16" else ""
            for times, status in (("1", 0), ("3", 1)):  # right, and a scale that is not the call's
                (self.cwd / "run.inc").write_text(encode + f"int run(const {kind}* q, const {kind}* k, const {kind}* v, {kind}* out) {{" +
                                                  self.BODY.format(times=times, stored=stored, **shape) + "}\n")
                done = build('-DATTEST_RUN="run.inc"')
                self.assertEqual(done.returncode, 0, done.stderr)
                done = subprocess.run([self.cwd / "case"], capture_output=True, text=True)
                self.assertEqual(done.returncode, status, (dtype, done.stdout))
                self.assertEqual("permitted" in done.stdout, status == 1)

    # ---- models

    def test_a_model_and_its_segment(self):
        entry = self.model()
        self.assertEqual(len(self.exported(entry, "onnx", "graphs")), 2)
        for name in ("model", "segment"):
            tensors = np.load(self.cwd / "graphs" / f"{name}.npz")
            file = self.cwd / "graphs" / f"{name}.onnx"
            onnx.checker.check_model(file, full_check=True)
            right = session(file)
            names = [one.name for one in right.get_outputs()]
            got = right.run(names, {one.name: tensors[one.name] for one in right.get_inputs()})
            for output, one in zip(names, got):
                np.testing.assert_allclose(one, tensors[f"expected.{output}"], atol=1e-5)
        self.assertEqual(self.attest("export", entry, "--to", "npz", "-o", "all.npz").returncode, 0)
        tensors = np.load(self.cwd / "all.npz")
        self.assertGreater(np.abs(tensors["got.logit"] - tensors["expected.logit"]).max(), 1e-3)

    def test_a_script_shows_a_models_failure(self):
        """docs/findings.md, ort-explicit-1, as a graph; and a runtime of one's own, which a script does not start."""
        if onnxruntime.__version__ == "1.31.1":
            g = onnx.helper
            info = lambda name, *shape: g.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, shape or None)
            graph = g.make_graph([g.make_node("MatMul", ["q", "k"], ["s"]), g.make_node("Mul", ["s", "scale"], ["y"])], "g", [info("q", "m", 4), info("k", 4, "n")],
                                 [info("y")], [onnx.numpy_helper.from_array(np.array(0.2), "scale")])
            onnx.save(g.make_model(graph, opset_imports=[g.make_opsetid("", 18)], ir_version=9), self.cwd / "f64.onnx")
            done = self.attest("check", "f64.onnx", "--corpus", "f64", "--cases", 20)
            self.assertEqual(done.returncode, 1, done.stdout)
            entry = next(self.cwd.glob("f64/*/*.json"))
            for to in ("python", "issue"):
                text = self.attest("export", entry, "--to", to).stdout
                script = text if to == "python" else re.search(r"```python\n(.*?)```", text, re.S).group(1)
                self.assertIn("h.make_node('MatMul'", script)
                shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
                self.assertEqual(shown.returncode, 0, shown.stderr)
                self.assertGreater(float(re.search(r"expected \S+: (\S+) deviations", shown.stdout).group(1)), 1e4, shown.stdout)
                right = subprocess.run([sys.executable, "-c", script.replace("ORT_ENABLE_EXTENDED", "ORT_ENABLE_BASIC").replace("ORT_ENABLE_ALL", "ORT_ENABLE_BASIC")],
                                       capture_output=True, text=True)
                self.assertLess(float(re.search(r"expected \S+: (\S+) deviations", right.stdout).group(1)), 10, right.stdout)
            self.assertIn("## What happens", text)
        entry = self.model()
        self.assertEqual(self.attest("export", entry, "--to", "python", "-o", "script.py").returncode, 0)
        script = (self.cwd / "script.py").read_text()
        self.assertIn("# as external:leaky gave it", script)
        shown = subprocess.run([sys.executable, self.cwd / "script.py"], capture_output=True, text=True)
        self.assertRegex(shown.stdout, r"layer2.context\[.*deviations", shown.stderr)
        self.refused("export", entry, "--to", "cpp", says=["of a model"])
        self.refused("export", entry, "--to", "onnx", says=["-o DIR"])
        self.refused("export", entry, "--to", "nothing", says=["polygraphy"])

    def test_an_entry_of_a_model_is_shrunk_again(self):
        for file in FOUNDING.iterdir():
            shutil.copy(file, self.cwd)
        done = self.attest("check", "cross-encoder.onnx", "--on", "leaky.py", "--corpus", "corpus", "--shrink-budget", 1, "--constrain", "size.batch=6,7 size.length=7,9")
        self.assertEqual(done.returncode, 1, done.stdout)
        [entry] = self.cwd.glob("corpus/*/*.json")
        done = self.attest("shrink", entry)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no change makes it simpler", done.stdout)
        [smaller] = set(self.cwd.glob("corpus/*/*.json")) - {entry}
        old, new = (json.loads(file.read_text()) for file in (entry, smaller))
        self.assertIn("size.batch=2 size.length=1 ", new["problem"])
        self.assertTrue(new["minimal"] and not old["minimal"])
        self.assertEqual((new["seed"], new["case"], new["original"], new["key"]), (old["seed"], old["case"], old["original"], old["key"]))
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        (self.cwd / "leaky.py").write_text((self.cwd / "leaky.py").read_text().replace('"layer2.context"', '"nothing"'))
        done = self.attest("shrink", entry, "--on", "leaky.py")
        self.assertEqual((done.returncode, "nothing to shrink" in done.stdout), (0, True), done.stdout + done.stderr)


if __name__ == "__main__":
    run()
