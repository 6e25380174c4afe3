#!/usr/bin/env python3
"""The surroundings of a run: disks that are full, folders that are missing or another's, signals, subjects that take all memory or
never load, names that would talk to a terminal. One sentence and the right status each, and nothing that was found is lost.

Usage: environment_test.py ATTEST [unittest option...]
"""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ATTEST = None
FAULT = ("fault:scale-twice", "--seed", "1", "--jobs", "1")

PLUGIN = r"""
#include <attest/plugin.h>
#include <stdlib.h>
#include <string.h>
%s
static int attention(void* self, const attest_attention* call, char* message, size_t size) {
  (void)self, (void)call, (void)message, (void)size;
  %s
  return ATTEST_UNSUPPORTED;
}
static const attest_subject subjects[] = {{.struct_size = sizeof(attest_subject), .name = "mine", .version = "1",
  .describe = "{\"ops\":[\"attention\"],\"dtypes\":[\"f32\"]}", .attention = attention}};
const attest_subject* attest_plugin(uint32_t abi, size_t* count) { *count = 1; return abi == ATTEST_ABI ? subjects : NULL; }
"""


class Environment(unittest.TestCase):
    def setUp(self):
        self.cwd = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.cwd, True)

    def attest(self, *words, largest_file=None, env=(), timeout=600, before=None):
        def limit():
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        environment = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"}
        return subprocess.run([ATTEST, *map(str, words)], cwd=self.cwd, env={**environment, **dict(env)}, text=True,
                              capture_output=True, timeout=timeout, preexec_fn=limit, errors="surrogateescape")

    def refused(self, done, status, *says):
        self.assertEqual(done.returncode, status, done.stdout[-2000:] + done.stderr)
        last = done.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("attest: "), done.stderr)
        for word in says:
            self.assertIn(word, last)

    def plugin(self, name, at_load="", at_call=""):
        source = self.cwd / f"{name}.c"
        source.write_text(PLUGIN % (at_load, at_call))
        subprocess.run(["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-I", ROOT / "include", source, "-o",
                        self.cwd / f"{name}.so"], check=True)
        return f"./{name}.so"


class Disks(Environment):
    def test_a_full_disk_ends_a_campaign_with_its_summary(self):
        for most in (0, 300, 3000, 8000):  # the lock, campaign.json, progress.jsonl or an entry is the first not to fit
            with self.subTest(most):
                done = self.attest("fuzz", *FAULT, "--cases", "300", "-o", f"out{most}", largest_file=most)
                self.refused(done, 2, f"out{most}")
                if most >= 3000:
                    self.assertRegex(done.stdout, r"\n  1\. wrong numbers .*\n")
                    self.assertRegex(done.stdout, r"rerun +attest ")

    def test_a_campaign_goes_on_when_there_is_space_again(self):
        words = ("fuzz", *FAULT, "--cases", "200", "-o", "out")
        self.refused(self.attest(*words, largest_file=3000), 2)
        self.assertEqual(self.attest(*words).returncode, 1)
        self.assertEqual(self.attest("replay", "out/corpus").returncode, 0)

    def test_a_corpus_that_cannot_be_written(self):
        done = self.attest("check", *FAULT, "--cases", "100", "--corpus", "corpus", largest_file=1000)
        self.refused(done, 2, "corpus", "disk")
        self.assertIn("rerun      attest check fault:scale-twice", done.stdout)
        self.assertFalse([path for path in self.cwd.rglob("*") if path.is_file()])

    def test_reports(self):
        for option in ("--json", "--events"):
            done = self.attest("check", *FAULT, "--cases", "60", option, "/dev/full")
            self.refused(done, 2, option, "disk")
            done = self.attest("check", *FAULT, "--cases", "60", option, "report", largest_file=1000)
            self.refused(done, 2, option, "disk")

    def test_exports(self):
        self.attest("check", *FAULT, "--cases", "100", "--corpus", "corpus")
        entry = next(self.cwd.glob("corpus/*/*.json"))
        for form in ("python", "npz"):
            self.refused(self.attest("export", entry, "--to", form, "-o", "/dev/full"), 2, "/dev/full")
            self.refused(self.attest("export", entry, "--to", form, "-o", "x", largest_file=100), 2, "x")

    def test_memory_shared_with_a_worker(self):
        self.refused(self.attest("check", self.plugin("mine"), "--cases", "3", largest_file=1000), 2, "ulimit -f")


