#!/usr/bin/env python3
"""attest report, --junit and --sarif: what is in them, of campaigns that hold, fail, were killed, are hostile or damaged.

Usage: report_test.py ATTEST [unittest option...]
"""
import collections
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

from interpreter import HAS_NUMPY

ATTEST = None
HOSTILE = "</title></style><script>alert(1)</script><img src=x onerror='alert(1)'>\u202egnp.&amp;\"'\x00\x07\ufffe]]>"
SCRIPT = """import attest
import numpy as np

@attest.subject(dtypes=['float32'], contract={'policy': 'f32'})
def shifted(q, k, v, *, scale):
    s = (q @ k.swapaxes(-1, -2)) * np.float32(scale)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True) + np.float32(1)
"""
VOID = {"meta", "img", "br", "link", "input"}


class Page(HTMLParser):
    """Tags, attributes and text of a page; fails where tags do not nest."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.text = [], collections.Counter(), [], ""
        self.cells, self.in_cell = [], False
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += [(tag, *pair) for pair in attributes]
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attributes):
        self.tags[tag] += 1
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> inside {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1] += data
        if not self.open or self.open[-1] != "style":
            self.text += data

    def of(self, name):
        return [value for _, key, value in self.attributes if key == name]


def attest(*words, status=0):
    done = subprocess.run([ATTEST, *map(str, words)], text=True, capture_output=True, timeout=300)
    assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.holder.name)
        cls.wrong, cls.right = cls.folder / "wrong", cls.folder / "right"
        attest("fuzz", "fault:causal-corner", "--seed", 1, "--cases", 400, "-o", cls.wrong, "--junit", cls.folder / "wrong.xml",
               "--sarif", cls.folder / "wrong.sarif", "--json", cls.folder / "wrong.json", status=1)
        attest("fuzz", "builtin:fused", "--seed", 1, "--cases", 100, "-o", cls.right, "--junit", cls.folder / "right.xml",
               "--sarif", cls.folder / "right.sarif")

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    def copy(self, name):
        shutil.copytree(self.wrong, self.folder / name)
        return self.folder / name

    def page(self, folder):
        done = attest("report", folder, "-o", "-")
        self.assertEqual(done.stderr, "")
        return Page(done.stdout)

    def test_the_page_stands_alone(self):
        attest("report", self.wrong)
        text = (self.wrong / "report.html").read_text()
        page = Page(text)
        self.assertEqual(page.tags["script"] + page.tags["link"] + page.tags["img"] + page.tags["iframe"], 0)
        self.assertTrue(all(link.startswith("#") for link in page.of("href")), page.of("href"))
        self.assertNotRegex(text.replace('<svg class', ''), r"https?://|url\(|@import")
        ids = page.of("id")
        self.assertEqual(len(ids), len(set(ids)))
        self.assertTrue({link[1:] for link in page.of("href")} <= set(ids))
        self.assertEqual(page.tags["h1"], 1)
        for section in ("defects", "laws", "drawn", "given-up"):
            self.assertIn(section, ids)
        self.assertIn("prefers-color-scheme: dark", text)
        self.assertIn("focus-visible", text)
        self.assertIn("width=device-width", text)

    def test_it_says_what_the_campaign_found(self):
        record = json.loads((self.wrong / "summary.json").read_text())
        told = json.loads((self.folder / "wrong.json").read_text())
        self.assertEqual({k: v for k, v in record.items() if k not in ("coverage", "run")}, told)
        page = self.page(self.wrong)
        self.assertEqual(page.of("class").count("card defect"), len(record["defects"]))
        for defect in record["defects"]:
            self.assertIn(defect["explained"]["predicate"], page.text)
            self.assertIn(defect["problem"], page.text)
            self.assertIn(defect["rerun"], page.text)
        for law, counts in record["verdicts"].items():
            at = page.cells.index(law)
            self.assertEqual(page.cells[at + 1].replace(",", ""), str(counts["pass"] + counts["warn"]))
            self.assertEqual(page.cells[at + 2].replace(",", ""), str(sum(counts[k] for k in ("fail", "error", "crash", "timeout", "poisoned", "flaky"))))
        self.assertIn("What was given up", page.text)

    def test_it_says_who_when_where_and_by_what(self):
        run = json.loads((self.wrong / "summary.json").read_text())["run"]
        self.assertRegex(run["ended"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(run["attest"], attest("--version").stdout.split()[-1])
        self.assertTrue(run["command"].startswith("attest fuzz fault:causal-corner --seed 1"))
        text = self.page(self.wrong).text
        for key in ("user", "system", "processor", "command", "attest"):
            self.assertIn(run[key], text)
        self.assertIn(run["ended"][:10] + " " + run["ended"][11:19] + " UTC", text)
        folder = self.copy("earlier")  # a record of an earlier version has none of it
        record = json.loads((folder / "summary.json").read_text())
        del record["run"]
        (folder / "summary.json").write_text(json.dumps(record))
        self.assertNotIn(run["command"], self.page(folder).text)

    def test_headlines_are_words_and_laws_sentences(self):
        text = (self.wrong / "report.html").read_text() if (self.wrong / "report.html").exists() else attest("report", self.wrong, "-o", "-").stdout
        headline = re.search(r"<h3>1\. (.*?)</h3>", text)[1]
        self.assertRegex(headline, r"^wrong numbers in out where .* \(law [a-z-]+\)$")
        laws = json.loads(attest("list", "properties", "--json", "-").stdout)
        sentences = [law["doc"] for law in laws if law["name"] in json.loads((self.wrong / "summary.json").read_text())["verdicts"]]
        page = self.page(self.wrong)
        for sentence in sentences:
            self.assertIn(sentence, page.text)

    def test_contents_of_several_defects(self):
        folder = self.copy("several")
        record = json.loads((folder / "summary.json").read_text())
        self.assertNotIn("contents", self.page(folder).of("class"))  # one defect stands right below
        record["defects"] *= 3
        (folder / "summary.json").write_text(json.dumps(record))
        page = self.page(folder)
        self.assertEqual([link for link in page.of("href") if link.startswith("#defect-")][:3], ["#defect-1", "#defect-2", "#defect-3"])
        self.assertTrue({"defect-1", "defect-2", "defect-3"} <= set(page.of("id")))

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed for ATTEST_PYTHON")
    def test_the_line_of_a_function_and_the_versions_are_told(self):
        script = self.folder / "wrong_kernel.py"
        script.write_text(SCRIPT)
        junit, sarif = self.folder / "own.xml", self.folder / "own.sarif"
        attest("check", f"{script}:shifted", "--cases", 20, "--property", "policy-bound", "--junit", junit, "--sarif", sarif, status=1)
        line = 1 + SCRIPT.splitlines().index("@attest.subject(dtypes=['float32'], contract={'policy': 'f32'})")
        run, = json.loads(sarif.read_text())["runs"]
        where = run["results"][0]["locations"][0]["physicalLocation"]
        self.assertEqual((where["artifactLocation"]["uri"], where["region"]["startLine"]), (f"file://{script}", line))
        self.assertIn("attest check", run["invocations"][0]["commandLine"])
        self.assertIn("numpy ", run["invocations"][0]["properties"]["libraries"])
        self.assertRegex(run["results"][0]["message"]["text"], r"^wrong numbers in out: out\[.*\] = .*, expected .*, permitted ")
        suite = ElementTree.parse(junit).getroot().find("testsuite")
        self.assertRegex(suite.get("timestamp"), "^20")
        self.assertIsNone(suite.get("hostname"))  # a report travels: it names no machine
        told = {one.get("name"): one.get("value") for one in suite.iter("property")}
        self.assertIn("numpy ", told["libraries"])
        failed = next(case for case in suite.iter("testcase") if case.find("failure") is not None)
        self.assertEqual((failed.get("file"), failed.get("line")), (str(script), str(line)))
        self.assertRegex(failed.find("failure").get("message"), r"^wrong numbers in out: out\[")

    def test_a_defect_of_which_nothing_was_learned_has_no_condition(self):
        folder = self.copy("unlearned")
        record = json.loads((folder / "summary.json").read_text())
        record["defects"][0]["explained"] |= {"predicate": "any problem", "failing": 1, "asked": 345}
        (folder / "summary.json").write_text(json.dumps(record))
        text = self.page(folder).text
        self.assertIn("no condition found: ", text)
        self.assertNotIn("any problem", text)

    def test_pictures_show_the_elements_that_explain_counts(self):
        record = json.loads((self.wrong / "summary.json").read_text())
        places = [place for defect in record["defects"] for place in defect.get("explanation", {}).get("where", [])]
        self.assertTrue(places)
        for place in places:
            self.assertEqual(len(place["wrong_at"]), place["wrong"])
            errors = place["errors"]
            beyond = sum(count for octave, count in errors["octaves"] if octave >= 0)
            self.assertEqual(sum(count for _, count in errors["octaves"]) + errors["exact"] + errors["no_number"], place["judged"])
            self.assertGreaterEqual(beyond + errors["no_number"], place["wrong"])
            for at in place["wrong_at"]:
                self.assertTrue(all(0 <= i < n for i, n in zip(at, place["extents"])))
        page = self.page(self.wrong)
        self.assertEqual(page.of("class").count("geometry"), len(places))
        self.assertEqual(page.of("class").count("errors"), len(places))

    def test_the_heat_map_counts_every_problem(self):
        coverage = json.loads((self.wrong / "summary.json").read_text())["coverage"]
        self.assertEqual(coverage["problems"], 400)
        dtype = next(field for field in coverage["fields"] if field["name"] == "dtype")
        self.assertEqual(sum(value["count"] for value in dtype["values"]), 400)
        page = self.page(self.wrong)
        self.assertEqual(page.of("class").count("heat"), len(coverage["tables"]))

    def test_what_holds(self):
        page = self.page(self.right)
        self.assertIn("every property held", page.text)
        self.assertIn("None was found.", page.text)
        self.assertIn("judged least", page.text)
        self.assertRegex(page.text, r"sizesb \d+ to [\d,]+, hq ")
        self.assertNotIn("judged least", self.page(self.wrong).text)

    def test_a_killed_campaign_tells_what_it_has(self):
        folder = self.copy("killed")
        (folder / "summary.json").unlink()
        page = self.page(folder)
        self.assertIn("has not come to its end", page.text)
        self.assertEqual(page.of("class").count("card finding"), len(list((folder / "corpus").rglob("*.json"))))
        # A summary of an earlier run does not pass for one of this.
        stale = json.loads((self.wrong / "summary.json").read_text()) | {"cases": 3}
        (folder / "summary.json").write_text(json.dumps(stale))
        self.assertIn("has not come to its end", self.page(folder).text)

    def test_hostile_text_stays_text(self):
        folder = self.copy("hostile")
        file = folder / "summary.json"

        def poisoned(value, key=""):
            if isinstance(value, dict):
                return {(k if k in KEYS else HOSTILE + k): poisoned(v, k) for k, v in value.items()}
            if isinstance(value, list):
                return [poisoned(v, key) for v in value]
            return HOSTILE + value if isinstance(value, str) and value else value
        record = json.loads(file.read_text())
        KEYS = set()

        def keys(value, path=()):
            if isinstance(value, dict):
                for k, v in value.items():
                    if path[-1:] not in (("verdicts",), ("skip",), ("vacuous",), ("skipped",)):
                        KEYS.add(k)
                    keys(v, (*path, k))
            elif isinstance(value, list):
                for v in value:
                    keys(v, path)
        keys(record)
        KEYS |= {"pass", "warn", "fail", "error", "crash", "timeout", "poisoned", "flaky", "skip", "vacuous"}
        clean = self.page(self.wrong)
        file.write_text(json.dumps(poisoned(record)))
        page = self.page(folder)
        self.assertEqual(page.tags, clean.tags)
        self.assertEqual({key for _, key, _ in page.attributes}, {key for _, key, _ in clean.attributes})
        self.assertIn("<script>alert(1)</script>", page.text)
        self.assertNotIn("\u202e", page.text)
        self.assertNotIn("\x00", page.text)
        junit, sarif = folder / "j.xml", folder / "s.json"
        attest("report", folder, "--junit", junit, "--sarif", sarif)
        self.assertFalse((folder / "report.html").exists())
        ElementTree.parse(junit)
        uri = json.loads(sarif.read_text())["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        self.assertRegex(uri, r"^[A-Za-z0-9._~/%:-]+$")

    def test_damaged_files_are_named(self):
        folder = self.copy("damaged")
        whole = (folder / "summary.json").read_text()
        record = json.loads(whole)
        for text in (whole[: len(whole) // 2], "[]", "{}", json.dumps(record | {"findings": 7}), json.dumps(record | {"verdicts": []}),
                     json.dumps(record | {"defects": [{"buckets": []}]}), json.dumps(record | {"defects": [{"buckets": [{}]}]})):
            (folder / "summary.json").write_text(text)
            done = attest("report", folder, "-o", "-", status=2)
            self.assertRegex(done.stderr, "damaged|no report of attest|holds no")
        for where in (self.folder / "nowhere", self.folder):
            attest("report", where, status=2)

    def test_junit(self):
        suite = ElementTree.parse(self.folder / "wrong.xml").getroot()
        record = json.loads((self.folder / "wrong.json").read_text())
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        self.assertTrue(set(record["verdicts"]) <= set(cases))
        failing = {name for name, case in cases.items() if case.find("failure") is not None}
        self.assertEqual(failing, {law for law, counts in record["verdicts"].items() if counts["fail"] + counts["error"] + counts["crash"] > 0})
        self.assertEqual(suite.get("failures"), str(len(failing)))
        self.assertEqual(suite.get("tests"), str(len(cases)))
        told = "".join(failure.text for case in cases.values() for failure in case.findall("failure"))
        for finding in record["findings"]:
            self.assertIn(finding["rerun"], told)
        for name, case in cases.items():
            counts = record["verdicts"][name]
            self.assertEqual(case.find("skipped") is not None, name not in failing and counts["pass"] + counts["warn"] == 0, name)
        right = ElementTree.parse(self.folder / "right.xml").getroot()
        self.assertEqual((right.get("failures"), right.get("errors")), ("0", "0"))
        again = self.folder / "again.xml"
        attest("report", self.wrong, "--junit", again)
        self.assertEqual(again.read_text(), (self.folder / "wrong.xml").read_text())

    def test_what_is_known_is_no_failure(self):
        done = self.folder / "known.xml"
        attest("fuzz", "fault:causal-corner", "--seed", 1, "--cases", 400, "-o", self.folder / "known", "--known", self.wrong / "corpus", "--junit", done,
               "--sarif", self.folder / "known.sarif")
        self.assertEqual(ElementTree.parse(done).getroot().get("failures"), "0")
        results = json.loads((self.folder / "known.sarif").read_text())["runs"][0]["results"]
        self.assertTrue(results)
        self.assertEqual({result["level"] for result in results}, {"note"})
        names = {file.stem for file in (self.wrong / "corpus").rglob("*.json")}
        self.assertTrue(all(result["message"]["text"].split(". Known: ")[1].split(". Again: ")[0] in names for result in results))

    def test_sarif(self):
        log = json.loads((self.folder / "wrong.sarif").read_text())
        record = json.loads((self.folder / "wrong.json").read_text())
        self.assertEqual(log["version"], "2.1.0")
        run, = log["runs"]
        self.assertEqual([result["partialFingerprints"]["attestBucket/v1"] for result in run["results"]],
                         [finding["bucket"] for finding in record["findings"]])
        self.assertEqual({rule["id"] for rule in run["tool"]["driver"]["rules"]}, {result["ruleId"] for result in run["results"]})
        self.assertTrue(all(rule["shortDescription"]["text"] != rule["id"] for rule in run["tool"]["driver"]["rules"]))
        self.assertEqual(json.loads((self.folder / "right.sarif").read_text())["runs"][0]["results"], [])

    def test_check_and_a_campaign_that_tested_nothing(self):
        file = self.folder / "check.xml"
        done = attest("check", "fault:causal-corner", "--cases", 200, "--junit", "-", status=1)
        self.assertTrue(ElementTree.fromstring(done.stdout).get("failures") > "0")
        attest("check", "builtin:fused", "--property", "window-mask", "--assume", "causal==0 && window_left<0 && window_right<0", "--cases", 20, "--junit", file, status=5)
        self.assertEqual(ElementTree.parse(file).getroot().get("errors"), "1")
        attest("check", "builtin:fused", "--cases", 5, "--junit", "-", "--json", "-", status=2)
        attest("check", "builtin:fused", "--cases", 5, "--junit", self.folder / "no" / "such.xml", status=2)

    def test_replay(self):
        entries = sorted((self.wrong / "corpus").rglob("*.json"))
        corpus = self.folder / "corpus"
        corpus.mkdir()
        for number, entry in enumerate(entries):
            shutil.copy(entry, corpus / f"{number}.json")
        (corpus / "damaged.json").write_text("{")
        junit, sarif = self.folder / "replay.xml", self.folder / "replay.sarif"
        attest("replay", corpus, "--junit", junit, "--sarif", sarif, status=2)
        suite = ElementTree.parse(junit).getroot()
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite.get("errors")), (str(len(entries) + 1), "0", "1"))
        attest("replay", corpus, "--subject", "builtin:fused", "--junit", junit, "--sarif", sarif, status=1)
        self.assertEqual(ElementTree.parse(junit).getroot().get("failures"), str(len(entries)))
        self.assertEqual(len(json.loads(sarif.read_text())["runs"][0]["results"]), len(entries) + 1)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PROBE = """<script>document.title = JSON.stringify({wide: document.documentElement.scrollWidth, page: innerWidth,
  ink: getComputedStyle(document.body).color, paper: getComputedStyle(document.body).backgroundColor,
  cut: [...document.querySelectorAll('svg')].filter(e => e.getBoundingClientRect().width > innerWidth).length,
  hidden: [...document.querySelectorAll('section, article, svg, h1')].filter(e => !e.getBoundingClientRect().width).length,
  focus: [...document.querySelectorAll('a, summary, [tabindex]')].filter(e => e.tagName == 'SUMMARY' || !e.closest('details:not([open])')).filter(e => { e.focus({preventScroll: true}); const away = document.activeElement !== e; e.blur(); return away; }).length})</script>"""


def look(page, width, dark, picture):
    """A page as Chromium shows it, `width` pixels wide: facts about it, and a picture of it as a file."""
    with tempfile.TemporaryDirectory() as folder:
        # The page forbids scripts; what measures it is put in without that line.
        text = re.sub(r"<meta http-equiv[^>]*>", "", page).replace("</body>", PROBE + "</body>")
        frame = f'<!DOCTYPE html><body style="margin:0"><iframe src="page.html" style="width:{width}px;height:2400px;border:0"></iframe>'
        Path(folder, "page.html").write_text(text)
        Path(folder, "frame.html").write_text(frame + """<script>onload = () => document.title = document.querySelector('iframe').contentDocument.title</script>""")
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", f"--user-data-dir={folder}/profile",
                               f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=5000", f"--window-size={max(width, 500)},2400",
                               f"--screenshot={picture}", "--dump-dom", f"file://{folder}/frame.html"], capture_output=True, text=True, timeout=600)
        return json.loads(re.search(r"<title>(.*?)</title>", done.stdout)[1].replace("&quot;", '"'))


def must_fit(test, page, name):
    """Checks a page at a desktop's and a phone's width, light and dark: nothing lies beside the page, all of it is seen. Leaves pictures of it in
    report-pictures/ of the folder in which the tests run."""
    pictures = Path("report-pictures").absolute()
    pictures.mkdir(exist_ok=True)
    for width, dark in ((1280, False), (1280, True), (400, False), (400, True)):
        picture = pictures / f"{name}-{width}-{'dark' if dark else 'light'}.png"
        what = look(page, width, dark, picture)
        test.assertEqual(what["page"], width)
        test.assertLessEqual(what["wide"], width, f"{name} at {width}: {what}")
        test.assertEqual((what["hidden"], what["focus"], what["cut"]), (0, 0, 0), (name, what))
        test.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

        def light(colour):
            return sum(map(int, re.findall(r"\d+", colour)[:3]))
        test.assertEqual(light(what["ink"]) > light(what["paper"]), dark, what)


class Browser(unittest.TestCase):
    """Pages in Chromium."""

    def page(self, *words, status):
        with tempfile.TemporaryDirectory() as folder:
            attest("fuzz", *words, "-o", Path(folder, "campaign"), status=status)
            return attest("report", Path(folder, "campaign"), "-o", "-").stdout

    def test_of_attention(self):
        must_fit(self, self.page("fault:causal-corner", "--seed", 1, "--cases", 300, status=1), "attention")

    def test_of_a_norm(self):
        must_fit(self, self.page("fault:ln-norm-rounded", "--seed", 1, "--cases", 100, status=1), "norm")

    @unittest.skipUnless(HAS_NUMPY, "numpy is not installed for ATTEST_PYTHON")
    def test_of_a_model(self):
        founding = Path(__file__).resolve().parents[2] / "docs/founding/S3-model"
        must_fit(self, self.page(founding / "cross-encoder.onnx", "--on", founding / "leaky.py", "--seed", 3,
                                 "--constrain", "size.length=1..6", "--cases", 12, status=1), "model")

    def test_of_a_campaign_that_held(self):
        must_fit(self, self.page("builtin:fused", "--seed", 1, "--cases", 300, status=0), "held")

    def test_what_does_not_fit_is_seen(self):
        page = "<!DOCTYPE html><body><h1>wide</h1><div style='width:900px'>x</div><svg width=900 height=9></svg></body>"
        with tempfile.TemporaryDirectory() as folder:
            what = look(page, 400, False, Path(folder, "x.png"))
        self.assertGreater(what["wide"], 400)
        self.assertEqual(what["cut"], 1)


if __name__ == "__main__":
    ATTEST = sys.argv.pop(1)
    if "Browser" in sys.argv and CHROMIUM is None:
        print("skipped: no Chromium here")
        sys.exit(125)
    unittest.main(defaultTest=None if len(sys.argv) > 1 else "Report")
