#!/usr/bin/env python3
"""docs/findings/ and its gpu/: the page is what the data print, tells of each reproducer and quotes a document, and attest prints a script and a draft for a
tracker of it.
Usage: findings_test.py ATTEST [unittest argument...]"""
import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))
import findings
from need_package import need

DOCS = ROOT / "docs"
FOLDERS = {"findings.md": DOCS / "findings", "findings-gpu.md": DOCS / "findings" / "gpu"}  # by the page that tells of them
SECTIONS = ("What happens", "What is expected", "To reproduce", "Environment")


def sections(name):
    """{id: the page's text of it}"""
    page = (DOCS / name).read_text(encoding="utf-8")
    return dict(re.findall(r"(?ms)^### (\S+)\n(.*?)(?=^### |\Z)", page))


class Findings(unittest.TestCase):
    def test_the_page_is_what_the_data_print(self):
        self.assertEqual(findings.PAGE.read_text(encoding="utf-8"), findings.page(attest), "tests/python/findings.py ATTEST --write prints it anew")

    def test_each_finding_has_what_shows_it(self):
        told = {name: record for library in findings.libraries() for name, record in findings.records(library).items()}
        for name, record in told.items():
            with self.subTest(name):
                self.assertTrue(findings.reproducer(name) or {"script", "program"} & record.keys())
                self.assertEqual("prints" in record, bool({"script", "program"} & record.keys()))
                self.assertFalse(record.keys() - findings.KEYS, "a key that the page does not print")

    def test_the_page_tells_of_each_and_quotes_a_document(self):
        for page, folder in FOLDERS.items():
            said = sections(page)
            for file in folder.glob("*.json"):
                with self.subTest(page, entry=file.stem):
                    self.assertIn(file.stem, said, "the page does not tell of it")
                    self.assertRegex(said[file.stem], "(?m)^(- )?Class: ")
                    if folder == FOLDERS["findings.md"] and "Class: defect" in said[file.stem]:
                        self.assertRegex(said[file.stem], r'(?m)"[^"]{12,}"|^- Document: as |^- Document: .*\bsilent\b', "no sentence is quoted")

    def test_what_is_printed_is_of_its_reproducer(self):
        """One entry of each subject that this interpreter can start."""
        of_each = {json.loads(file.read_text(encoding="utf-8"))["subject"]: file for file in sorted((DOCS / "findings").glob("onnx*-*.json"))
                   + sorted((DOCS / "findings").glob("ort-*.json"))}
        self.assertGreater(len(of_each), 5)
        for subject, file in of_each.items():
            with self.subTest(subject, entry=file.stem):
                text = json.loads(file.read_text(encoding="utf-8"))["text"]
                script, draft = (self.export(file, to) for to in ("python", "issue"))
                self.assertIn(f"# problem: {text}", script)
                self.assertIn(script, draft)
                for section in SECTIONS:
                    self.assertIn(f"\n## {section}\n", draft)

    def export(self, file, to):
        done = subprocess.run([attest, "export", file, "--to", to], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_the_stored_draft_is_of_a_script(self):
        """A defect of a subject's tool, such as a compiler, has no reproducer of which attest would print a draft."""
        for draft in FOLDERS["findings-gpu.md"].glob("*.md"):
            with self.subTest(draft.name):
                text = draft.read_text(encoding="utf-8")
                self.assertFalse(draft.with_suffix(".json").exists(), "attest prints the draft of a reproducer")
                self.assertTrue(draft.with_suffix(".py").is_file())
                self.assertIn(f"({draft.with_suffix('.py').name})", text)
                self.assertRegex(text, r'(?m)^> .*"', "no sentence is quoted")
                for section in SECTIONS:
                    self.assertIn(f"\n## {section}\n", text)


if __name__ == "__main__":
    need("onnxruntime", "./run test installs it")
    attest = sys.argv.pop(1)
    unittest.main()
