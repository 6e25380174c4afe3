"""Runs tests that need a package under ATTEST_PYTHON, or skips them aloud; importing this makes attest's module known."""

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "subjects" / "python"))


def need(package, remedy):
    """Goes on where this interpreter has the package, else starts again under ATTEST_PYTHON, else exits with 125."""
    if importlib.util.find_spec(package) is not None:
        return
    other = os.environ.get("ATTEST_PYTHON", "")
    if other and other != os.environ.get("ATTEST_TRIED_PYTHON"):
        os.environ["ATTEST_TRIED_PYTHON"] = other
        os.execv(other, [other, *sys.argv])
    print(f"skipped: {package} is not installed; {remedy}, or ATTEST_PYTHON names a Python that has it")
    sys.exit(125)
