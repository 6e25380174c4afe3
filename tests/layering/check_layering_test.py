#!/usr/bin/env python3
"""Tests of check_layering.py: a clean tree passes, and each planted include is named and refused."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKER = Path(__file__).with_name("check_layering.py")

# A small house that keeps every rule, and uses every permission that has a condition.
CLEAN = {
    "include/attest/plugin.h": "#include <stdint.h>\n",
    "core/problem.hpp": "#include <string>\n#include <nlohmann/json_fwd.hpp>\n",
    "core/problem.cpp": '#include "core/problem.hpp"\n#include <nlohmann/json.hpp>\nconst char* op = "attention";\n',
    "oracle/reference.cpp": '#include <Eigen/Core>\n#include "core/problem.hpp"\n',
    "certify/ball.hpp": '#include <arb.h>\n#include "core/problem.hpp"\n',
    "include/attest/attest.hpp": "#include <vector>\n",
    "kernels/fused/fused.hpp": '#include "attest/plugin.h"\n#include "core/problem.hpp"\n#pragma omp parallel for\n',
    "generators/shape.hpp": '#include "core/problem.hpp"\n#include <rapidcheck.h>\n',
    "properties/batch.cpp": '#include "core/problem.hpp"\n#include "oracle/bound.hpp"\n',
    "subjects/builtin.cpp": '#include "kernels/fused/fused.hpp"\n#include "core/problem.hpp"\nint attention;\n',
    "subjects/plugin.cpp": '#include <attest/plugin.h>\n#include "core/problem.hpp"\n',
    "subjects/adapters/lib/attend.cpp": '#include <attest/attest.hpp>\nint attention;\n',
    "engine/suite.cpp": '#include <rapidcheck.h>\n#include "properties/batch.hpp"\n',
    "ops/op.hpp": '#include "core/problem.hpp"\n#include "properties/batch.hpp"\n',
    "ops/attention/traits.cpp": '#include "generators/shape.hpp"\nint attention_traits;\n',
    "engine/campaign.cpp": '#include "ops/op.hpp"\n#include "subjects/open.hpp"\n#pragma omp parallel\n',
    "report/terminal.cpp": '#include "engine/campaign.hpp"\n',
    "cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "certify/ball.hpp"\n#include "report/terminal.hpp"\n',
    "tests/oracle/reference_test.cpp": '#include <gtest/gtest.h>\n#include "kernels/fused/fused.hpp"\n',
    "generators/draw.cpp": '// of attention\n/* attention\n again */ const char* what = "a // b";\n',
    "core/attention/fields.cpp": "int attention_fields;\n",
    "bench/kernels.cpp": '#include <benchmark/benchmark.h>\n',
}

# (file, what it now includes, what the complaint must say)
PLANTED = [
    ("core/problem.hpp", '#include "oracle/bound.hpp"', "core may not include oracle"),
    ("core/problem.cpp", '#include "../kernels/fused/fused.hpp"', "core may not include kernels"),
    ("oracle/reference.cpp", '#include "kernels/fused/fused.hpp"', "oracle may not include kernels"),
    ("certify/ball.hpp", '#include "oracle/bound.hpp"', "certify may not include oracle"),
    ("oracle/reference.cpp", '#include "certify/ball.hpp"', "oracle may not include certify"),
    ("oracle/reference.cpp", "#include <flint/arb.h>", "<flint/arb.h> belongs in certify/"),
    ("kernels/fused/fused.hpp", '  #  include "oracle/bound.hpp"', "kernels may not include oracle"),
    ("generators/shape.hpp", '#include "properties/batch.hpp"', "generators may not include properties"),
    ("properties/batch.cpp", '#include "kernels/fused/fused.hpp"', "properties may not include kernels"),
    ("properties/batch.cpp", '#include "subjects/open.hpp"', "properties may not include subjects"),
    ("properties/batch.cpp", '#include "ops/op.hpp"', "properties may not include ops"),
    ("ops/op.hpp", '#include "subjects/open.hpp"', "ops may not include subjects"),
    ("ops/op.hpp", "int attention;", "ops names no operation"),
    ("subjects/plugin.cpp", '#include "ops/op.hpp"', "subjects may not include ops"),
    ("subjects/plugin.cpp", '#include "subjects/adapters/lib/attend.hpp"', "subjects may not include adapters"),
    ("subjects/adapters/lib/attend.cpp", '#include "core/problem.hpp"', "adapters may not include core"),
    ("subjects/plugin.cpp", '#include "kernels/fused/fused.hpp"', "subjects may not include kernels"),
    ("subjects/plugin.cpp", '#include "engine/campaign.hpp"', "subjects may not include engine"),
    ("engine/campaign.cpp", '#include "report/terminal.hpp"', "engine may not include report"),
    ("report/terminal.cpp", '#include "cli/verbs.hpp"', "report may not include cli"),
    ("report/terminal.cpp", '#include "tests/data.hpp"', "report may not include tests"),
    ("include/attest/plugin.h", '#include "core/problem.hpp"', "public may not include core"),
    ("kernels/fused/fused.hpp", "#include <attest/attest.hpp>", "kernels may not include public"),
    ("properties/batch.cpp", "#include <rapidcheck.h>", "<rapidcheck.h> belongs in"),
    ("engine/campaign.cpp", "#include <rapidcheck.h>", "allowed in 1 file of engine/"),
    ("engine/campaign.cpp", "#include <Eigen/Dense>", "<Eigen/Dense> belongs in"),
    ("oracle/reference.cpp", "#include <omp.h>", "<omp.h> belongs in"),
    ("oracle/reference.cpp", "#pragma omp parallel for", "<omp.h> belongs in"),
    ("core/problem.hpp", "#include <nlohmann/json.hpp>", "belongs in .cpp files alone"),
    ("report/terminal.cpp", "#include <CLI/CLI.hpp>", "<CLI/CLI.hpp> belongs in cli/"),
    ("generators/draw.cpp", 'const char* op = "// attention";', "generators names no operation"),
    ("core/problem.hpp", "struct AttentionProblem;", "core names no operation"),
    ("engine/campaign.cpp", "int attention = 0;  // and attention", "engine names no operation"),
    ("core/problem.cpp", "#include <gtest/gtest.h>", "<gtest/gtest.h> belongs in tests/"),
    ("kernels/fused/fused.hpp", "#include <benchmark/benchmark.h>", "belongs in bench/"),
]


def check(files):
    """Writes the files into an empty tree and runs the checker over it."""
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, str(CHECKER), root], capture_output=True, text=True)


class CleanTreeIsAccepted(unittest.TestCase):
    def test_clean(self):
        result = check(CLEAN)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_an_exception_that_is_none_any_more_is_named(self):
        result = check(CLEAN | {"core/supports.cpp": "// attention\n"})
        self.assertEqual(result.returncode, 1)
        self.assertIn("core/supports.cpp:1: it names no operation any more", result.stdout)

    def test_build_folder_and_comments_do_not_count(self):
        result = check(CLEAN | {"build/x/core/a.cpp": '#include "cli/verbs.hpp"\n',
                                "core/a.cpp": '// #include "cli/verbs.hpp"\n'})
        self.assertEqual((result.returncode, result.stdout), (0, ""))


class PlantedIncludeIsRejected(unittest.TestCase):
    def test_each(self):
        for file, line, complaint in PLANTED:
            with self.subTest(file=file, line=line):
                result = check(CLEAN | {file: CLEAN[file] + line + "\n"})
                where = f"{file}:{CLEAN[file].count(chr(10)) + 1}: "
                self.assertEqual(result.returncode, 1, result.stderr)
                hits = [hit for hit in result.stdout.splitlines() if complaint in hit]
                self.assertEqual(len(hits), 1, result.stdout)
                # A folder with a limit of one file names the second in order, planted or not.
                if "allowed in 1 file" not in complaint:
                    self.assertTrue(hits[0].startswith(where), hits[0])

    def test_empty_tree_is_no_pass(self):
        self.assertEqual(check({}).returncode, 2)


if __name__ == "__main__":
    unittest.main()
