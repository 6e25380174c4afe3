#!/usr/bin/env python3
"""attest merge: shards in any order, killed at any moment and gone on with, are the campaign without shards; corpora; and where a
shard reads its place.

Usage: merge_test.py ATTEST [unittest option...]
"""
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from command_line import ROOT, Cli, run

SCHEDULERS = ("SLURM_", "JOB_COMPLETION_INDEX", "OMPI_", "PMI_")
TIMES = ("seconds", "seconds_in")


class Merge(Cli):
    FAULT, SEED, CASES = "fault:causal-corner", 5, 240

    def setUp(self):
        super().setUp()
        self.outside = {key: os.environ.pop(key) for key in list(os.environ) if key.startswith(SCHEDULERS)}

    def tearDown(self):
        os.environ.update(self.outside)
        super().tearDown()

    def done(self, *words, status=0):
        done = self.attest(*words)
        self.assertEqual(done.returncode, status, done.stdout[-2000:] + done.stderr[-2000:])
        return done

    def words(self, folder, *more):
        return ["fuzz", self.FAULT, "--seed", self.SEED, "--cases", self.CASES, "--jobs", 2, "-o", folder, *more]

    def shards(self, count, prefix="s"):
        names = [f"{prefix}{index}of{count}" for index in range(1, count + 1)]
        for index, name in enumerate(names, 1):
            self.done(*self.words(name, "--shard", f"{index}/{count}"), status=1)
        return names

    def whole(self):
        self.done(*self.words("whole", "--no-avoid"), status=1)
        return "whole"

    def facts(self, folder):
        """All that a folder says but for times, places and the steps of shrinking."""
        folder = self.cwd / folder
        progress = json.loads((folder / "progress.jsonl").read_text().splitlines()[-1])
        for key in TIMES:
            progress["summary"].pop(key)
        corpus = {file.relative_to(folder / "corpus"): file.read_bytes() for file in (folder / "corpus").rglob("*.json")}
        return {"campaign": (folder / "campaign.json").read_bytes(), "cases": (folder / "cases.jsonl").read_bytes(), "progress": progress, "corpus": corpus}

    def test_shards_in_any_order_are_the_campaign_without(self):
        whole = self.whole()
        names = self.shards(8)
        self.done("merge", *names, "-o", "union")
        for number, order in enumerate((reversed(names), names[3:] + names[:3])):
            (self.cwd / f"other{number}").mkdir()
            self.done("merge", *order, "-o", f"other{number}/union")
            files = lambda folder: {file.relative_to(self.cwd / folder): file.read_text().replace(f"other{number}/union", "union")
                                    for file in (self.cwd / folder).rglob("*") if file.is_file()}
            self.assertEqual(files(f"other{number}/union"), files("union"))
        mine, theirs = self.facts("union"), self.facts(whole)
        for key in ("campaign", "cases", "progress"):
            self.assertEqual(mine[key], theirs[key], key)
        # A union tells what is one defect when it is asked: both are.
        for folder in ("union", whole):
            self.done("triage", folder, status=1)
        self.assertEqual(self.facts("union")["corpus"], self.facts(whole)["corpus"])

    def test_the_number_of_shards_makes_no_difference(self):
        unions = []
        for count in (2, 5):
            self.done("merge", *self.shards(count), "-o", f"union{count}")
            unions.append(self.facts(f"union{count}"))
        for key in ("campaign", "cases", "progress"):
            self.assertEqual(unions[0][key], unions[1][key])

    def test_a_union_goes_on(self):
        self.done("merge", *self.shards(3), "-o", "union")
        self.CASES = 330
        self.done(*self.words("union", "--no-avoid"), status=1)
        mine, theirs = self.facts("union"), self.facts(self.whole())
        self.assertEqual(mine["cases"], theirs["cases"])
        self.assertEqual(mine["progress"]["summary"], theirs["progress"]["summary"])

    def test_killed_at_any_moment_and_gone_on_with(self):
        names = self.shards(2)
        self.done("merge", *names, "-o", "union")
        chance = random.Random(7)
        kills = int(os.environ.get("ATTEST_KILLS", "12"))
        landed = 0
        for moment in range(kills):
            shutil.rmtree(self.cwd / "killed", ignore_errors=True)
            begin = time.monotonic()
            env = {**os.environ, "XDG_STATE_HOME": str(self.cwd / "state")}
            running = subprocess.Popen([self.program, *map(str, self.words("killed", "--shard", "2/2"))], cwd=self.cwd, env=env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            # It is killed once its first file is there: before that it is no campaign yet.
            while not (self.cwd / "killed/campaign.json").exists() and running.poll() is None and time.monotonic() < begin + 60:
                time.sleep(0.001)
            time.sleep(chance.uniform(0, 1.2))
            running.send_signal(signal.SIGKILL)
            landed += running.wait() == -signal.SIGKILL
            self.done(*self.words("killed", "--shard", "2/2"), status=1)
            shutil.rmtree(self.cwd / "again", ignore_errors=True)
            self.done("merge", "killed", names[0], "-o", "again")
            self.assertEqual(self.facts("again"), self.facts("union"), f"kill {moment}")
        self.assertGreater(landed, kills // 4, "most were over before they could be killed")

    def test_what_is_no_union_is_refused(self):
        one, two, three = self.shards(3)
        shutil.copytree(self.cwd / one, self.cwd / "copy")
        self.refused("merge", one, "copy", two, "-o", "u", says=["both hold shard 1/3"])
        self.SEED = 6
        self.done(*self.words("stranger", "--shard", "3/3"), status=1)
        self.refused("merge", one, two, "stranger", "-o", "u", says=["seed is 5 in the one, 6 in the other"])
        self.SEED = 5
        self.done(*self.words("half", "--shard", "1/2"), status=1)
        self.refused("merge", one, "half", "-o", "u", says=["number of shards"])
        self.refused("merge", one, two, "-o", one, says=["is there already"])
        self.refused("merge", one, two, says=["-o"])
        self.refused("merge", one, "nowhere", "-o", "u", says=["is no folder"])
        self.refused("merge", one, f"{two}/corpus", "-o", "u", says=["holds no campaign"])
        (self.cwd / two / "cases.jsonl").write_text("[1,0\n")
        self.refused("merge", one, two, three, "-o", "u", says=["cases.jsonl:1", "damaged"])
        self.assertEqual([path for path in self.cwd.iterdir() if path.name.startswith("u")], [])

    def test_shards_that_are_missing_or_came_less_far_are_told(self):
        one, two, three = self.shards(3)
        self.assertIn("1 of 3 shards are missing: 2", self.done("merge", one, three, "-o", "part", status=5).stdout)
        self.refused(*self.words("part"), says=["holds another campaign"])
        self.assertIn("has not come to its end", self.done("report", "part", "-o", "-").stdout)
        self.refused("merge", "part", two, "-o", "u", says=["is a union already"])
        self.CASES = 90
        self.done(*self.words("short", "--shard", "2/3"), status=1)
        self.assertIn("came to different cases: 91 is the first that is missing", self.done("merge", one, "short", three, "-o", "uneven", status=5).stdout)

    def corpora(self):
        for seed, name in ((1, "a"), (2, "b")):
            self.done("check", self.FAULT, "--seed", seed, "--cases", 200, "--continue-after-failure", "--corpus", name, status=1)
        return {name: {file.name: file for file in (self.cwd / name).rglob("*.json")} for name in "ab"}

    def test_corpora(self):
        files = self.corpora()
        self.done("merge", "a", "b", "-o", "ab")
        self.done("merge", "b", "a", "-o", "ba")
        read = lambda name: {file.relative_to(self.cwd / name): file.read_bytes() for file in (self.cwd / name).rglob("*.json")}
        self.assertEqual(read("ab"), read("ba"))
        self.assertEqual({path.name for path in read("ab")}, set(files["a"]) | set(files["b"]))
        self.done("replay", "ab")
        self.done("merge", "ab", "--minimise", "-o", "least")
        self.assertLess(len(read("least")), len(read("ab")))
        without_law = lambda name: re.sub(r"^[a-z-]+_fail_(finite|nonfinite)_", "", name.name.rsplit("-", 1)[0])
        self.assertEqual({without_law(path) for path in read("least")}, {without_law(path) for path in read("ab")})
        self.done("replay", "least")

    def test_what_was_edited_by_hand_is_renewed_and_what_is_damaged_named(self):
        files = self.corpora()["a"]
        first, second = (files[name] for name in sorted(files)[:2])
        first.write_text(first.read_text().replace('"reference": ""', '"reference": "a report of ours"'))
        self.done("replay", first, status=2)
        second.write_text(second.read_text()[:-40])
        done = self.done("merge", "a", "-o", "c", status=2)
        self.assertIn(second.name, done.stderr)
        self.assertIn("1 had been edited", done.stdout)
        self.assertEqual(len(list((self.cwd / "c").rglob("*.json"))), len(files) - 1)
        self.done("replay", "c")
        self.assertIn("a report of ours", next((self.cwd / "c").rglob(first.name)).read_text())

    def test_a_script_is_found_from_where_the_union_lies(self):
        (self.cwd / "kernels").mkdir()
        shutil.copy(ROOT / "examples/attention_subject.py", self.cwd / "kernels/mine.py")
        python = os.environ.get("ATTEST_PYTHON", "python3")
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode != 0:
            self.skipTest("no numpy here; ATTEST_PYTHON names a Python that has it")
        self.done("check", "kernels/mine.py:forgets_scale", "--cases", 50, "--corpus", "kernels/corpus", status=1)
        (self.cwd / "far/away").mkdir(parents=True)
        self.done("merge", "kernels/corpus", "-o", "far/away/union")
        self.done("replay", "far/away/union")

    def place(self, *words, status=1, **env):
        for key in [key for key in os.environ if key.startswith(SCHEDULERS)]:
            del os.environ[key]
        os.environ.update(env)
        try:
            done = self.attest("check", self.FAULT, "--cases", 40, "--json", "-", *words)
        finally:
            for key in env:
                os.environ.pop(key, None)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout)["shard"] if status == 1 else done.stderr

    def test_where_a_shard_reads_its_place(self):
        slurm = lambda index, least=1, most=8, step=1, count=8: {
            "SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_MIN": str(least), "SLURM_ARRAY_TASK_MAX": str(most),
            "SLURM_ARRAY_TASK_STEP": str(step), "SLURM_ARRAY_TASK_COUNT": str(count)}
        self.assertEqual(self.place(), "")
        self.assertEqual(self.place(**slurm(3)), "3/8")
        self.assertEqual(self.place("--shard", 8, **slurm(3)), "3/8")
        self.assertEqual(self.place("--shard", "2/5", **slurm(3)), "2/5")
        self.assertEqual(self.place("--shard", "1/1", **slurm(3)), "")
        self.assertEqual(self.place(**slurm(0, 0, 3, 1, 4)), "1/4")
        self.assertEqual(self.place(**slurm(14, 10, 16, 2, 4)), "3/4")
        self.assertIn("not evenly apart", self.place(status=2, **slurm(3, 1, 7, 1, 3)))
        self.assertIn("is of 8", self.place("--shard", 4, status=2, **slurm(3)))
        self.assertEqual(self.place("--shard", 4, JOB_COMPLETION_INDEX="3"), "4/4")
        self.assertEqual(self.place(JOB_COMPLETION_INDEX="3"), "")
        self.assertIn("not below 3", self.place("--shard", 3, status=2, JOB_COMPLETION_INDEX="3"))
        self.assertIn("is no number", self.place("--shard", 3, status=2, JOB_COMPLETION_INDEX="-1"))
        self.assertEqual(self.place(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2"), "2/2")
        self.assertEqual(self.place(PMI_RANK="0", PMI_SIZE="2"), "1/2")
        self.assertIn("no scheduler", self.place("--shard", 3, status=2))
        self.refused("fuzz", self.FAULT, "--cases", 10, "--shard", "1/2", says=["needs --seed"])

    def test_manifests(self):
        """They run as their schedulers would run them."""
        path = {"PATH": f"{Path(self.program).parent}:{os.environ['PATH']}", "XDG_STATE_HOME": str(self.cwd / "state")}
        for index in range(1, 9):
            env = {**os.environ, **path, "SUBJECT": self.FAULT, "SEED": str(self.SEED), "CASES": str(self.CASES), "OUT": str(self.cwd / "slurm"),
                   "SLURM_ARRAY_TASK_ID": str(index), "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "8",
                   "SLURM_ARRAY_TASK_STEP": "1", "SLURM_ARRAY_TASK_COUNT": "8", "SLURM_CPUS_PER_TASK": "2"}
            done = subprocess.run(["bash", ROOT / "examples/nightly/slurm.sbatch"], cwd=self.cwd, env=env, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        array = re.search(r"^#SBATCH --array=1-(\d+)$", (ROOT / "examples/nightly/slurm.sbatch").read_text(), re.MULTILINE)
        self.assertEqual(array[1], "8")
        manifest = (ROOT / "examples/nightly/kubernetes.yaml").read_text()
        completions = int(re.search(r"^  completions: (\d+)$", manifest, re.MULTILINE)[1])
        command = re.search(r"^            - (attest .*)$", manifest, re.MULTILINE)[1]
        self.assertIn(f"--shard {completions} ", command)
        for old, new in (("/kernel/kernel.so", self.FAULT), ("20261126", str(self.SEED)), ("1000000", str(self.CASES)), ("/nightly", str(self.cwd / "pods"))):
            self.assertIn(old, command)
            command = command.replace(old, new)
        for index in range(completions):
            done = subprocess.run(["/bin/sh", "-c", command], cwd=self.cwd, env={**os.environ, **path, "JOB_COMPLETION_INDEX": str(index)}, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("slurm", "pods"):
            self.done("merge", *sorted((self.cwd / name).glob("shard-*")), "-o", f"{name}-all")
        self.assertEqual(self.facts("slurm-all"), self.facts("pods-all"))
        self.assertEqual(self.facts("slurm-all")["cases"], self.facts(self.whole())["cases"])


if __name__ == "__main__":
    run()