class Resumed(Environment):
    def test_a_finished_campaign_says_so(self):
        words = ("fuzz", "builtin:fused", "--seed", "1", "--jobs", "1", "-o", "out", "--json", "out.json", "--cases")
        earlier = lambda: json.loads((self.cwd / "out.json").read_text())["earlier_cases"]
        said = "this campaign had come to its end before, and nothing was drawn now"
        first = self.attest(*words, 40)
        self.assertNotIn("before", first.stdout)
        self.assertEqual((first.returncode, earlier()), (0, 0))
        again = self.attest(*words, 40)
        self.assertIn(said, again.stdout)
        self.assertEqual((again.returncode, earlier()), (0, 40))
        more = self.attest(*words, 60)
        self.assertIn("60 problems", more.stdout)
        self.assertIn("40 of them were drawn before", more.stdout)


class Folders(Environment):
    def worker(self, **env):
        return self.attest("check", self.plugin("mine"), "--cases", "3", env=env)

    def test_no_folder_for_temporary_files(self):
        self.refused(self.worker(TMPDIR="/nowhere/at/all"), 2, "/nowhere/at/all", "TMPDIR")
        self.assertEqual(self.attest("check", "builtin:fused", "--cases", 5, env={"TMPDIR": "/nowhere"}).returncode, 0)

    def test_a_log_folder_that_is_not_ours(self):
        logs = self.cwd / f"attest-{os.geteuid()}"
        (self.cwd / "elsewhere").mkdir()
        logs.symlink_to("elsewhere")
        self.refused(self.worker(TMPDIR=str(self.cwd)), 2, str(logs), "a link")
        self.assertEqual(list((self.cwd / "elsewhere").iterdir()), [])
        logs.unlink()
        logs.write_text("")
        self.refused(self.worker(TMPDIR=str(self.cwd)), 2, str(logs), "no folder")
        logs.unlink()
        if os.geteuid() == 0:  # nobody else can give a folder away
            logs.mkdir()
            os.chown(logs, 12345, 12345)
            self.refused(self.worker(TMPDIR=str(self.cwd)), 2, str(logs), "another user's")
            logs.rmdir()
        self.worker(TMPDIR=str(self.cwd))
        self.assertEqual(logs.stat().st_mode & 0o777, 0o700)


class Signals(Environment):
    def forever(self, *signals, ignored=None, at_once=False):
        def before():
            if ignored:
                signal.signal(ignored, signal.SIG_IGN)
        process = subprocess.Popen([ATTEST, "fuzz", "--forever", "--jobs", "1", "--json", "out.json"], cwd=self.cwd,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=before)
        for i, number in enumerate(signals):
            time.sleep(0 if at_once and i > 0 else 1.5)
            process.send_signal(number)
        out, _ = process.communicate(timeout=600)
        return process.returncode, out, json.loads((self.cwd / "out.json").read_text())

    def test_every_signal_that_asks_for_the_end_ends_with_the_summary(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                status, out, summary = self.forever(number)
                self.assertEqual((status, summary["interrupted"]), (130, True), out)
                self.assertIn("interrupted", out)

    def test_signals_at_once_are_one_request(self):
        status, out, summary = self.forever(signal.SIGTERM, signal.SIGHUP, signal.SIGTERM, at_once=True)
        self.assertEqual((status, summary["interrupted"]), (130, True), out)

    def test_a_second_signal_ends_at_once(self):
        read, write = os.pipe()  # full, so that the summary waits
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b" " * 512)
        os.set_blocking(write, True)
        process = subprocess.Popen([ATTEST, "fuzz", "builtin:fused", "--forever", "--jobs", "1"], cwd=self.cwd, stdout=write,
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(os.close, read)
        os.close(write)
        for _ in range(2):
            time.sleep(1)
            self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(600), -signal.SIGTERM)

    def test_a_hangup_that_is_ignored_stays_ignored(self):
        status, out, summary = self.forever(signal.SIGHUP, signal.SIGINT, ignored=signal.SIGHUP)
        self.assertEqual((status, summary["interrupted"]), (130, True), out)
        self.assertGreater(summary["seconds"], 1.6)

    def test_a_run_that_came_to_its_end_was_not_interrupted(self):
        done = self.attest("check", "builtin:fused", "--cases", "20", "--json", "-")
        self.assertIs(json.loads(done.stdout)["interrupted"], False)


