#!/usr/bin/env python3
"""What a person sees: help, completion, words that were mistyped, the order of a report, its colours.

Usage: terminal_test.py ATTEST [unittest option...]
"""
import contextlib
import os
import pty
import re
import shutil
import subprocess

from command_line import Cli, run


class Terminal(Cli):
    def verbs(self):
        listed = re.findall(r"^  ([a-z]+) ", self.attest("--help").stdout.split("Subcommands:")[1].split("examples:")[0], re.M)
        self.assertGreater(len(listed), 15)
        return listed

    def test_each_verb_has_its_own_examples_in_80_columns(self):
        for verb in self.verbs():
            done = self.attest("help", verb)
            self.assertEqual((done.returncode, done.stdout), (0, self.attest(verb, "--help").stdout))
            shown = re.findall(r"^  .*\battest (\w+)", done.stdout.split("examples:")[1], re.M)
            self.assertEqual(set(shown), {verb})
            self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])

    def completed(self, *words):
        """The words that bash would offer for the last one."""
        script = self.attest("completion", "bash").stdout
        self.assertIn("complete -c attest", self.attest("completion", "fish").stdout)
        self.assertIn("bashcompinit", self.attest("completion", "zsh").stdout)
        line = f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _attest; echo "${{COMPREPLY[@]}}"'
        return subprocess.run(["bash", "-c", f"{script}\n{line}"], capture_output=True, text=True, check=True).stdout.split()

    def test_shells_complete_verbs_and_options(self):
        self.assertEqual(self.completed("attest", "fu"), ["fuzz"])
        self.assertEqual(self.completed("attest", "help", "che"), ["check"])
        self.assertEqual(self.completed("attest", "fuzz", "--se"), ["--seed", "--seed-fd"])
        self.assertEqual(self.completed("attest", "fuzz", "kernel"), [])
        self.refused("completion", "csh", says=["csh", "bash, zsh or fish"])

    def test_a_mistyped_word_is_corrected(self):
        self.refused("fuz", says=["Did you mean fuzz?"])
        self.refused("check", "builtin:fused", "--sede=3", says=["--sede", "Did you mean --seed?"])
        for words in (["birds"], ["check", "builtin:fused", "--qqqqqqq"]):
            self.assertNotIn("Did you mean", self.attest(*words).stderr)

    def test_what_was_found_comes_before_what_was_drawn(self):
        told = self.attest("check", "fault:scale-twice", "--cases", 20, "--continue-after-failure", "-v").stdout
        self.assertLess(told.index("     witness "), told.index("the proven bound judged "))
        self.assertLess(told.index("the proven bound judged "), told.index("mostly because"))

    def test_manual_pages_have_each_verb_and_option(self):
        self.assertEqual(self.attest("man", "-o", "pages").returncode, 0)
        plain = lambda page: page.replace("\\-", "-")
        verbs = self.verbs()
        whole = plain((self.cwd / "pages/attest.1").read_text())
        self.assertEqual({file.name for file in (self.cwd / "pages").iterdir()}, {"attest.1", *(f"attest-{verb}.1" for verb in verbs)})
        for verb in verbs:
            self.assertIn(f"\\fBattest-{verb}\\fR(1)", whole)
            page = (self.cwd / f"pages/attest-{verb}.1").read_text()
            self.assertEqual(page, self.attest("man", verb).stdout)
            for option in set(re.findall(r"(?m)^  (?:-\w,)?(--[\w-]+)", self.attest(verb, "--help").stdout)):
                self.assertRegex(plain(page), rf"(?m)^\\fB(-\w, )?{option}\\fR")
        self.refused("man", "fuz", says=["no verb 'fuz'"])

    def test_manual_pages_render_without_warnings(self):
        renderers = [words for words in (["groff", "-man", "-ww", "-Tutf8", "-z"], ["mandoc", "-T", "lint", "-W", "warning"]) if shutil.which(words[0])]
        if not renderers:
            self.skipTest("neither groff nor mandoc is installed")
        self.attest("man", "-o", "pages")
        for words in renderers:
            for file in sorted((self.cwd / "pages").iterdir()):
                done = subprocess.run([*words, file], capture_output=True, text=True, check=False)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""), file)

    def test_statistics_come_on_request(self):
        words = ("check", "fault:scale-twice", "--cases", 20, "--continue-after-failure")
        short, long = self.attest(*words).stdout, self.attest(*words, "--verbose").stdout
        self.assertRegex(short, r"\n  \d\. wrong numbers in \w+ where .* \(law [\w-]+\)  in \d+ problems\n     witness ")
        self.assertRegex(short, r"\n  20 problems in .*: \d+ failed; the proven bound judged ")
        for statistic in ("mostly because", "time went to", "first in case", "shown by", "1-minimal"):
            self.assertNotIn(statistic, short)
            self.assertIn(statistic, long)
        model = (self.cwd / "attest.toml")
        model.write_text("verbose = true\n")
        self.assertIn("mostly because", self.attest(*words).stdout)

    def on_a_terminal(self, *words, **env):
        """What attest writes to a terminal of its own."""
        ours, theirs = pty.openpty()
        given = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "TERM")} | {"TERM": "xterm"} | env
        with subprocess.Popen([self.program, *map(str, words)], cwd=self.cwd, env=given, stdout=theirs, stderr=subprocess.DEVNULL):
            os.close(theirs)
            seen = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while part := os.read(ours, 65536):
                    seen += part
        os.close(ours)
        return seen.decode().replace("\r\n", "\n")

    def test_colour_is_for_terminals(self):
        words = ("check", "fault:scale-twice", "--cases", 20)
        plain = self.attest(*words).stdout
        self.assertNotIn("\x1b", plain)
        coloured = self.on_a_terminal(*words)
        for part in (r"\x1b\[31mFAILED, 1 defect\x1b\[0m", r"1\. \x1b\[1mwrong numbers", r"rerun +\x1b\[36mattest check "):
            self.assertRegex(coloured, part)
        self.assertIn("\x1b[32mevery property held", self.on_a_terminal("check", "builtin:fused", "--cases", 2))
        uncoloured = lambda text: re.sub(r"\x1b\[[0-9;]*m|in [0-9.]+ s", "", text)
        self.assertEqual(uncoloured(coloured), uncoloured(plain))
        self.assertIn("\x1b[", self.attest(*words, "--color", "always").stdout)
        for silenced in (self.on_a_terminal(*words, NO_COLOR="1"), self.on_a_terminal(*words, TERM="dumb"),
                         self.on_a_terminal(*words, "--color", "never"), self.attest(*words, "--json", "-", "--color", "always").stdout):
            self.assertNotIn("\x1b", silenced)
        self.refused(*words, "--color", "green", says=["--color green", "auto, always or never"])
        self.assertEqual(self.attest(*words, "--color", "always", "--corpus", "corpus").returncode, 1)
        self.assertIn("\x1b[32mas_expected", self.on_a_terminal("replay", "corpus").replace("\x1b[1m", ""))


if __name__ == "__main__":
    run()
