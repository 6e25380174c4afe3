"""Builds of a runtime that --on names: options in them, what is not there, notes, and what an entry may hand over. Usage: model_builds_test.py ATTEST"""
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from need_package import need

need("onnxruntime", "./run test installs it")
from command_line import ROOT, Cli, run

os.environ["ATTEST_PYTHON"] = sys.executable

RUNTIME = '''
import onnxruntime
import attest

def accepts(build):
    words, options = attest.split_build(build)
    if words[0] == "gone":
        raise attest.Unsupported("the device is not here: plug it in")
    if words[0] == "broken":
        raise ValueError("no such thing")
    with open("accepted", "a") as file:
        print(build, options, file=file)
    return words == ["fast"]

@attest.runtime(version="1", builds=("plain",), accepts=accepts)
def own(model, *, build, threads):
    words, options = attest.split_build(build)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    def run(feeds, names):
        got = session.run(names, feeds)
        if options.get("add"):
            got[0] = got[0] + got[0].dtype.type(float(options["add"]))
        return got
    run.note = f"half of the nodes\\nare elsewhere, {options}" if options.get("note") else ""
    return run
'''


class Builds(Cli):
    def setUp(self):
        super().setUp()
        shutil.copy(ROOT / "tests" / "graph" / "models" / "norm.onnx", self.cwd)
        (self.cwd / "own.py").write_text(RUNTIME)

    def check(self, on, *words, status, model="norm.onnx"):
        done = self.attest("check", model, "--on", on, "--cases", 4, "--json", "out.json", *words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads((self.cwd / "out.json").read_text()), done

    def test_options_reach_the_runtime_as_they_were_meant(self):
        summary, done = self.check("own.py:plain,own.py:fast+a=x:y/1%2C2%2B3+b={\"c\":\"d\"}", status=0)
        self.assertIn("external:own 1 (plain, fast+a=x:y/1%2C2%2B3+b={\"c\":\"d\"})", done.stdout)
        self.assertEqual(summary["runs"], 8)
        accepted = set((self.cwd / "accepted").read_text().splitlines())
        self.assertEqual(accepted, {"plain {}", "fast+a=x:y/1%2C2%2B3+b={\"c\":\"d\"} " + str({"a": "x:y/1,2+3", "b": '{"c":"d"}'})})
        self.assertNotIn("notes", summary)

    def test_what_is_not_there_is_one_sentence(self):
        self.refused("check", "norm.onnx", "--on", "own.py:gone+a=1", status=4, says=["own: the device is not here: plug it in"])
        self.refused("check", "norm.onnx", "--on", "own.py:broken", status=4, says=["own.py cannot say whether it has the build broken: ValueError: no such thing"])
        self.refused("check", "norm.onnx", "--on", "own.py:slow+a=1", status=2, says=["own.py has no build 'slow+a=1': it has plain"])
        self.refused("check", "norm.onnx", "--on", "own.py:fast+a=1+a=2", status=4, says=["it has the option a twice"])
        self.refused("check", "norm.onnx", "--on", "onnxruntime:fast", status=2, says=["onnxruntime has no build 'fast'"])
        self.refused("check", "norm.onnx", "--on", "onnxruntime:all+NopeExecutionProvider+a={\"b\":1}", status=4,
                     says=["onnxruntime: there is no provider NopeExecutionProvider here", "install"])

    def test_a_note_of_the_runtime_is_told_beside_its_results(self):
        summary, done = self.check("own.py:fast+note=1,onnxruntime:all", "-o", "campaign", status=0)
        note = "half of the nodes are elsewhere, {'note': '1'}"
        self.assertEqual(summary["notes"], {"external:own fast+note=1": note})
        self.assertIn(f"external:own fast+note=1: {note}\n", done.stdout)
        # A campaign on the same folder tells again the note that it finds there.
        again, _ = self.check("own.py:fast+note=1,onnxruntime:all", "-o", "campaign", status=0)
        self.assertEqual((again["resumed"], again["notes"]), (4, summary["notes"]))
        self.assertEqual(self.attest("report", "campaign").returncode, 0)
        self.assertIn("external:own fast+note=1: half of the nodes are elsewhere", (self.cwd / "campaign" / "report.html").read_text())

    def test_an_entry_hands_over_what_was_handed_over_before(self):
        build = "fast+add=1+x=" + "y" * 150
        other = "fast+add=1+x=" + "y" * 150 + "z"
        self.check(f"own.py:{build},own.py:{other}", "--corpus", "corpus", "--property", "spread", status=1)
        self.check(f"own.py:{other}", "--corpus", "corpus", "--property", "spread", status=1)
        files = sorted((self.cwd / "corpus").glob("*/*.json"))
        self.assertEqual(len(files), 2, files)  # names are cut, and differ
        self.assertEqual({json.loads(file.read_text())["build"]["level"] for file in files}, {build, other})
        self.assertEqual(self.attest("replay", "corpus").returncode, 0)
        file = next(file for file in files if json.loads(file.read_text())["build"]["level"] == build)
        noted = self.cwd / "state" / "attest" / "subjects"
        lines = noted.read_text().splitlines()
        self.assertIn(f"build external:own:{build}", lines)
        noted.write_text("".join(f"{line}\n" for line in lines if not line.startswith("build ")))
        done = self.attest("replay", file)
        self.assertEqual(done.returncode, 4, done.stdout)
        self.assertIn(f"no corpus file hands options to a runtime, which may name a library: if you trust it, --on ", done.stdout)
        self.assertEqual(self.attest("replay", file, "--on", f"own.py:{build}").returncode, 0)
        self.assertEqual(self.attest("replay", file, "--on", f"own.py:{other}").returncode, 4)  # another one is no word on this


if __name__ == "__main__":
    run()
