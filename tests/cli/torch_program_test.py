#!/usr/bin/env python3
"""A program that torch exported, asked eager and compiled: by itself, and by examples/torch_program.py. Usage: torch_program_test.py ATTEST [unittest argument...]"""
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("torch", "attest installs it into build/.venv when torch: is first asked for")
need("onnxscript", "pip install it beside torch: torch.onnx.export needs it")
import torch
from command_line import ROOT, Cli, run

os.environ["ATTEST_PYTHON"] = sys.executable


class Scores(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        torch.manual_seed(1)
        self.linear, self.scale = torch.nn.Linear(4, 8), scale

    def forward(self, x, keys):
        return torch.softmax(torch.nn.functional.gelu(self.linear(x)) @ keys.transpose(-1, -2) * self.scale, -1)


def program_of(module):
    lengths = {"x": {0: torch.export.Dim("rows", min=1, max=9)}, "keys": {0: torch.export.Dim("keys", min=1, max=9)}}
    return torch.export.export(module.eval(), (torch.randn(3, 4), torch.randn(5, 8)), dynamic_shapes=lengths)


class TorchProgram(Cli):
    def checked(self, saved, exported, status):
        shutil.copy(ROOT / "examples" / "torch_program.py", self.cwd)
        torch.export.save(saved, self.cwd / "model.pt2")
        model = torch.onnx.export(exported, dynamo=True, optimize=False)
        model.save(str(self.cwd / "model.onnx"))
        open_axes = {d for i in model.model.graph.inputs for d in (str(one) for one in i.shape) if not d.isdigit()}
        done = self.attest("check", "model.onnx", "--on", "torch_program.py", "--cases", 4, "--laws", 1, "--timeout", "2m", "--continue-after-failure", "--json", "out.json",
                           "--constrain", " ".join(f"size.{axis}=2..9" for axis in sorted(open_axes)), timeout=400)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text())

    def test_a_program_holds_eager_and_compiled(self):
        program = program_of(Scores(0.5))
        summary = self.checked(program, program, 0)
        self.assertEqual(summary["runs"], 8)
        self.assertGreater(summary["verdicts"]["spread"]["pass"], 4)

    def test_a_program_that_computes_something_else_is_found(self):
        summary = self.checked(program_of(Scores(0.5)), program_of(Scores(0.501)), 1)
        self.assertEqual({finding["key"] for finding in summary["findings"]}, {"spread/fail/finite"})


WRONG = """import torch
right = torch.compile
torch.compile = lambda module, **options: (lambda compiled: lambda *inputs: compiled(*inputs) * 1.001)(right(module, **options))
import attest.runtimes.torch
"""


class Program(Cli):
    """`attest check model.pt2`: its graph is made on the way, with the lengths that it was exported for."""

    def checked(self, *words, status):
        done = self.attest("check", "model.pt2", "--cases", 3, "--laws", 0, "--continue-after-failure", "--json", "out.json", *words, timeout=600)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text())

    def test_holds(self):
        torch.export.save(program_of(Scores(0.5)), self.cwd / "model.pt2")
        summary = self.checked(status=0)
        self.assertEqual((summary["runs"], summary["verdicts"]["spread"]["pass"]), (6, 6))
        self.assertIn("torch", summary["subjects"][0])
        self.assertIn("(eager, compiled)", summary["subjects"][0])
        # The lengths of the program: 1 to 9.
        done = self.attest("check", "model.pt2", "--constrain", "size.nothing=1", timeout=300)
        self.assertEqual(done.returncode, 2)

    def test_a_wrong_compiler_is_found_and_replayed(self):
        torch.export.save(program_of(Scores(0.5)), self.cwd / "model.pt2")
        (self.cwd / "wrong.py").write_text(WRONG)
        summary = self.checked("--on", "wrong.py", "-o", "campaign", status=1)
        self.assertEqual([(finding["key"], finding["levels"], finding["passes_at"]) for finding in summary["findings"]],
                         [("spread/fail/finite", ["compiled"], ["eager"])])
        for axis in summary["findings"][0]["problem"].split():
            if axis.startswith("size."):
                self.assertLessEqual(int(axis.split("=")[1]), 9)
        done = self.attest("replay", "campaign/corpus", timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 as expected", done.stdout)

    def test_what_is_no_program_is_told_in_a_sentence(self):
        (self.cwd / "model.pt2").write_text("nothing")
        done = self.attest("check", "model.pt2", timeout=300)
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.stderr, "^attest: model.pt2: torch cannot read it, or has no ONNX graph of it: [^\n]*\n$")


if __name__ == "__main__":
    run()
