"""A provider of ONNX Runtime that comes as a package: OpenVINO's, asked about whole models. Where its package finds no device (it takes Intel's processors
alone) that is one sentence; where it does, campaigns, reproducers and scripts go by it. Usage: test_onnxruntime_plugin.py ATTEST"""
import json
import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

from need_package import need

need("onnxruntime_ep_openvino", "pip install onnxruntime-ep-openvino")
need("onnxruntime", "./run test installs it")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from command_line import ROOT, Cli, run
from onnx import TensorProto, helper, save

os.environ["ATTEST_PYTHON"] = sys.executable
PROVIDER = "OpenVINOExecutionProvider"
F32 = '+load_config={"CPU":{"INFERENCE_PRECISION_HINT":"f32"}}'


def has_device():
    """Asked in a process of its own: what is registered stays."""
    code = ("import onnxruntime, onnxruntime_ep_openvino as e; onnxruntime.register_execution_provider_library('x', e.get_library_path()); "
            f"print(any(one.ep_name == '{PROVIDER}' and str(one.device.type).endswith('CPU') for one in onnxruntime.get_ep_devices()))")
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "True"


class Plugin(Cli):
    def setUp(self):
        super().setUp()
        for name in ("encoder", "norm"):
            shutil.copy(ROOT / "tests" / "graph" / "models" / f"{name}.onnx", self.cwd)

    def check(self, model, build, *words, status):
        done = self.attest("check", model, "--on", f"onnxruntime:{build}", "--json", "out.json", *words, timeout=300)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text()), done

    @unittest.skipIf(has_device(), "its device is here")
    def test_without_a_device_one_sentence_says_so(self):
        self.refused("check", "norm.onnx", "--on", f"onnxruntime:all+{PROVIDER}", status=4,
                     says=[f"onnxruntime: {PROVIDER} of the package onnxruntime_ep_openvino finds none of its devices here"])

    @unittest.skipUnless(has_device(), "no processor that the package takes")
    def test_its_results_are_held_against_the_ensemble(self):
        summary, done = self.check("encoder.onnx", f"all+{PROVIDER}{F32}", "--cases", 6, "--laws", "all", status=0)
        self.assertEqual((summary["runs"], summary["findings"]), (6, []))
        self.assertGreater(summary["verdicts"]["spread"]["pass"], 4)
        self.assertNotIn("notes", summary)  # every node is the provider's
        self.refused("check", "norm.onnx", "--on", f"onnxruntime:all+{PROVIDER}+device_type=NPU", status=4, says=["has no device of type NPU here: it has CPU"])
        self.refused("check", "norm.onnx", "--on", f"onnxruntime:all+{PROVIDER}+load_config={{", status=4, says=[f"{PROVIDER} cannot be started with load_config={{:"])

    def save(self, name, nodes, dtype=TensorProto.FLOAT):
        info = lambda name: helper.make_tensor_value_info(name, dtype, ["n", 4])
        weights = helper.make_tensor("w", dtype, [4, 4], [i % 5 / 7 for i in range(16)])
        scale = helper.make_tensor("s", dtype, [4], [1, 2, 3, 4])
        constants = [one for one in (weights, scale) if any(one.name in node.input for node in nodes)]
        graph = helper.make_graph(nodes, "g", [info("x")], [info("y")], constants)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), self.cwd / name)

    @unittest.skipUnless(has_device(), "no processor that the package takes")
    def test_nodes_that_it_leaves_are_told_and_a_graph_of_them_alone_is_not_judged(self):
        """It takes no RMSNormalization, and ONNX Runtime computes that on the CPU without a word."""
        norm = helper.make_node("RMSNormalization", ["m", "s"], ["y"], name="norm", epsilon=1e-5)
        self.save("mixed.onnx", [helper.make_node("MatMul", ["x", "w"], ["m"], name="mm"), norm])
        summary, done = self.check("mixed.onnx", f"all+{PROVIDER}{F32}", "--cases", 4, status=0)
        note = f"{PROVIDER} takes 1 of 2 nodes; CPUExecutionProvider computes RMSNormalization 'norm'"
        self.assertEqual(summary["notes"], {f"onnxruntime all+{PROVIDER}{F32}": note})
        self.assertIn(note, done.stdout)
        self.save("norm-alone.onnx", [helper.make_node("RMSNormalization", ["x", "s"], ["y"], name="norm")])
        summary, _ = self.check("norm-alone.onnx", f"all+{PROVIDER}{F32}", "--cases", 4, status=5)
        self.assertIn(f"{PROVIDER} takes no node of the graph, which would be computed elsewhere", str(summary["verdicts"]["spread"]))

    @unittest.skipUnless(has_device(), "no processor that the package takes")
    def test_a_failure_is_replayed_and_its_script_shows_it(self):
        """A product in float64, which OpenVINO computes in a smaller type."""
        self.save("double.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], TensorProto.DOUBLE)
        summary, _ = self.check("double.onnx", f"all+{PROVIDER}{F32}+device_type=CPU", "--cases", 4, "--corpus", "corpus", status=1)
        [finding] = summary["findings"]
        self.assertEqual(finding["place"]["tensor"], "y")
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        [file] = (self.cwd / "corpus").glob("*/*.json")
        done = self.attest("export", file, "--to", "python")
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.cwd / "shown.py").write_text(done.stdout)
        shown = subprocess.run([sys.executable, "shown.py"], cwd=self.cwd, capture_output=True, text=True)
        self.assertEqual(shown.returncode, 0, shown.stderr + shown.stdout)
        self.assertIn(f"{PROVIDER} computes MatMul", shown.stdout)
        self.assertRegex(shown.stdout, r"y\[.*: [0-9.]+e\+0[4-9] deviations")
        self.assertEqual(self.check("double.onnx", "all", "--cases", 4, status=0)[0]["findings"], [])


if __name__ == "__main__":
    run()
