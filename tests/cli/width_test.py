#!/usr/bin/env python3
"""What verbs write to a terminal of 80 columns: lines that fit, with whole words, problems and commands.

Usage: width_test.py ATTEST [unittest option...]
"""
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import zipfile

from command_line import ROOT, Cli, run
from interpreter import HAS_NUMPY, PYTHON
from saved_tensors import Call, write_npz

COLUMNS = 80
# Pieces that stay whole, however long: a problem, a command at the end of a row, a word, text in backticks.
FIELD = r"[\w.]+=(?!=)\S*"
WHOLE = re.compile(rf"^ *(\S.*?  +)?({FIELD}( {FIELD})*|attest \w+ .*|\S+|`[^`]*`\S*)$")
COMMAND = re.compile(r"(?<=  )attest \w+ -?.*")
PROBLEM = re.compile(rf"op=\w+( {FIELD})+")


class Width(Cli):
    def setUp(self):
        super().setUp()
        self.told = 0

    def on_a_terminal(self, *words, columns=COLUMNS):
        """The lines that the verb writes to stdout and stderr, both a terminal."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        env = {k: v for k, v in os.environ.items() if k != "ATTEST_PARAMS"} | {"ATTEST_PYTHON": PYTHON}
        with subprocess.Popen([self.program, *map(str, words)], cwd=self.cwd, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as ran:
            os.close(theirs)
            seen = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while part := os.read(ours, 65536):
                    seen += part
        os.close(ours)
        self.status = ran.returncode
        text = re.sub(r"\x1b\[[0-9;]*m", "", seen.decode())
        for shown in re.findall(r"\r\x1b\[K([^\r\n]*)", text):  # lines of progress, each written over
            self.assertLessEqual(len(shown), columns, f"attest {' '.join(map(str, words))}: {shown}")
        return re.sub(r"[^\n]*\r\x1b\[K", "", text.replace("\r\n", "\n")).splitlines()

    def fits(self, *words, status=None, same=True):
        """Each line fits, or is one piece that no line break may divide; `same`: the words are those of a pipe."""
        lines = self.on_a_terminal(*words)
        command = f"attest {' '.join(map(str, words))}"
        if status is not None:
            self.assertEqual(self.status, status, f"{command}: {lines}")
        self.assertTrue(lines, command)
        for line in lines:
            if len(line) > COLUMNS and not WHOLE.match(line):
                self.fail(f"{command}: a line of {len(line)} columns: {line}")
        self.told += 1
        if not same:
            return lines
        done = self.attest(*words)
        piped = "\n".join(part for part in (done.stdout, done.stderr) if part)
        plain = lambda text: re.sub(r"\b[0-9.]+ (m?s|ms)\b|/s\)", "TIME", " ".join(text.split()))
        self.assertEqual(plain("\n".join(lines)), plain(piped), command)
        for whole in COMMAND.findall(piped) + [match[0] for match in PROBLEM.finditer(piped)]:
            self.assertTrue(any(whole in line for line in lines), f"{command}: {whole} is broken")
        return lines

    def test_campaigns(self):
        for subject, status in (("fault:scale-twice", 1), ("builtin:fused", 0)):
            for more in ((), ("-v",)):
                self.fits("check", subject, "--cases", 60, "--jobs", 1, "--continue-after-failure", *more, status=status, same=not more)
        for op in ("layer_norm", "mha"):
            self.fits("check", "builtin:plain", "--op", op, "--cases", 10, "-v", same=False)
        self.fits("check", "fault:rms-mean", "--cases", 60, "--corpus", "corpus/with/a/long/name", "-v", same=False)
        self.fits("compare", "fault:scale-twice", "builtin:fused", "--cases", 40, "-v", status=1, same=False)
        self.fits("fuzz", "fault:causal-off-by-one", "--time", "1s", "-v", same=False)
        for verb in ("triage", "report"):
            self.fits(verb, *(self.cwd / "attest-out").glob("*/*"))
        self.fits("merge", *(self.cwd / "attest-out").glob("*/*"), "-o", "all", same=False)

    def test_a_corpus(self):
        file = self.reproducer()
        for verb in ("replay", "certify", "explain", "shrink"):
            self.fits(verb, file.relative_to(self.cwd))
        self.fits("explain", file, "--json", "explained.json")
        for format in ("onnx", "polygraphy", "trtexec"):
            self.fits("export", file, "--to", format, "-o", format)
        file.write_text(file.read_text().replace("scale-twice", "scale-once"))
        self.fits("replay", file, status=2)

    def test_saved_tensors(self):
        call = Call()
        write_npz(self.cwd / "in.npz", **call.arrays())
        write_npz(self.cwd / "good.npz", zipfile.ZIP_DEFLATED, out=call.out())
        write_npz(self.cwd / "bad.npz", out=call.out(scale=1))
        given = ("--inputs", "in.npz", "--policy", "f32")
        self.fits("judge", *given, "--outputs", "good.npz", status=0)
        self.fits("judge", *given, "--outputs", "bad.npz", "--corpus", "none", status=1)
        self.fits("judge", *given, "--outputs", "in.npz", status=2)
        self.fits("bound", *given)

    def test_what_there_is(self):
        for what in ("subjects", "properties", "faults", "policies", "generators", "ops"):
            self.fits("list", what, status=0)
        for op in ("layer_norm", "mha"):
            self.fits("list", "properties", "--op", op, status=0)
        self.fits("stats", "--cases", 200, "--assume", "lq<=64 && lk>=4", status=0)
        self.fits("probe", "fault:scale-twice", same=False)
        self.fits("bench", "builtin:fused", "--shapes", "b=1 hq=1 hkv=1 lq=8 lk=8 d=8 dv=8", same=False)
        self.fits("grade", "--faults", "scale-twice", "--seeds", 1, "--paired", 0, "--clean", 0, "--jobs", 2, same=False)

    def test_help_and_errors(self):
        for verb in re.findall(r"^  ([a-z]+) ", self.attest("--help").stdout.split("Subcommands:")[1].split("examples:")[0], re.M):
            self.fits(verb, "--help", status=0)
        self.fits("--help", status=0)
        (self.cwd / "empty.json").write_text("{}")
        (self.cwd / "kernel.py").write_text("import no_such_module_anywhere\n")
        (self.cwd / "attest.toml").write_text("[profiles.ci]\ncases = 'many'\n")
        for words in (("fuz",), ("check", "builtin:fused", "--sede=3"), ("check", "builtin:fused", "--cases", "many"),
                      ("check", "builtin:fused", "--cases", 0), ("check", "builtin:fuse"), ("check", "./nowhere.so"),
                      ("check", "builtin:fused", "--policy", "f17,softmax=f32"), ("check", "builtin:fused", "--assume", "lq<=lk &&"),
                      ("check", "builtin:fused", "--problem", "op=attention b=1 hq=3 hkv=2"), ("check", "builtin:fused", "--color", "green"),
                      ("check", "onnxruntime:Attention", "--python", "/nowhere/python3"), ("fuzz", "model.onnx"), ("replay", "nowhere/"),
                      ("replay", "empty.json"), ("certify", "empty.json"), ("export", "empty.json", "--to", "pyton"), ("list", "birds"),
                      ("judge", "--inputs", "in.npz"), ("judge", "--inputs", "nowhere.npz", "--outputs", "out.npz"), ("bench", "./nowhere.so"),
                      ("merge", "nowhere", "-o", "all"), ("check", "builtin:fused", "--json", "/nowhere/out.json"), ("completion", "csh"),
                      ("check", "builtin:fused", "--profile", "night")):
            self.fits(*words)
            self.assertNotEqual(self.status, 0, words)

    def test_python_subjects(self):
        if not HAS_NUMPY:
            self.skipTest(f"{PYTHON} has no numpy")
        for name in ("right", "forgets_scale"):
            self.fits("check", f"{ROOT / 'examples/attention_subject.py'}:{name}", "--cases", 20, "-v", same=False)
        (self.cwd / "kernel.py").write_text("import no_such_module_anywhere\n")
        self.fits("check", "kernel.py", same=False)

    def test_what_programs_read_is_not_wrapped(self):
        file = self.reproducer()
        for words in (("export", file, "--to", "python"), ("man", "fuzz"), ("completion", "bash"), ("list", "properties", "--json", "-"),
                      ("explain", file, "--json", "-")):
            times = lambda text: re.sub(r'"seconds": [0-9.e-]+', "", text)
            self.assertEqual(times("\n".join(self.on_a_terminal(*words))), times(self.attest(*words).stdout.rstrip("\n")), words)

    def test_a_wider_terminal_has_longer_lines(self):
        longest = lambda columns: max(map(len, self.on_a_terminal("list", "properties", columns=columns)))
        self.assertLessEqual(longest(60), 60)
        self.assertGreater(longest(120), 100)


if __name__ == "__main__":
    run()
