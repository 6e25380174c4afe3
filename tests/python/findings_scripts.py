"""Every script of docs/findings.md prints what the page says it prints, under the versions that the page is about."""

import contextlib
import io
import re
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


class Findings(unittest.TestCase):
    """A subclass says `prefix`, of the entries' names; `packages`, name -> the version here; `requirements`, the file."""

    def test_scripts(self):
        pinned = (ROOT / "subjects/python" / self.requirements).read_text().split()
        for name, version in self.packages.items():
            if f"{name}=={version}" not in pinned:
                self.skipTest(f"the page is about the pinned {name}, not {version}")
        text = (ROOT / "docs/findings.md").read_text()
        entries = re.findall(rf"^### ({self.prefix}-\S+)\n(?:(?!^### ).)*?```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```",
                             text, re.MULTILINE | re.DOTALL)
        self.assertEqual(len(entries), len(re.findall(rf"^### {self.prefix}-", text, re.MULTILINE)))
        for name, script, expected in entries:
            with self.subTest(name):
                printed = io.StringIO()
                try:
                    with contextlib.redirect_stdout(printed), np.errstate(all="ignore"):
                        exec(compile(script, name, "exec"), {"__name__": name})
                except SystemExit as why:  # "this processor has no ..."
                    self.skipTest(f"{name}: {why}")
                self.assertEqual(printed.getvalue().strip(), expected.strip())
