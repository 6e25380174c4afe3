"""A campaign against the oracle and the laws: contracts at random, a kernel that takes each to its edge, no finding allowed.

    campaign.py ATTEST HOSTILE.SO [--seed N] [--trials N | --trial N] [--elements N] [--cases N] [--laws K|all|some] [--mixed SHARE]

Prints how many elements were judged by policy, how many verdicts each law gave, and each finding with the smallest scheme
that still shows it. Status 1: a conforming kernel was blamed.
"""

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import time

from contracts import draw_trial

# Cheap problems, many elements; one is drawn for each contract.
DOMAINS = ["lk <= 32 && d <= 8 && dv <= 16 && lq <= 64", "lk <= 8 && d <= 4 && dv <= 16", "lk <= 8 && d <= 4 && dv <= 16",
           "lk <= 16 && d <= 4 && dv <= 16", "lk <= 64 && d <= 16 && dv <= 64 && lq * hq * b <= 256",
           "lk >= 64 && lk <= 512 && d <= 8 && dv <= 16 && lq <= 8 && b <= 2", "lk <= 4 && d <= 2",
           "lk >= 64 && lk <= 512 && d <= 8 && dv <= 16 && lq <= 8 && b <= 2 && bias == alibi",
           "lk >= 64 && lk <= 512 && d <= 8 && dv <= 16 && lq <= 8 && b <= 2 && values == falling"]
# Liberties in the order in which a finding is tried without them.
PLAIN = {"vary": 0, "off_subnormals": 0, "splits": 1, "merge": "none", "merge_by_lse": 1, "merge_weights_lse": 0,
         "normalise": "after", "tile": 1 << 30, "tiles": "ascending", "contiguous_splits": 1, "add_to_running": 1,
         "keep_shift": 0, "touch_masked": 0, "mask_added": 0, "flush": 0, "dot": "forward", "sum": "forward", "product": "forward",
         "power": "none", "fold": "score", "exp_side": "nearest", "rescale_side": "nearest", "div_side": "nearest",
         "tanh_side": "nearest", "reciprocal_cap": 0, "round_log2e": 0, "round_operand_first": 1, "root_of_rounded": 0,
         "store_unscaled": 0, "sum_rounded": 0, "sum_operand": 0, "narrow_division": 1, "two_passes": 0}


def policies_of(attest):
    """Stage formats of the named policies, as the program lists them."""
    listed = subprocess.run([attest, "list", "policies", "--json", "-"], check=True, capture_output=True, text=True).stdout
    return {policy["name"]: policy["stages"] for policy in json.loads(listed)}


