#!/usr/bin/env python3
"""The command line as a user meets it: words, files and exit statuses, good input and bad.

Usage: cli_test.py ATTEST [unittest option...]
"""
import json
import os
import re
import signal
import subprocess
import time

from command_line import Cli, run

PROBLEM = "op=attention b=1 hq=1 hkv=1 lq=1 lk=2 d=2 dv=2 dtype=f32 values=integers:1 q_form=one seed=0"


class Stdout(Cli):
    def into(self, redirection, *words):
        line = 'attest="$1"; shift; "$attest" "$@" ' + redirection
        return subprocess.run(["bash", "-c", line, "-", self.program, *map(str, words)], cwd=self.cwd, capture_output=True,
                              text=True, timeout=600)

    def test_what_cannot_be_printed_is_no_success(self):
        check = ("check", "fault:scale-twice", "--cases", 50, "--jobs", 1)
        for target in (">/dev/full", ">&-"):
            for status, words in ((2, ("list", "faults")), (2, ("stats", "--cases", 20)), (2, ("--version",)), (1, check)):
                done = self.into(target, *words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn("could not be printed", done.stderr.splitlines()[-1])

    def test_a_reader_that_has_enough_is_no_error(self):
        for words in (("list", "faults"), ("stats", "--cases", 20)):
            done = self.into("| true; exit ${PIPESTATUS[0]}", *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_a_file_does_not_take_what_a_closed_stdout_would(self):
        self.into(">&-", "list", "faults", "--json", "faults.json")
        self.assertTrue(json.loads((self.cwd / "faults.json").read_text()))


class Report(Cli):
    def test_what_is_told_of_a_defect_stands_in_one_column(self):
        done = self.attest("check", "fault:causal-off-by-one", "--cases", 100, "--jobs", 1)
        lines = done.stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("  1. "))
        told = lines[first + 1:next(i for i, line in enumerate(lines) if "rerun      " in line) + 1]
        for label in ("problem", "witness", "looks like", "rerun"):
            self.assertTrue([line for line in told if line.startswith(f"     {label:<11}")], (label, told))


class Words(Cli):
    def test_help_has_examples_and_statuses(self):
        done = self.attest("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("examples:", done.stdout)
        self.assertIn("exit status", done.stdout)
        for verb in ("fuzz", "check", "replay", "shrink", "export", "stats", "list"):
            self.assertEqual(self.attest(verb, "--help").returncode, 0)

    def test_version(self):
        self.assertRegex(self.attest("--version").stdout, r"^attest \d+\.\d+\.\d+\n$")

    def test_unknown_words(self):
        self.refused()
        self.refused("fuz", says=["fuz"])
        self.refused("check", "builtin:fused", "--speed", "9", says=["--speed"])
        self.refused("check", says=["SUBJECT"])
        self.refused("check", "builtin:fusd", says=["builtin:fusd", "builtin:fused"])
        self.refused("check", "fault:scale-thrice", says=["fault:scale-thrice"])
        self.refused("check", "nonsense", says=["nonsense"])
        self.refused("check", "./missing.so", status=4, says=["./missing.so"])
        self.refused("check", "missing.py", status=4, says=["missing.py"])
        self.refused("list", "birds", says=["birds", "policies"])

    def test_values_out_of_range(self):
        check = ("check", "builtin:fused")
        self.refused(*check, "--seed", "-1", says=["--seed", "18446744073709551615"])
        self.refused(*check, "--seed", "18446744073709551616", says=["--seed"])
        self.refused(*check, "--seed", "", says=["--seed"])
        self.refused(*check, "--policy", "", says=["policy", "empty"])
        self.refused(*check, "--cases", "0", says=["--cases"])
        self.refused(*check, "--cases", "1e3", says=["--cases"])
        self.refused(*check, "--jobs", "0", says=["--jobs"])
        self.refused(*check, "--time", "0s", says=["--time", "30s"])
        self.refused(*check, "--time", "soon", says=["--time"])
        self.refused(*check, "--laws", "many", says=["--laws"])
        self.refused(*check, "--shard", "3/2", says=["--shard"])
        self.refused(*check, "--shard", "0/2", says=["--shard"])
        self.refused(*check, "--property", "bird*", says=["bird*"])
        self.refused(*check, "--op", "rope", says=["rope", "attention"])
        self.refused(*check, "--policy", "f17", says=["f17"])
        self.refused(*check, "--policy", "f16,layernorm*=f32", says=["layernorm*", "softmax"])
        self.refused(*check, "--assume", "lq <", says=["assum"])
        self.refused(*check, "--assume", "speed > 1", says=["speed"])
        self.refused(*check, "--shrink-budget", "20s", says=["--shrink-budget"])
        self.refused(*check, "--problem", "lk=two", says=["lk", "integer"])
        self.refused(*check, "--json", "no/such/folder/x.json", says=["no/such/folder/x.json"])
        self.refused(*check, "--known", "no/such/corpus", says=["no/such/corpus"])
        self.refused("fuzz", "--forever", "--cases", "3", says=["--forever"])

    def test_lists(self):
        for what in ("subjects", "properties", "faults", "policies", "generators", "ops"):
            done = self.attest("list", what, "--json", "-")
            rows = json.loads(done.stdout)
            self.assertTrue(rows)
            for row in rows:
                self.assertTrue(row["name"] and row["doc"], row)
            self.assertEqual(len(self.attest("list", what).stdout.splitlines()), len(rows))
        faults = {row["name"]: row for row in json.loads(self.attest("list", "faults", "--json", "-").stdout)}
        for row in faults.values():
            self.assertTrue(row["family"] and row["stage"] and row["parent"], row)
        self.assertEqual((faults["scale-twice"]["family"], faults["scale-twice"]["stage"]), ("scale", "scale"))
        self.assertEqual(faults["mha-gemm-f16"]["stage"], "gemm")

    def test_a_subject_that_cannot_start_cannot_be_bisected(self):
        self.refused("check", "./missing.so", "--bisect", status=125)
        self.assertEqual(self.attest("check", "fault:scale-twice", "--cases", 50, "--bisect").returncode, 1)


class Sources(Cli):
    def test_a_file_of_settings_that_cannot_be_reached(self):
        (self.cwd / "attest.toml").symlink_to("attest.toml")
        self.refused("list", "ops", says=["attest.toml"])

    def test_command_line_over_environment_over_file(self):
        (self.cwd / "attest.toml").write_text("seed = 5\n[check]\ncases = 7\njobs = 1\n")
        summary = lambda *words, **how: json.loads(
            self.attest("check", "builtin:fused", "--json", "-", *words, **how).stdout)
        self.assertEqual((summary()["seed"], summary()["cases"]), (5, 7))
        self.assertEqual(summary(params="seed=6")["seed"], 6)
        self.assertEqual(summary("--seed", 7, params="seed=6")["seed"], 7)

    def test_profiles_and_pyproject(self):
        toml, project = self.cwd / "attest.toml", self.cwd / "pyproject.toml"
        summary = lambda *words, **how: json.loads(self.attest("check", "builtin:fused", "--json", "-", "--jobs", 1, *words, **how).stdout)
        project.write_text("[project]\nname = \"mine\"\n[tool.attest]\nseed = 4\ncases = 5\n[tool.attest.profiles.ci]\nseed = 6\ncorpus = \"kept\"\n")
        self.assertEqual((summary()["seed"], summary()["cases"]), (4, 5))
        toml.write_text("seed = 7\n[profiles.dev]\ncases = 2\n")
        self.assertEqual((summary()["seed"], summary()["cases"]), (7, 5))
        os.environ["ATTEST_PROFILE"] = "ci"
        self.addCleanup(os.environ.pop, "ATTEST_PROFILE", None)
        self.assertEqual((summary()["seed"], summary()["cases"]), (6, 5))
        self.assertEqual(summary(params="seed=8")["seed"], 8)
        self.assertEqual(self.attest("list", "ops").returncode, 0, "a key of another verb is no error")
        os.environ["ATTEST_PROFILE"] = "dev"
        self.assertEqual((summary()["seed"], summary()["cases"]), (7, 2))
        os.environ["ATTEST_PROFILE"] = "night"
        self.refused("check", "builtin:fused", says=["ATTEST_PROFILE=night", "[profiles.night]", "[tool.attest.profiles.night]"])
        os.environ["ATTEST_PROFILE"] = "dev"
        toml.write_text("[profiles.dev]\nspeed = 5\n")
        self.refused("check", "builtin:fused", says=["attest.toml", "'speed'"])
        toml.unlink()
        del os.environ["ATTEST_PROFILE"]
        project.write_text("[tool.attest]\nspeed = 5\n")
        self.refused("check", "builtin:fused", says=["pyproject.toml", "'speed'"])
        project.write_text("[tool.attest.chek]\nseed = 5\n")
        self.refused("check", "builtin:fused", says=["pyproject.toml", "[tool.attest.chek]"])
        project.write_text("[tool\n")
        self.refused("check", "builtin:fused", says=["pyproject.toml", "line 1"])

    def test_several_patterns_of_laws(self):
        report = json.loads(self.attest("check", "builtin:fused", "--cases", 3, "--property", "guards,policy-*", "--json", "-").stdout)
        self.assertEqual(sorted(report["verdicts"]), ["guards", "policy-bound"])
        self.refused("check", "builtin:fused", "--property", "no-such,nor-this", says=["no-such,nor-this"])

    def test_unknown_keys_are_errors(self):
        self.refused("check", "builtin:fused", params="sed=3", says=["ATTEST_PARAMS", "'sed'"])
        self.refused("check", "builtin:fused", params="seed", says=["key=value"])
        (self.cwd / "attest.toml").write_text("speed = 5\n")
        self.refused("check", "builtin:fused", says=["attest.toml", "'speed'"])
        self.refused("list", "ops", says=["attest.toml", "'speed'"])
        (self.cwd / "attest.toml").write_text("seed = 5\n")
        self.assertEqual(self.attest("list", "ops").returncode, 0, "a key of another verb is no error")
        self.refused("check", "builtin:fused", params="bisect=1", says=["bisect"])
        (self.cwd / "attest.toml").write_text("[chek]\nseed = 5\n")
        self.refused("check", "builtin:fused", says=["[chek]"])
        (self.cwd / "attest.toml").write_text("seed = = 5\n")
        self.refused("check", "builtin:fused", says=["attest.toml", "line 1"])


class Campaigns(Cli):
    def test_a_clean_subject_holds(self):
        done = self.attest("check", "builtin:fused", "--cases", 200, "--jobs", 2, "-v")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("every property held", done.stdout)
        self.assertIn("policy-bound", done.stdout)
        self.assertEqual(list(self.cwd.iterdir()), [], "check writes no files unless told")

    def test_json_has_what_the_contract_names(self):
        done = self.attest("check", "fault:scale-twice", "--policy", "f16", "--cases", 100, "--json", "-")
        self.assertEqual(done.returncode, 1)
        summary = json.loads(done.stdout)  # nothing else goes to stdout
        for key in ("format verb subject version policy seed shard cases executed judged judged_long verdicts elements "
                    "elements_long undetermined skipped vacuous seconds seconds_in findings exit").split():
            self.assertIn(key, summary)
        self.assertEqual(set(summary["seconds_in"]), {"draw", "values", "subject", "oracle", "laws", "shrink"})
        self.assertEqual(summary["exit"], 1)
        finding = summary["findings"][0]
        for key in ("bucket property problem original case multiply_adds subject_calls seconds_to_first cases_to_first "
                    "witness reproducer rerun").split():
            self.assertIn(key, finding)
        self.assertEqual(set(finding["witness"]) & {"index", "got", "expected", "lo", "hi", "ratio"},
                         {"index", "got", "expected", "lo", "hi", "ratio"})

    def test_a_warning_names_its_problem_and_fails_nothing(self):
        def warnings(subject):
            done = self.attest("check", subject, "--policy", "f32", "--property", "ensemble-error", "--cases", 80, "--seed", 1,
                               "--json", "out.json")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return json.loads((self.cwd / "out.json").read_text())["warnings"], done.stdout

        (warning,), printed = warnings("fault:softmax-f16")
        self.assertEqual(warning["law"], "ensemble-error")
        self.assertGreater(warning["witness"]["got"], 1.3)
        self.assertRegex(printed, r"warning: ensemble-error of \d+ problem")
        self.assertIn("--problem '" + warning["problem"], printed)
        nothing, printed = warnings("builtin:fused")
        self.assertEqual(nothing, [])
        self.assertNotIn("warning", printed)

    def test_check_reruns_one_problem_and_prints_the_line_that_does(self):
        done = self.attest("check", "fault:scale-twice", "--cases", 100, "--json", "out.json")
        rerun = json.loads((self.cwd / "out.json").read_text())["findings"][0]["rerun"]
        self.assertIn(rerun, done.stdout)
        again = subprocess.run(rerun.replace("attest", self.program, 1), shell=True, cwd=self.cwd, capture_output=True,
                               text=True)
        self.assertEqual(again.returncode, 1, again.stderr)
        self.assertEqual(self.attest("check", "builtin:fused", "--problem", PROBLEM).returncode, 0)

    def test_one_problem_takes_no_options_of_random_ones(self):
        problem = ("check", "fault:scale-twice", "--problem", PROBLEM)
        for option in (["--assume", "lq>5"], ["--seed", 3], ["--cases", 9], ["--time", "1s"], ["--shard", "1/2"],
                       ["-o", "out"], ["--events", "e.jsonl"]):
            self.refused(*problem, *option, says=["--problem", "leave one of them out"])
        self.refused(*problem, "--corpus", "/proc/nowhere", says=["/proc/nowhere"])
        found = json.loads(self.attest(*problem, "--corpus", "known", "--json", "-").stdout)
        self.assertFalse(found["findings"][0].get("known"))
        bucket = found["findings"][0]["bucket"]
        done = self.attest("check", "fault:scale-twice", "--problem", found["findings"][0]["problem"], "--known", "known",
                           "--json", "-")
        again = json.loads(done.stdout)["findings"][0]
        self.assertEqual((again["bucket"], again["known"], done.returncode), (bucket, True, 0))

    def test_a_contract_agrees_with_the_policy(self):
        bound = ("bound", "b=1 hq=1 hkv=1 lq=4 lk=40 d=4 dv=4 dtype=f32 seed=3", "--policy", "f32")
        self.refused(*bound, "--contract", "policy=bf16,exp_ulp=2", says=["policy", "bf16", "--policy f32"])
        radius = {}
        for promise in ({"exp_ulp": 1}, {"exp_ulp": {"f32": 40}}, {"exp_ulp": {"f16": 40}},
                        {"policy": {"f32": "f32", "f16": "f16"}, "exp_ulp": 40}):
            (self.cwd / "c.json").write_text(json.dumps({"contract": promise}))
            done = self.attest(*bound, "--contract", "c.json", "--json", "-")
            self.assertEqual(done.returncode, 0, done.stderr)
            radius[json.dumps(promise)] = json.loads(done.stdout)["radius"]["median"]
        one, wide, other_dtype, with_policy = radius.values()
        self.assertGreater(wide, one)
        self.assertEqual((other_dtype, with_policy), (one, wide))
        (self.cwd / "c.json").write_text('{"exp_ulp": {"f17": 2}}')
        self.refused(*bound, "--contract", "c.json", says=["exp_ulp", "f17"])

    def test_fuzz_stores_what_fails_and_goes_on_where_it_stopped(self):
        words = ("fuzz", "fault:batch-leak", "--seed", 3, "--cases", 60, "--jobs", 2, "-o", "out")
        first = self.attest(*words, "--json", "first.json")
        self.assertEqual(first.returncode, 1, first.stderr)
        summary = json.loads((self.cwd / "first.json").read_text())
        reproducer = self.cwd / summary["findings"][0]["reproducer"]
        self.assertTrue(reproducer.is_file())
        second = self.attest(*words, "--json", "second.json")
        self.assertEqual(second.returncode, 1, second.stderr)
        self.assertEqual(json.loads((self.cwd / "second.json").read_text())["cases"], summary["cases"])
        self.refused("fuzz", "fault:batch-leak", "--seed", 4, "--cases", 60, "-o", "out", says=["seed"])

    def test_fuzz_without_o_makes_a_folder(self):
        done = self.attest("fuzz", "--cases", 20, "--jobs", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(list((self.cwd / "attest-out" / "builtin-fused").iterdir())), 1)

    def test_a_refused_run_leaves_no_empty_report(self):
        reports = ("--json", "a.json", "--junit", "a.xml", "--sarif", "a.sarif", "--events", "a.jsonl")
        self.refused("check", "builtin:fused", "--policy", "f17", *reports, says=["f17"])
        self.refused("check", "./nowhere.so", *reports, status=4, says=["nowhere"])
        self.assertEqual(list(self.cwd.glob("a.*")), [])

    def test_campaigns_of_one_second_have_folders_of_their_own(self):
        words = [self.program, "fuzz", "--cases", "1", "--seed", "3", "--jobs", "1"]
        started = [subprocess.Popen(words, cwd=self.cwd, stdout=subprocess.DEVNULL) for _ in range(6)]
        self.assertEqual([one.wait(timeout=300) for one in started], [0] * 6)
        folders = list((self.cwd / "attest-out" / "builtin-fused").iterdir())
        self.assertEqual(len(folders), 6)
        self.assertTrue(all((folder / "summary.json").is_file() for folder in folders))

    def ended_by_ctrl_c(self, *words):
        """Its status and the summary that it wrote, ended once its folder holds a problem."""
        process = subprocess.Popen([self.program, "fuzz", *words, "--forever", "-o", "out", "--json", "out.json"], cwd=self.cwd,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        progress = self.cwd / "out" / "progress.jsonl"
        before = progress.stat().st_size if progress.exists() else 0
        while not progress.exists() or progress.stat().st_size == before:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        return process.wait(timeout=300), json.loads((self.cwd / "out.json").read_text())

    def test_after_ctrl_c_a_folder_goes_on_with_its_seed(self):
        status, first = self.ended_by_ctrl_c("builtin:fused")
        self.assertEqual((status, first["exit"], first["interrupted"]), (130, 130, True))
        status, second = self.ended_by_ctrl_c("builtin:fused")
        self.assertEqual((status, second["seed"], second["earlier_cases"]), (130, first["seed"], first["cases"]))

    def test_ctrl_c_after_a_finding_is_status_1(self):
        status, _ = self.ended_by_ctrl_c("fault:scale-twice")
        while status == 130:  # before the first failure
            status, _ = self.ended_by_ctrl_c("fault:scale-twice")
        self.assertEqual(status, 1)

    def test_known_buckets_do_not_fail_the_run(self):
        self.reproducer()
        done = self.attest("check", "fault:scale-twice", "--cases", 40, "--continue-after-failure", "--known", "corpus",
                           "--json", "-")
        summary = json.loads(done.stdout)
        fresh = [f for f in summary["findings"] if not f.get("known")]
        self.assertEqual(done.returncode, 1 if fresh else 0)
        self.assertLess(len(fresh), len(summary["findings"]))

    def waive(self, until, entry="first/corpus", reason="TT-33304: mended in 2.1"):
        (self.cwd / "attest.toml").write_text(f'[[waive]]\nentry = "{entry}"\nreason = "{reason}"\nuntil = {until}\n')

    def test_a_waived_defect_fails_nothing_until_the_day(self):
        words = ["check", "fault:scale-twice", "--cases", 40, "--seed", 1, "--continue-after-failure"]
        self.assertEqual(self.attest(*words, "-o", "first").returncode, 1)
        self.waive("2999-12-31")
        done = self.attest(*words, "--json", "waived.json")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("waived until 2999-12-31: TT-33304: mended in 2.1", done.stdout)
        waived = json.loads((self.cwd / "waived.json").read_text())["defects"]
        self.assertTrue(all(defect["known"] for defect in waived))
        self.assertEqual(waived[0]["waivers"], [{"reason": "TT-33304: mended in 2.1", "until": "2999-12-31", "over": False}])
        # Another defect is none of it.
        self.assertEqual(self.attest("check", "fault:scale-missing", "--cases", 40).returncode, 1)
        self.waive("2020-02-29")
        done = self.attest(*words, "-o", "over")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("waived until 2020-02-29, which is over: TT-33304", done.stdout)
        self.assertEqual(self.attest("report", "over").returncode, 0)
        self.assertIn("until 2020-02-29, which is over: TT-33304", (self.cwd / "over" / "report.html").read_text())
        # One problem, as it stands.
        problem = ["check", "fault:scale-twice", "--problem", waived[0]["problem"], "--property", waived[0]["property"]]
        self.assertEqual(self.attest(*problem).returncode, 1)
        self.waive("2999-12-31")
        self.assertEqual(self.attest(*problem).returncode, 0)

    def test_a_waiver_says_all_of_it(self):
        for lines, says in (('entry = "c"\nuntil = 2027-01-01', "no reason"), ('entry = "c"\nreason = "r"', "no until"),
                            ('reason = "r"\nuntil = 2027-01-01', "no entry"), ('entry = "c"\nreason = "r"\nuntil = "soon"', "wrong until"),
                            ('entry = "c"\nreason = ""\nuntil = 2027-01-01', "wrong reason"), ('speed = 1', "wrong speed")):
            (self.cwd / "attest.toml").write_text("[[waive]]\n" + lines + "\n")
            self.refused("check", "builtin:fused", says=["attest.toml", says, "[[waive]]"])
        self.waive("2027-01-01", entry="no/such/corpus")
        self.refused("check", "builtin:fused", says=["no/such/corpus"])

    def test_a_failing_campaign_fits_a_screen_and_a_known_one_tells_no_failure(self):
        words = ("fuzz", "fault:mask-dropped", "--cases", 300, "--seed", 3, "--jobs", 2)
        first = self.attest(*words, "-o", "first")
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertLessEqual(len(first.stdout.splitlines()), 20)
        self.assertNotRegex(first.stdout, r"(?m)^fail")
        self.assertRegex(self.attest(*words, "-v", "-o", "aloud").stdout, r"(?m)^fail \S+ in case \d+")
        self.assertRegex(first.stdout, r"(?m)^     where +\S.*: \S+ fails [\d,]+ of [\d,]+, elsewhere [\d,]+ of [\d,]+$")
        again = self.attest(*words, "-v", "--known", "first/corpus", "-o", "again")
        self.assertNotRegex(again.stdout, r"(?m)^fail")
        self.assertEqual(again.returncode, 0, again.stdout)
        names = {file.stem for file in self.cwd.glob("first/corpus/**/*.json")}
        told = re.findall(r"(?m), known: (.+)$", again.stdout)
        self.assertTrue(told and all(name in names for line in told for name in line.split(", ")), again.stdout)

    def test_triage_says_it_again(self):
        done = self.attest("fuzz", "fault:batch-path", "--cases", 150, "--seed", 1, "--jobs", 2, "-o", "dir", "--json", "a")
        self.assertEqual(done.returncode, 1, done.stderr)
        again = self.attest("triage", "dir", "--json", "b")
        self.assertEqual(again.returncode, 1, again.stderr)
        first, second = (json.loads((self.cwd / name).read_text()) for name in "ab")
        self.assertEqual(second["defects"], first["defects"])
        self.assertEqual(second["cases"], 150)
        corpus = self.attest("triage", "dir/corpus")
        self.assertEqual(corpus.returncode, 1, corpus.stderr)
        self.assertIn("of failures", corpus.stdout)
        self.refused("triage", "nowhere", says=["nowhere"])
        self.refused("triage", ".", says=["holds campaigns", "dir"])

    def test_nothing_executed_is_an_error(self):
        self.refused("check", "builtin:fused", "--cases", 20, "--property", "hard-selection", "--assume",
                     "keep==closed", status=5, says=["no"])

    def test_statistics_are_left_out_if_asked(self):
        laws = lambda *words: json.loads(self.attest("check", "builtin:fused", "--policy", "f32", "--cases", 40, "--laws", "all",
                                                     "--jobs", 1, "--json", "-", *words).stdout)["verdicts"].keys()
        statistics = {"ensemble-error"}
        self.assertLess(statistics, laws())
        self.assertEqual(laws() - laws("--no-statistics"), statistics)
        self.refused("check", "builtin:fused", "--property", "ensemble-error", "--no-statistics", says=["--no-statistics"])
        (self.cwd / "attest.toml").write_text("no-statistics = true\n")
        self.assertFalse(statistics & laws())

    def test_a_finding_says_what_shows_it(self):
        words = ("check", "fault:mask-dropped", "--cases", 60, "--jobs", 1)
        done = self.attest(*words, "-v", "--json", "told.json", "--junit", "told.xml")
        self.assertIn("     shown by   proof\n", done.stdout)
        self.assertEqual({finding["basis"] for finding in json.loads((self.cwd / "told.json").read_text())["findings"]}, {"proof"})
        self.assertIn("shown by proof", (self.cwd / "told.xml").read_text())

    def test_assume_narrows_the_domain(self):
        done = self.attest("check", "builtin:fused", "--cases", 50, "--assume", "scale>0 && lq<=lk && dtype==f16",
                           "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_events_are_json_lines(self):
        self.attest("check", "fault:scale-twice", "--cases", 50, "--events", "events")
        events = [json.loads(line) for line in (self.cwd / "events").read_text().splitlines()]
        kinds = [event["event"] for event in events]
        self.assertEqual((kinds[0], kinds[-1]), ("start", "end"))
        self.assertLess(kinds.index("failure"), kinds.index("finding"))


class Corpus(Cli):
    def test_replay_gives_what_is_expected(self):
        self.reproducer()
        done = self.attest("replay", "corpus", "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        counts = json.loads(done.stdout)
        self.assertEqual(counts["entries"], counts["as_expected"])

    def test_a_mended_subject_is_reported(self):
        self.reproducer()
        done = self.attest("replay", "corpus", "--subject", "builtin:fused")
        self.assertEqual(done.returncode, 1)
        self.assertIn("mended", done.stdout)

    def test_damaged_files_are_named_and_the_rest_still_runs(self):
        good = self.reproducer()
        text = good.read_text()
        damaged = {
            "truncated": text[: len(text) // 2],
            "flipped": text.replace("seed", "sead", 1),
            "future": text.replace('"format": 1', '"format": 99', 1),
            "path": text.replace("fault:scale-twice", "./evil.so"),
            "deep": "[" * 100000,
            "empty": "",
        }
        for name, content in damaged.items():
            (self.cwd / "corpus" / f"{name}.json").write_text(content)
        done = self.attest("replay", "corpus", "--json", "counts.json")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        counts = json.loads((self.cwd / "counts.json").read_text())
        self.assertEqual((counts["damaged"], counts["as_expected"]), (len(damaged), 1))
        for name in damaged:
            self.assertIn(f"{name}.json", done.stdout)

    def test_replay_needs_entries(self):
        self.refused("replay", "nowhere", says=["nowhere"])
        (self.cwd / "empty").mkdir()
        self.refused("replay", "empty", says=["nothing was replayed"])

    def test_a_damaged_entry_is_named_where_stdout_holds_json(self):
        (self.cwd / "bad.json").write_text("{")
        done = self.attest("replay", "bad.json", "--json", "-")
        self.assertEqual((done.returncode, json.loads(done.stdout)["damaged"]), (2, 1))
        self.assertIn("bad.json", done.stderr)

    def test_shrink_again(self):
        path = self.reproducer()
        done = self.attest("shrink", path)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("1-minimal", done.stdout)
        self.refused("shrink", "nowhere.json", says=["nowhere.json"])

    def test_export_as_python_and_npz(self):
        path = self.reproducer()
        done = self.attest("export", path, "--to", "python")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("import numpy as np", done.stdout)
        compile(done.stdout, "exported.py", "exec")
        self.assertEqual(self.attest("export", path, "--to", "npz", "-o", "x.npz").returncode, 0)
        self.assertEqual((self.cwd / "x.npz").read_bytes()[:2], b"PK")
        self.refused("export", path, "--to", "pdf", says=["pdf", "npz"])
        self.refused("export", path, says=["--to"])
        self.refused("export", path, "--to", "npz", says=["-o"])


class Stats(Cli):
    def test_says_how_often_everything_is_drawn(self):
        done = self.attest("stats", "--cases", 3000)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("3,000 problems, seed 1", "\nlk ", "\nkeep_axes ", "stride 0 x mask", "decode x keys"):
            self.assertIn(word, done.stdout)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 100)

    def test_says_aloud_what_is_never_drawn(self):
        done = self.attest("stats", "builtin:explicit", "--cases", 3000, "--policy", "f16", "--assume", "lk<64 && causal==0")
        self.assertEqual(done.returncode, 0, done.stderr)
        never = done.stdout.split("Never drawn")[1]
        for region in ("values x keys: 256..4095", "diagonal x lengths of q and k: causal\n", "values x dtype: f32"):
            self.assertIn(region, never)
        self.assertNotIn("decode x keys: 2..15", never)

    def test_json_counts_every_problem(self):
        done = self.attest("stats", "--cases", 1000, "--seed", 9, "--json", "-")
        told = json.loads(done.stdout)
        self.assertEqual((told["verb"], told["subject"], told["seed"], told["cases"]), ("stats", "builtin:fused", 9, 1000))
        for field in told["fields"]:
            self.assertEqual(sum(value["count"] for value in field["values"]), 1000, field["name"])
        self.assertIn({"row": "f32", "column": "f32", "count": 0, "possible": False},
                      next(table["cells"] for table in told["tables"] if table["name"] == "bias type x dtype"))
        self.assertTrue(told["empty"])

    def test_refuses_what_it_cannot_draw(self):
        self.refused("stats", "--cases", 0, says=("--cases",))
        self.refused("stats", "--assume", "lk>3 && lk<2", says=("lk",))
        self.refused("stats", "builtin:nothing", says=("builtin:nothing",))
        self.refused("stats", "--policy", "f99", says=("f99",))


if __name__ == "__main__":
    run()
