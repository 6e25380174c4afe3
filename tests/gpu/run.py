#!/usr/bin/env python3
"""The CUDA example and its planted faults on a real GPU: builds them with nvcc, asks attest, and prints one table.

Usage: ATTEST=path/of/attest run.py FOLDER [--option VALUE...]

FOLDER   gets the plug-ins, the campaigns and all that was printed
--time   of each campaign (60)       --elements  that each clean subject is to have judged (1e7), within three times that time
--calls  in whose second half memory may not grow (20000)       --assume  narrows all campaigns further
--python whose torch and triton run the Triton example (python3)       --arch  for nvcc (the first GPU's)
--sanitize   compute-sanitizer over the clean kernel, too       --only  of growth, clean, far, faults, triton

Ends with 1 if a clean kernel was blamed, fell short of the elements or took memory, or a fault was not found; 125 where there is
no GPU or no nvcc.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults import FAULTS, planted

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/cuda"
# Rows of the table: subject of the plug-in, what narrows it, jobs.
CLEAN = {"f16": ("fused", "dtype==f16", 4), "bf16": ("fused", "dtype==bf16", 4), "f32": ("fused", "dtype==f32", 4),
         "tf32": ("tf32", None, 4)}
FAR = "q_layout==far || k_layout==far || v_layout==far || out_layout==far"
PARTS = ("growth", "clean", "far", "faults", "triton")


class Run:
    def __init__(self, options):
        self.options = options
        self.folder = Path(options.folder).resolve()
        self.attest = shutil.which(os.environ.get("ATTEST", "attest"))
        self.start = time.monotonic()
        self.bad = []

    def say(self, text):
        print(f"[{time.monotonic() - self.start:5.0f} s] {text}", flush=True)

    def logged(self, name, command):
        """Runs it with both outputs in a file; returns (status, text)."""
        log = self.folder / "logs" / f"{name}.txt"
        with log.open("a") as file:
            file.write("$ " + " ".join(map(str, command)) + "\n")
            file.flush()
            try:
                status = subprocess.run([*map(str, command)], stdout=file, stderr=subprocess.STDOUT, cwd=self.folder,
                                        timeout=120 + 2 * self.options.time).returncode
            except subprocess.TimeoutExpired:
                status = 124
        return status, log.read_text(errors="replace")

    # ---- building ------------------------------------------------------------------------------------------------

    def compile(self, name, *words):
        status, text = self.logged(f"nvcc-{name}", ["nvcc", "-std=c++17", "-O3", f"-arch={self.options.arch}", "-I", ROOT / "include",
                                                    "-I", EXAMPLE, "-Xcompiler", "-fPIC", *words])
        if status != 0:
            raise SystemExit(f"run.py: nvcc failed ({self.folder}/logs/nvcc-{name}.txt)\n{text[-2000:]}")

    def build(self):
        """Plug-ins of the clean kernel and of each fault; the part that knows attest is compiled once."""
        wanted = {"clean": None} | {fault.name: fault for fault in FAULTS if "faults" in self.options.only}

        def kernel(name):
            source = self.folder / "src" / f"{name}.cu"
            source.write_text((EXAMPLE / "fused_attention.cu").read_text() if wanted[name] is None else planted(wanted[name]))
            self.compile(name, "-c", source, "-o", source.with_suffix(".o"))

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            jobs = [pool.submit(kernel, name) for name in wanted]
            jobs.append(pool.submit(self.compile, "plugin", "-c", EXAMPLE / "plugin.cu", "-o", self.folder / "src/plugin.o"))
            jobs.append(pool.submit(self.compile, "growth", "-x", "cu", ROOT / "tests/gpu/growth.cpp", "-o", self.folder / "growth"))
            for job in jobs:
                job.result()
            for job in [pool.submit(self.compile, f"link-{name}", "-shared", self.folder / f"src/{name}.o", self.folder / "src/plugin.o",
                                    "-o", self.plugin(name)) for name in wanted]:
                job.result()

    def plugin(self, name):
        return self.folder / f"{name}.so"

    # ---- asking --------------------------------------------------------------------------------------------------

    def fuzz(self, name, subject, jobs, assume=None, more=()):
        """One campaign, or more of it. Returns its JSON, or None with a complaint."""
        report = self.folder / f"{name}.json"
        report.unlink(missing_ok=True)
        command = [self.attest, "fuzz", subject, "--seed", 1, "--jobs", jobs, "--time", f"{self.options.time}s",
                   "-o", self.folder / "campaigns" / name, "--json", report, *more]
        assumed = " && ".join(f"({each})" for each in (assume, self.options.assume) if each)
        status, text = self.logged(name, command + (["--assume", assumed] if assumed else []))
        if status in (0, 1) and report.exists():
            return json.loads(report.read_text())
        self.bad.append(f"{name}: attest ended with {status}: {text.strip().splitlines()[-1] if text.strip() else ''}")
        return None

    def clean(self, name, subject, assume, jobs, elements, more=()):
        """Until it has judged that many elements."""
        report, spent = None, 0
        while spent < 3 * self.options.time and (report is None or report["elements"] < elements):
            report = self.fuzz(name, subject, jobs, assume, more)
            spent += self.options.time
            if report is None or report["exit"] != 0:
                break
        if report is None:
            return f"{name:8} did not run"
        if report["exit"] != 0:
            self.bad.append(f"{name}: the clean kernel was blamed: {self.first(report)}")
        if report["elements"] < elements:
            self.bad.append(f"{name}: {report['elements']:,} elements of the {elements:,} wanted")
        return (f"{name:8} {report['cases']:9,} {report['judged']:9,} {report['elements']:13,} {report['elements_long']:12,} "
                f"{len(report['findings']):8} {report['seconds']:8.1f}  skipped: {told(report['skipped'])}")

    @staticmethod
    def first(report):
        if not report["findings"]:
            return ""
        finding = min(report["findings"], key=lambda f: f["cases_to_first"])
        return f"{finding['bucket']} | {finding['problem']}"

    def fault(self, fault):
        report = self.fuzz(fault.name, f"{self.plugin(fault.name)}:{fault.subject}", 1 if fault.subject == "far" else 2,
                           FAR if fault.subject == "far" else None)
        if report is None:
            return f"{fault.name:20} did not run"
        if not report["findings"]:
            self.bad.append(f"{fault.name}: not found in {report['cases']:,} problems")
            return f"{fault.name:20} NOT FOUND in {report['cases']:,} problems"
        soonest = min(report["findings"], key=lambda f: f["cases_to_first"])
        lines = [f"{fault.name:20} after {soonest['seconds_to_first']:.1f} s, {soonest['cases_to_first']:,} problems; "
                 f"{report['failing_cases']:,} of {report['cases']:,} fail, {len(report['findings'])} buckets, "
                 f"{len(report['defects'])} defects"]
        for number, defect in enumerate(report["defects"][:2], 1):
            explained = defect.get("explained") or {}
            lines += [f"    {number}. {defect['buckets'][0]}", f"       {defect['problem']}"]
            if explained.get("predicate"):
                lines.append(f"       where {explained['predicate']}: fails {explained['failing']:,} of {explained['asked']:,}, "
                             f"elsewhere {explained['failing_elsewhere']:,} of {explained['elsewhere']:,}")
        return "\n".join(lines)

    # ---- parts ---------------------------------------------------------------------------------------------------

    def growth(self):
        status, text = self.logged("growth", [self.folder / "growth", self.plugin("clean"), "fused", self.options.calls])
        if status != 0:
            self.bad.append(f"growth: ended with {status}")
        return "\n".join(text.strip().splitlines()[1:])

    def sanitize(self):
        rows = []
        for tool in ("memcheck", "racecheck", "initcheck"):
            for subject in ("fused", "tf32"):
                status, text = self.logged(f"sanitizer-{tool}-{subject}", ["compute-sanitizer", "--tool", tool, "--error-exitcode", 9,
                                           self.folder / "growth", self.plugin("clean"), subject, 50])
                summary = [line for line in text.splitlines() if "SUMMARY" in line]
                rows.append(f"{tool} {subject}: {summary[-1].strip('= ') if summary else f'ended with {status}'}")
                if status == 9:
                    self.bad.append(rows[-1])
        return "\n".join(rows)

    def triton(self):
        subject = f"{ROOT / 'examples/triton_subject.py'}:flash"
        if not self.has("triton"):
            return "triton is not there: skipped"
        return self.clean("triton", subject, None, 4, 0, ["--timeout", "60s"])  # its first calls are compiled

    def has(self, module):
        return subprocess.run([self.options.python, "-c", f"import {module}"], capture_output=True).returncode == 0

    def all(self):
        only, clean = self.options.only, self.plugin("clean")
        for command in (["nvidia-smi", "-L"], ["nvcc", "--version"], [self.attest, "--version"]):
            print(subprocess.run(command, capture_output=True, text=True).stdout.strip().splitlines()[-1], flush=True)
        self.say("building")
        self.build()
        if "growth" in only:
            self.say(f"{self.options.calls:,} calls")
            print(self.growth(), flush=True)
        if self.options.sanitize:
            self.say("compute-sanitizer")
            print(self.sanitize() if shutil.which("compute-sanitizer") else "compute-sanitizer is not there: skipped", flush=True)
        with ThreadPoolExecutor(64) as pool:
            rows = []
            if "clean" in only:
                rows += [pool.submit(self.clean, name, f"{clean}:{subject}", assume, jobs, self.options.elements)
                         for name, (subject, assume, jobs) in CLEAN.items()]
            if "far" in only:
                rows.append(pool.submit(self.clean, "far", f"{clean}:far", FAR, 1, 0))
            if rows:
                self.say("clean kernels: no finding is right")
                print(f"{'':8} {'problems':>9} {'judged':>9} {'elements':>13} {'with 256 keys':>12} {'findings':>8} {'seconds':>8}")
            for row in rows:
                print(row.result(), flush=True)
            faults = [pool.submit(self.fault, fault) for fault in FAULTS] if "faults" in only else []
            triton = pool.submit(self.triton) if "triton" in only else None
            if faults:
                self.say("planted faults: each must be found")
            for row in faults + [triton] * (triton is not None):
                print(row.result(), flush=True)
        self.say("done")
        print("\n".join(["", *(f"WRONG  {line}" for line in self.bad)] if self.bad else ["", "all as it should be"]))
        return 1 if self.bad else 0


def first_arch():
    """The architecture of the first GPU, sm_90, or `native` where nvidia-smi does not tell."""
    asked = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    capability = subprocess.run(asked, capture_output=True, text=True).stdout.splitlines()[:1]
    digits = capability[0].strip().replace(".", "") if capability else ""
    return f"sm_{digits}" if digits.isdigit() else "native"


def told(counts):
    return ", ".join(f"{reason} {n:,}" for reason, n in sorted(counts.items(), key=lambda item: -item[1])[:2]) or "none"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--time", type=int, default=60)
    parser.add_argument("--elements", type=lambda text: int(float(text)), default=10**7)
    parser.add_argument("--calls", type=int, default=20000)  # a driver takes 2 MiB once, after some 5,000
    parser.add_argument("--assume")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--arch")
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    options = parser.parse_args()
    if unknown := set(options.only) - set(PARTS):
        parser.error(f"--only takes {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    os.environ.setdefault("ATTEST_PYTHON", options.python)
    run = Run(options)
    if run.attest is None:
        sys.exit("run.py: set ATTEST to the program attest")
    run.attest = str(Path(run.attest).resolve())
    for need, command in (("nvcc", ["nvcc", "--version"]), ("a GPU", ["nvidia-smi", "-L"])):
        if shutil.which(command[0]) is None or subprocess.run(command, capture_output=True).returncode != 0:
            print(f"run.py: skipped, {need} is not here ({' '.join(command)})", file=sys.stderr)
            return 125
    if options.arch is None:
        options.arch = first_arch()
    for folder in ("logs", "src", "campaigns"):
        (run.folder / folder).mkdir(parents=True, exist_ok=True)
    return run.all()


if __name__ == "__main__":
    sys.exit(main())
