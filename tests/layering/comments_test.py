#!/usr/bin/env python3
"""A comment in C++ begins with a noun or a verb: none begins with a clause that has no subject.

Usage: comments_test.py SOURCE_FOLDER
"""
import re
import sys
import tempfile
import unittest
from pathlib import Path

from check_layering import sources

SOURCE = None
COMMENT = re.compile(r"\s*//+<?\s*(.*)")
NO_SUBJECT = re.compile(r"(Of|What|Whether|Whose|Which)\b")


def complaints(root):
    """FILE:LINE: TEXT of each comment, or paragraph of one, that begins with a clause without a subject."""
    for path in sources(root):
        before = ""
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            comment = COMMENT.fullmatch(line)
            text = comment[1] if comment else ""
            if not before and NO_SUBJECT.match(text):
                yield f"{path}:{number}: {text}"
            before = text


def complaints_of(lines):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "row.hpp").write_text(f"int row;\n{lines}\nint rows;\n")
        return list(complaints(Path(folder)))


class Comments(unittest.TestCase):
    maxDiff = None

    def test_the_tree_keeps_the_rule(self):
        self.assertTrue(any(sources(SOURCE)), f"there is no source in {SOURCE}")
        self.assertEqual(list(complaints(SOURCE)), [], "a comment begins with a noun or a verb (docs/testing.md)")

    def test_a_planted_comment_is_found(self):
        for planted in ("// Of a row.", "  // What it holds.", "/// Whose it is.", "// Whether it is one.", "// A row.\n//\n// Which it is."):
            with self.subTest(planted):
                self.assertEqual(len(complaints_of(planted)), 1)

    def test_a_sentence_is_left_alone(self):
        for comment in ("// A row of\n// Of Mice.", "// Official rows.", "// Tells whether it is one.", "int a;  // Of b."):
            with self.subTest(comment):
                self.assertEqual(complaints_of(comment), [])


if __name__ == "__main__":
    SOURCE = Path(sys.argv.pop(1))
    unittest.main()
