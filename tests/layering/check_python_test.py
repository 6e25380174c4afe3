#!/usr/bin/env python3
"""Tests of check_python.py: a clean tree passes; a planted import and each planted circle are named and refused."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER = Path(__file__).with_name("check_python.py")
ATTEST, ADAPTERS, TESTS = "subjects/python/attest/", "subjects/python/attest/adapters/", "tests/python/"

# A small house that keeps every rule, and imports in every way in which Python does.
CLEAN = {
    ATTEST + "__init__.py": "def __getattr__(name):\n    from . import protocol\n",
    ATTEST + "protocol.py": "import numpy as np\n",
    ATTEST + "arrays.py": "from .protocol import NUMPY\n",
    ATTEST + "function_base.py": "from . import function_script\n",
    ATTEST + "function_script.py": "from .arrays import TorchArrays\n",
    ATTEST + "worker.py": "from . import function_base, protocol\nimport attest.arrays\n",
    ATTEST + "adapters/__init__.py": "",
    ADAPTERS + "_masks.py": "from attest import Unsupported\n",
    ADAPTERS + "_onnx_call.py": "import onnx\nfrom ._masks import narrowed\n",
    ADAPTERS + "_onnxruntime_mha.py": "import onnxruntime\nfrom ._onnx_call import check\n",
    ADAPTERS + "_torch_sdpa.py": "import torch\nfrom . import _masks\n",
    ADAPTERS + "torch.py": "from ._torch_sdpa import Sdpa\n",
    TESTS + "calls.py": "import numpy\n",
    TESTS + "test_torch.py": "from attest.adapters import torch\nfrom calls import call\nimport attest\n",
    TESTS + "test_onnx.py": "",
}

# (file, line that it now has, what the complaint must say)
PLANTED = [
    (ATTEST + "protocol.py", "from .arrays import TorchArrays", "the ground may not import attest/arrays, which is of transport"),
    (ATTEST + "arrays.py", "from attest import function_base", "transport may not import attest/function_base"),
    (ATTEST + "arrays.py", "def f():\n    import attest.worker", "transport may not import attest/worker, which is of programs"),
    (ADAPTERS + "_masks.py", "from ._torch_sdpa import Sdpa", "what adapters share may not import attest/adapters/_torch_sdpa"),
    (ADAPTERS + "_torch_sdpa.py", "from ._onnx_call import check", "an adapter of torch may not import attest/adapters/_onnx_call, one of onnx"),
    (ADAPTERS + "_onnx_call.py", "from . import _onnxruntime_mha", "an adapter of onnx may not import attest/adapters/_onnxruntime_mha"),
    (ADAPTERS + "_torch_sdpa.py", "from .torch import SUBJECTS", "adapters may not import attest/adapters/torch, which is of tables of subjects"),
    (TESTS + "test_torch.py", "import test_onnx", "a test may not import tests/python/test_onnx"),
    (TESTS + "calls.py", "from test_torch import call", "what tests share may not import tests/python/test_torch"),
    (ATTEST + "elsewhere.py", "", "this file lies in no layer"),
]

# (what the files have besides, the circle as it is told)
CIRCLES = [
    ({ATTEST + "function_script.py": "from .function_base import Function"},
     "attest/function_base -> attest/function_script -> attest/function_base"),
    ({ADAPTERS + "_torch_script.py": "import inspect\n\ndef norm():\n    from ._torch_sdpa import Sdpa",  # inside a function
      ADAPTERS + "_torch_sdpa.py": "from ._torch_script import norm"},
     "attest/adapters/_torch_script -> attest/adapters/_torch_sdpa -> attest/adapters/_torch_script"),
    ({TESTS + "a.py": "import b", TESTS + "b.py": "import c", TESTS + "c.py": "from a import d"},
     "tests/python/a -> tests/python/b -> tests/python/c -> tests/python/a"),
]


def check(planted):
    """Writes the clean files, with `planted` behind them, into an empty tree and runs the checker over it."""
    with tempfile.TemporaryDirectory() as root:
        for name in {**CLEAN, **planted}:
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(CLEAN.get(name, "") + planted.get(name, "") + "\n")
        return subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True)


class CleanTreeIsAccepted(unittest.TestCase):
    def test_clean(self):
        result = check({})
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)


class PlantedImportIsRejected(unittest.TestCase):
    def test_each(self):
        for file, lines, complaint in PLANTED:
            with self.subTest(file=file, lines=lines):
                result = check({file: lines})
                self.assertEqual(result.returncode, 1, result.stderr)
                told = [line for line in result.stdout.splitlines() if "a circle" not in line]
                self.assertEqual(len(told), 1, result.stdout)
                number = CLEAN.get(file, "").count("\n") + max(1, len(lines.splitlines()))
                self.assertTrue(told[0].startswith(f"{file}:{number}: {complaint}"), told[0])

    def test_empty_tree_is_no_pass(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(subprocess.run([sys.executable, str(CHECKER), root], capture_output=True).returncode, 2)


class PlantedCircleIsFound(unittest.TestCase):
    def test_each(self):
        for planted, circle in CIRCLES:
            with self.subTest(circle):
                result = check(planted)
                self.assertEqual(result.returncode, 1, result.stderr)
                told = [line for line in result.stdout.splitlines() if "a circle" in line]
                self.assertEqual(len(told), 1, result.stdout)
                self.assertTrue(told[0].endswith(f"a circle: {circle}"), told[0])


if __name__ == "__main__":
    unittest.main()
