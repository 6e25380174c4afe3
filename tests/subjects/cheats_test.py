#!/usr/bin/env python3
"""Subjects that answer without doing the work, or touch what is not theirs: each is found out, and none ends with status 0.

Usage: cheats_test.py ATTEST CHEATS SOURCE. CHEATS is the plug-in that plugins/cheats.c, SOURCE, becomes; the same source is compiled with
AddressSanitizer by whichever of gcc and clang is there.
"""
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# subject: its exit status, a word that the report must have, and further options
CHEATS = {
    "honest": (0, "every property held", ()),
    "kept-by-v": (1, "", ()),
    "kept-by-kv": (1, "", ()),
    "kept-by-qv": (1, "", ()),
    "kept-by-qk": (1, "", ()),
    "kept-by-qkv": (1, "", ()),
    "kept-by-shape": (1, "", ()),
    "kept-by-address": (1, "", ()),
    "kept-by-sum": (1, "", ()),
    "kept-by-first": (1, "", ()),
    "stale-after-a-while": (1, "", ()),
    "empty-work": (1, "never written", ()),
    "one-sample": (1, "", ()),
    "tail-behind": (1, "bytes after out", ()),
    "tail-kept": (1, "bytes after out", ()),
    "tail-between": (1, "bytes between", ()),
    "refuses-most": (5, "refused", ()),
    "refuses-all": (5, "does not take any", ()),
    "no-elements": (5, "nothing judged", ()),
}
# Laws that see it alone, under which nothing else may find it.
ALONE = {"kept-by-v": ("other-queries", "other-keys"), "kept-by-kv": ("other-queries",), "kept-by-qv": ("other-keys",),
         "kept-by-qk": ("other-values",), "kept-by-qkv": ("other-masks",), "tail-behind": ("guards",)}

failures = []


def expect(condition, what):
    if not condition:
        failures.append(what)
        print("FAILED", what, file=sys.stderr)


def run(attest, *words):
    return subprocess.run([attest, *map(str, words)], capture_output=True, text=True)


def check(attest, subject, *words):
    with tempfile.TemporaryDirectory() as folder:
        done = run(attest, "check", subject, "--jobs", 2, "--json", Path(folder) / "out.json", "--junit", Path(folder) / "out.xml", *words)
        return done, json.loads((Path(folder) / "out.json").read_text()), (Path(folder) / "out.xml").read_text()


def cheats(attest, plugin):
    for name, (status, word, options) in CHEATS.items():
        done, summary, junit = check(attest, f"{plugin}:{name}", "--cases", 400, "--shrink-budget", 20, *options)
        told = done.stdout + done.stderr
        expect(done.returncode == status, f"{name}: status {done.returncode} in place of {status}\n{told}")
        expect(summary["exit"] == status, f"{name}: the report says {summary['exit']}")
        expect(word in told, f"{name}: nothing is said of '{word}':\n{told}")
        expect(("<error" in junit) == (status == 5), f"{name}: JUnit does not agree")
        if status == 5:
            expect("nothing judged" in done.stderr and summary["unjudged"], f"{name}: no sentence on stderr: {done.stderr}")
    for name, laws in ALONE.items():
        for law in laws:
            done, summary, _ = check(attest, f"{plugin}:{name}", "--property", law, "--cases", 400, "--shrink-budget", 1)
            expect(done.returncode == 1, f"{name}: {law} alone does not find it: status {done.returncode}")


def sleeper(attest, plugin):
    """A call that does not return is a finding, whatever the time that it began before."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        done = run(attest, "check", f"{plugin}:sleeps", "--time", "1s", "--timeout", "4s", "--jobs", 2, "--json", out)
        summary = json.loads(out.read_text())
        kinds = [finding["verdict"] for finding in summary["findings"]]
        expect(done.returncode == 1 and kinds == ["timeout"], f"sleeps: status {done.returncode}, {kinds}\n{done.stdout}{done.stderr}")


def sanitized(attest, source):
    """A plug-in with AddressSanitizer starts, and what it reads beside its tensors is its crash, with the sanitizer's words."""
    for compiler in ("gcc", "clang"):
        if not shutil.which(compiler):
            continue
        with tempfile.TemporaryDirectory() as folder:
            plugin = Path(folder) / "cheats.so"
            include = Path(source).resolve().parents[3] / "include"
            built = subprocess.run([compiler, "-std=c11", "-g", "-O1", "-fsanitize=address", "-fPIC", "-shared", "-I", include, source, "-o",
                                    plugin, "-lm"], capture_output=True, text=True)
            if built.returncode != 0:
                print(f"{compiler} has no AddressSanitizer here: not tried")
                continue
            done = run(attest, "check", f"{plugin}:honest", "--cases", 100, "--jobs", 2)
            expect(done.returncode == 0, f"{compiler}: honest: status {done.returncode}\n{done.stdout}{done.stderr}")
            done = run(attest, "check", f"{plugin}:reads-behind", "--cases", 20, "--jobs", 1, "--shrink-budget", 5)
            expect(done.returncode == 1 and "AddressSanitizer" in done.stdout and "reads_behind" in done.stdout,
                   f"{compiler}: reads-behind: status {done.returncode}\n{done.stdout}{done.stderr}")


def main():
    attest, plugin, source = sys.argv[1:]
    cheats(attest, plugin)
    sleeper(attest, plugin)
    sanitized(attest, source)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