class Subjects(Environment):
    def test_a_plugin_that_never_loads(self):
        spinning = self.plugin("spins", at_load="__attribute__((constructor)) static void spin(void) { for (;;) {} }")
        start = time.monotonic()
        self.refused(self.attest("check", spinning, "--load-timeout", "1s"), 4, spinning, "took longer than 1 s to load")
        self.assertLess(time.monotonic() - start, 20)

    def test_a_subject_that_takes_all_memory(self):
        takes = self.plugin("takes", at_call="enum { N = 1 << 24 }; for (int i = 0; i < 256; ++i) {"  # 4 GB, if nobody minds
                                             " char* kept = malloc(N); if (kept) memset(kept, 1, N);"
                                             " __asm__ volatile(\"\" : : \"r\"(kept) : \"memory\"); }")
        done = self.attest("check", takes, "--cases", "3", "--jobs", "1", "--memory", "300M", "--shrink-budget", "5",
                           "--json", "out.json")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("ran out of memory: it held more than the 300 MB that --memory allows it", done.stdout)
        keys = [finding["bucket"] for finding in json.loads((self.cwd / "out.json").read_text())["findings"]]
        self.assertTrue(all("ran-out-of-memory" in key for key in keys), keys)

    def test_what_is_only_reserved_is_not_taken(self):
        reserves = self.plugin("reserves", at_load="#include <sys/mman.h>",
                               at_call="mmap(NULL, 1ul << 40, PROT_READ | PROT_WRITE,"
                                       " MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);")
        done = self.attest("check", reserves, "--cases", "20", "--jobs", "1", "--memory", "100M")
        self.assertEqual(done.returncode, 5, done.stdout + done.stderr)  # all unsupported, and no finding
        self.assertNotIn("memory", done.stdout)

    def test_amounts_of_memory(self):
        for amount in ("8", "0M", "-1G", "G", "0x1G", "nanG", "1e99G", ""):
            self.refused(self.attest("check", "builtin:fused", "--memory", amount), 2, "--memory", "512M")
        self.assertEqual(self.attest("check", "builtin:fused", "--memory", "1.5G", "--cases", 5).returncode, 0)

    def test_verbs_that_take_no_models_say_which_do(self):
        (self.cwd / "model.onnx").write_text("")
        self.refused(self.attest("probe", "model.onnx"), 2, "model.onnx", "`attest check` take ONNX models")


class Settings(Environment):
    def test_a_table_of_every_verb(self):
        verbs = re.findall(r"^  ([a-z]+) ", self.attest("--help").stdout.split("Subcommands:")[-1].split("examples:")[0], re.M)
        self.assertGreaterEqual(set(verbs), {"fuzz", "check", "replay", "shrink", "export", "certify", "stats", "judge", "bound",
                                             "compare", "grade", "list"})
        (self.cwd / "attest.toml").write_text("".join(f"[{verb}]\n" for verb in verbs))
        self.assertEqual(self.attest("list", "ops").returncode, 0)
        self.assertEqual(self.attest("check", "builtin:fused", "--cases", 5).returncode, 0)
        (self.cwd / "attest.toml").write_text("[grade]\nfaults = \"no-such-fault\"\n[certfy]\n")
        self.refused(self.attest("list", "ops"), 2, "[certfy]", "certify", "grade")


class Names(Environment):
    def test_names_of_files_do_nothing_to_a_terminal(self):
        self.attest("check", *FAULT, "--cases", "100", "--corpus", "corpus")
        entry = next(self.cwd.glob("corpus/*/*.json"))
        hostile = self.cwd / "a\x1b[31m\nheld 99 entries\x9b\u009b.json"
        shutil.copy(entry, hostile)
        (self.cwd / "b\x1b]0;x\x07.json").write_text("{")
        for words in (("replay", self.cwd), ("shrink", hostile, "--corpus", self.cwd / "c\x1b[2J"), ("certify", hostile),
                      ("replay", self.cwd, "--json", "-")):
            done = self.attest(*words)
            text = done.stdout + done.stderr
            self.assertFalse(set(text) & {"\x1b", "\x07", "\u009b"}, repr(text))
            self.assertNotIn("\nheld 99", text)


if __name__ == "__main__":
    ATTEST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
