"""The interpreter that attest starts Python subjects with, and whether it has numpy."""
import os
import subprocess

PYTHON = os.environ.get("ATTEST_PYTHON", "python3")
HAS_NUMPY = subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True).returncode == 0
