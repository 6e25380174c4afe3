#!/usr/bin/env python3
"""docs/findings/ and its gpu/: each defect with a reproducer has a draft for its library's tracker, and each draft is of its
reproducer, or of its script where there is none.
Usage: findings_test.py [unittest argument...]"""
import json
import re
import unittest
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
FOLDERS = {"findings.md": DOCS / "findings", "findings-gpu.md": DOCS / "findings" / "gpu"}  # by the page that tells of them


def classes(name):
    """{id: what the page says after "Class:"}"""
    page = (DOCS / name).read_text(encoding="utf-8")
    return {name: found.group(1) for name, text in re.findall(r"(?ms)^### (\S+)\n(.*?)(?=^### |\Z)", page)
            if (found := re.search(r"^Class: (.*)", text, re.M))}


class Drafts(unittest.TestCase):
    def test_each_defect_with_a_reproducer_has_one(self):
        for page, folder in FOLDERS.items():
            said = classes(page)
            for file in folder.glob("*.json"):
                with self.subTest(page, entry=file.stem):
                    self.assertIn(file.stem, said, "the page does not tell of it")
                    self.assertEqual(said[file.stem].startswith("defect"), file.with_suffix(".md").is_file(), said[file.stem])

    def test_each_is_of_its_reproducer_and_quotes_a_document(self):
        drafts = [draft for folder in FOLDERS.values() for draft in sorted(folder.glob("*.md"))]
        self.assertGreater(len(drafts), 10)
        for draft in drafts:
            with self.subTest(str(draft)):
                text = draft.read_text(encoding="utf-8")
                if not (reproducer := draft.with_suffix(".json")).is_file():  # a defect of a subject's tool, such as a compiler
                    self.assertTrue(draft.with_suffix(".py").is_file(), "it has neither a reproducer nor a script")
                    self.assertIn(f"({draft.with_suffix('.py').name})", text)
                else:
                    entry = json.loads(reproducer.read_text(encoding="utf-8"))
                    self.assertIn(f"# problem: {entry['text']}", text)
                    self.assertIn(f"- {entry['subject_version']}\n", text)
                self.assertRegex(text, r"(?m)^> .*\"", "no sentence is quoted")
                self.assertNotIn("Quote here", text)
                for section in ("What happens", "What is expected", "To reproduce", "Environment"):
                    self.assertIn(f"\n## {section}\n", text)


if __name__ == "__main__":
    unittest.main()
