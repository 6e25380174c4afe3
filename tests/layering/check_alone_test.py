#!/usr/bin/env python3
"""check_alone.py tells a source that lives on what others of its batch include, and no other.

Usage: check_alone_test.py COMPILER"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKER = Path(__file__).with_name("check_alone.py")
COMPILER = sys.argv[1]
HOLDS = "#include <vector>\nstd::vector<int> first() { return {1}; }\n"
LACKS = "std::vector<int> second() { return {2}; }\n"


def checked(second, words=("--all",), batched=True):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "a.cpp").write_text(HOLDS)
        (root / "b.cpp").write_text(second)
        (root / "unity_0_cxx.cxx").write_text(f'#include "{root}/a.cpp"\n#include "{root}/b.cpp"\n')
        file = root / ("unity_0_cxx.cxx" if batched else "a.cpp")
        (root / "CMakeCache.txt").write_text(f"CMAKE_CXX_COMPILER:FILEPATH={COMPILER}\n")
        (root / "compile_commands.json").write_text(json.dumps([{
            "directory": folder, "command": f"/usr/bin/env A=1 {COMPILER} -Wall -o x.o -c {file}", "file": str(file)}]))
        subprocess.run([COMPILER, "-fsyntax-only", str(file)], check=True)  # the build's own look
        return subprocess.run([sys.executable, CHECKER, folder, folder, *words], capture_output=True, text=True)


def MissingIncludeIsTold():
    done = checked(LACKS)
    assert done.returncode == 1 and "b.cpp does not compile alone" in done.stdout and "a.cpp does" not in done.stdout, done
    assert "1 of 2 sources compile alone" in done.stdout, done.stdout


def WholeSourcesPass():
    done = checked("#include <vector>\n" + LACKS)
    assert done.returncode == 0 and "2 of 2" in done.stdout, done
    # Outside a repository there is no branch to differ from: the share alone.
    assert "1 of 1 sources compile alone, of 2" in checked("#include <vector>\n" + LACKS, ()).stdout


def ABuildWithoutBatchesIsSkipped():
    assert checked("", batched=False).returncode == 125


for case in (MissingIncludeIsTold, WholeSourcesPass, ABuildWithoutBatchesIsSkipped):
    case()