def check(attest, plugin, trial, words, timeout=600):
    """The report of one `attest check` of the kernel under this trial's contract and scheme; None if it gave none."""
    env = dict(os.environ, ATTEST_HOSTILE=trial.words(), ATTEST_HOSTILE_DESCRIBE=trial.describe())
    env.pop("ATTEST_PARAMS", None)
    try:
        run = subprocess.run([attest, "check", plugin, "--in-process", "--jobs", "1", "--json", "-", *words], env=env,
                             capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None, "no answer within the limit"
    try:
        return json.loads(run.stdout), run.stderr
    except json.JSONDecodeError:
        return None, run.stdout + run.stderr


def smallest(attest, plugin, trial, finding, seconds=60):
    """The trial with as few liberties as still show the finding on its own problem."""
    words = ["--problem", finding["problem"], "--property", finding["property"], "--shrink-budget", "1"]
    def shows(candidate):
        report, _ = check(attest, plugin, candidate, words, 60)
        return bool(report and report["findings"])
    end = time.monotonic() + seconds
    if not shows(trial):
        return trial, False
    for key, value in PLAIN.items():
        if time.monotonic() > end:
            break
        if trial.scheme.get(key, value) != value:
            plainer = trial.with_scheme(**{key: value})
            if shows(plainer):
                trial = plainer
    return trial, True


def liberties(trial):
    return " ".join(f"{key}={value}" for key, value in trial.scheme.items() if key in PLAIN and value != PLAIN[key])


class Tally:
    """The results over contracts: elements by policy, verdicts by law, findings, and contracts that were refused."""

    def __init__(self):
        self.elements, self.laws, self.refused = collections.Counter(), collections.Counter(), collections.Counter()
        self.undetermined = self.problems = self.trials = self.found = 0
        self.started = time.monotonic()

    def judged(self):
        return sum(self.elements.values())

    def seconds(self):
        return time.monotonic() - self.started

    def refuse(self, errors):
        self.refused[errors.strip().split("\n")[-1][:300]] += 1

    def add(self, name, report):
        self.trials += 1
        self.elements[name] += report["elements"]
        self.undetermined += report["undetermined"]
        self.problems += report["cases"]
        for law, verdicts in report["verdicts"].items():
            for verdict, count in verdicts.items():
                self.laws[law, verdict] += sum(count.values()) if isinstance(count, dict) else count

    def blame(self, number, trial, finding, options):
        """Tells a finding, with as few liberties as still show it."""
        self.found += 1
        plain, same = smallest(options.attest, options.plugin, trial, finding)
        line = {"trial": number, "property": finding["property"], "contract": trial.contract,
                "liberties": liberties(plain), "same": same, "scheme": plain.scheme, "stages": plain.stages,
                "problem": finding.get("problem"), "witness": finding.get("witness")}
        print(f"\nBLAMED trial {number}: {finding['property']} | {line['liberties']} | {line['problem']}\n"
              f"  contract {json.dumps(trial.contract)}\n  witness {json.dumps(finding.get('witness'))}", flush=True)
        if options.findings:
            with open(options.findings, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def tell(self):
        """Prints the tables. Returns the exit status: 1 with a finding, 3 where no contract was asked."""
        print(f"\n{self.trials} contracts, {self.problems} problems, {self.judged()} elements judged, "
              f"{self.undetermined} undetermined, {self.found} findings, {self.seconds():.0f} s")
        for name, count in sorted(self.elements.items()):
            print(f"  {name:16} {count:12}")
        names = sorted({law for law, _ in self.laws})
        kinds = [kind for kind in ("pass", "warn", "fail", "error", "crash", "timeout", "flaky", "vacuous", "skip")
                 if any(self.laws[law, kind] for law in names)]
        print(f"\n  {'law':24}" + "".join(f"{kind:>14}" for kind in kinds))
        for law in names:
            print(f"  {law:24}" + "".join(f"{self.laws[law, kind]:14}" for kind in kinds))
        for words, count in self.refused.most_common():
            print(f"\n{count} contracts were refused: {words}")
        return 1 if self.found else 3 if not self.trials else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("attest")
    parser.add_argument("plugin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=1 << 30)
    parser.add_argument("--trial", type=int, default=None, help="this one alone")
    parser.add_argument("--elements", type=float, default=float("inf"), help="ends once so many were judged")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--cases", type=int, default=40,
                        help="problems of a contract under all laws; twenty times as many under few")
    parser.add_argument("--laws", default="some",
                        help="as check takes it; some: all of them on a quarter of the contracts")
    parser.add_argument("--mixed", type=float, default=0.3)
    parser.add_argument("--policy", action="append", help="only these")
    parser.add_argument("--assume", default=None)
    parser.add_argument("--property", default=None, help="this law alone")
    parser.add_argument("--without", default="",
                        help="of div, kappa, mma, before, subnormals, slack (all that is over 4 ulp): what is left plain, to look behind a finding")
    parser.add_argument("--findings", default=None, help="a file for lines of JSON")
    options = parser.parse_args()

    policies = policies_of(options.attest)
    if options.policy:
        policies = {name: policies[name] for name in options.policy}
    tally = Tally()
    stopped = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.append(True))  # ends after the contract in hand, with its tables
    print(f"seed {options.seed}", flush=True)
    for number in range(options.trials) if options.trial is None else [options.trial]:
        if stopped or tally.judged() >= options.elements or tally.seconds() > options.seconds:
            break
        source = random.Random(f"{options.seed}:{number}")
        mixed = source.random() < options.mixed
        trial = draw_trial(source, policies, mixed, options.without.split(","))
        domain = source.choice(DOMAINS) if options.assume is None else options.assume
        laws_ = source.choice(["all", "4", "0", "0"]) if options.laws == "some" else options.laws
        cases = options.cases if laws_ == "all" else 20 * options.cases if options.laws == "some" else options.cases
        words = ["--seed", str(source.getrandbits(32)), "--cases", str(cases), "--laws", laws_,
                 "--continue-after-failure", "--shrink-budget", "60"] + (["--assume", domain] if domain else [])
        if options.property:
            words += ["--property", options.property]
        report, errors = check(options.attest, options.plugin, trial, words)
        if report is None:
            tally.refuse(errors)
            continue
        tally.add("mixed stages" if mixed else trial.contract["policy"], report)
        for finding in report["findings"]:
            tally.blame(number, trial, finding, options)
    return tally.tell()


if __name__ == "__main__":
    sys.exit(main())
