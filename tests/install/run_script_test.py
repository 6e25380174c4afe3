#!/usr/bin/env python3
"""Tests of ./run in a small house of its own, with stand-ins for cmake, ninja, apt-get and sudo that
record how they were called. Usage: run_script_test.py PATH_OF_RUN [unittest argument...]"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = ("bash cat cmp cp cut dirname env find flock grep head mkdir mv nproc readlink rm sed sleep tail touch "
         "chmod tr").split()

STAND_INS = {
    "g++": "exit 0",
    "ccache": "exit 0",
    "tar": "exit 0",
    "cmake": r'''
if [[ -e $HOUSE/cmake-fails ]]; then echo "CMake Error: planted"; exit 1; fi
if [[ $2 == */adapters/* ]]; then exit 0; fi
mkdir -p build/release && echo "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" >build/release/CMakeCache.txt
touch build/release/build.ninja; echo chatter of cmake''',
    "ninja": r'''
if [[ -e $HOUSE/ninja-fails ]]; then echo "a.cpp:1:1: error: planted"; exit 1; fi
if [[ -e $HOUSE/ninja-slow ]]; then sleep 1; fi
if [[ $2 == */adapters/* ]]; then touch "$2.so"; exit 0; fi
mkdir -p "$2/bin"; echo chatter of ninja
if [[ -e $HOUSE/ninja-tells ]]; then
  echo "[3/9] Building CXX object core/CMakeFiles/attest_core.dir/sub/a.cpp.o"; sleep 1.7
  echo "[4/9] Building CXX object kernels/CMakeFiles/attest_kernels.dir/Unity/unity_2_cxx.cxx.o"; sleep 1
fi
printf '#!/bin/bash\necho "attest $*"; echo "python ${ATTEST_PYTHON:-none}"; exit 7\n' >"$2/bin/attest"
chmod +x "$2/bin/attest"''',
    "apt-get": "exit 0",
    # numpy is there; a private environment is a folder with an interpreter that installs nothing.
    "python3": r'''
if [[ $1 == -m && $2 == venv ]]; then
  mkdir -p "$4/bin"
  printf '#!/bin/bash\necho "pip $*" >>"$HOUSE/pip-calls"\n' >"$4/bin/python"
  printf '[[ ! -e $HOUSE/pip-fails ]]\n' >>"$4/bin/python"
  chmod +x "$4/bin/python"
fi''',
}


class RunScript(unittest.TestCase):
    run_path = None  # the script under test

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="attest-run-")
        self.house = Path(self.folder.name, "house with a space")
        self.bin = Path(self.folder.name, "bin")
        self.bin.mkdir()
        for room in ("core", "cli", "include", "cmake", "subjects/python", "corpus"):
            (self.house / room).mkdir(parents=True)
        for name in ("core/a.cpp", "CMakeLists.txt", "CMakePresets.json"):
            (self.house / name).touch()
        for name in ("requirements.txt", *(f"requirements-{n}.txt" for n in (
                "onnxruntime", "torch", "torch-program", "openvino", "jax", "keras", "keras-tensorflow", "keras-torch", "paddle", "mlx"))):
            (self.house / "subjects/python" / name).write_text(f"numpy==1\n{name[13:-4]}==1\n")
        for name in ("ggml", "onednn"):
            (self.house / "subjects/adapters" / name).mkdir(parents=True)
            (self.house / "subjects/adapters" / name / "requirements.txt").write_text(f"{name}==1\n")
        shutil.copy(self.run_path, self.house / "run")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for name in STAND_INS:
            self.stand_in(name)
        self.calls = Path(self.folder.name, "calls")
        os.chmod(self.folder.name, 0o755)

    def tearDown(self):
        self.folder.cleanup()

    def stand_in(self, name):
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >>"$CALLS"\n{STAND_INS[name]}\n')
        path.chmod(0o755)

    def start(self, *arguments, prefix=(), **variables):
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "HOUSE": str(self.house),
                       "HOME": self.folder.name} | variables
        return subprocess.Popen([*prefix, str(self.house / "run"), *arguments], env=environment, text=True,
                                cwd=self.folder.name, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def call(self, *arguments, **options):
        """(status, stdout, stderr, the stand-ins called since)"""
        self.calls.write_text("")
        os.chmod(self.calls, 0o666)
        process = self.start(*arguments, **options)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err, [c.split()[0] for c in self.calls.read_text().splitlines()]

    def test_verb_passes_through_and_set_up_talks_on_stderr_alone(self):
        status, out, err, calls = self.call("fuzz", "a b", "--seed", "3")
        self.assertEqual((status, out), (7, "attest fuzz a b --seed 3\npython none\n"), err)
        self.assertEqual(calls, ["cmake", "ninja"])
        self.assertIn("run: building attest", err)
        self.assertNotIn("chatter", err)

    def test_second_time_starts_at_once(self):
        self.call("fuzz")
        begin = time.monotonic()
        status, out, err, calls = self.call("fuzz")
        self.assertEqual((status, out, err, calls), (7, "attest fuzz\npython none\n", "", []))
        self.assertLess(time.monotonic() - begin, 2)

    def test_changed_added_and_removed_sources_rebuild(self):
        self.call("fuzz")
        for change in (lambda: (self.house / "core/a.cpp").write_text("x"),
                       lambda: (self.house / "core/b.cpp").touch(),
                       lambda: (self.house / "core/a.cpp").unlink(),
                       lambda: (self.house / "CMakeLists.txt").write_text("x")):
            time.sleep(0.02)
            change()
            self.assertEqual(self.call("fuzz")[3], ["ninja"])
            self.assertEqual(self.call("fuzz")[3], [])

    def test_edit_during_the_build_is_not_lost(self):
        (self.house / "ninja-slow").touch()
        process = self.start("fuzz")
        time.sleep(0.5)
        (self.house / "core/a.cpp").write_text("x")
        process.communicate()
        (self.house / "ninja-slow").unlink()
        self.assertEqual(self.call("fuzz")[3], ["ninja"])

    def test_two_at_once_build_once(self):
        (self.house / "ninja-slow").touch()
        self.calls.write_text("")
        processes = [self.start("fuzz", str(i)) for i in range(3)]
        outs = [p.communicate(timeout=600)[0] for p in processes]
        self.assertEqual(outs, [f"attest fuzz {i}\npython none\n" for i in range(3)])
        self.assertEqual(self.calls.read_text().split("\n")[0][:5], "cmake")
        self.assertEqual(self.calls.read_text().count("ninja "), 1)

    def test_interrupted_build_is_taken_up_again(self):
        (self.house / "ninja-slow").touch()
        process = self.start("fuzz")
        time.sleep(0.5)
        process.kill()
        process.communicate()
        self.assertEqual(self.call("fuzz")[:2], (7, "attest fuzz\npython none\n"))

    def test_moved_house_configures_again(self):
        self.call("fuzz")
        self.house = self.house.rename(self.house.with_name("moved"))
        self.assertEqual(self.call("fuzz")[3], ["cmake", "ninja"])

    def test_failing_build_names_error_and_log(self):
        (self.house / "ninja-fails").touch()
        status, out, err, _ = self.call("fuzz")
        self.assertEqual((status, out), (3, ""))
        self.assertIn("a.cpp:1:1: error: planted", err)
        self.assertIn("build/setup.log", err)
        self.assertEqual(self.call("check", "x", "--bisect")[0], 125)
        (self.house / "ninja-fails").unlink()
        (self.house / "cmake-fails").touch()
        shutil.rmtree(self.house / "build")
        self.assertEqual(self.call("fuzz")[0], 3)

    def test_missing_packages_without_root_are_named(self):
        for name in ("cmake", "ninja"):
            (self.bin / name).unlink()
        for path in (self.house, *self.house.rglob("*")):
            os.chmod(path, 0o777)
        prefix = ()
        if os.geteuid() == 0:
            prefix = (shutil.which("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups")
        status, out, err, calls = self.call("fuzz", prefix=prefix)
        self.assertEqual((status, out, calls), (2, "", []), err)
        self.assertIn("apt-get install --no-install-recommends cmake ninja-build\n", err)
        self.assertEqual(len(err.splitlines()), 1)

    def test_every_verb_installs_and_watches_what_the_build_needs(self):
        # A machine that has run the tests once has everything: only the lists tell what a new one lacks.
        source = self.run_path.parent
        packages = {"Threads": "g++", "OpenMP": "g++", "fmt": "libfmt-dev", "CLI11": "libcli11-dev",
                    "nlohmann_json": "nlohmann-json3-dev", "tomlplusplus": "libtomlplusplus-dev",
                    "ZLIB": "zlib1g-dev", "Eigen3": "libeigen3-dev", "rapidcheck": "librapidcheck-dev",
                    "Arb": "libflint-arb-dev", "Protozero": "libprotozero-dev"}
        asked = (source / "cmake/AttestDependencies.cmake").read_text().split("if(ATTEST_BUILD_TESTS)")[0]
        listed = re.search(r"build_packages=\((.*?)\)", self.run_path.read_text(), re.S)[1]
        installed = {entry.split(":")[0] for entry in listed.split()}
        for name in re.findall(r"^find_package\((\w+)", asked, re.M):
            self.assertIn(packages.get(name, f"the package of {name}"), installed)
        rooms = re.search(r"set\(ATTEST_ROOMS(.*?)CACHE", (source / "CMakeLists.txt").read_text(), re.S)[1].split()
        watched = re.search(r"rooms=\((.*?)\)", self.run_path.read_text())[1].split()
        self.assertEqual(set(rooms) - set(watched), set())

    # The script says every 0.5 s what it else says every 10 s.
    def hurry(self):
        run = self.house / "run"
        text = run.read_text()
        self.assertIn(" pause=10 ", text)
        run.write_text(text.replace(" pause=10 ", " pause=0.5 "))
        (self.house / "ninja-tells").touch()

    def test_without_a_terminal_a_long_build_tells_every_10_s_what_it_built(self):
        self.hurry()
        status, out, err, _ = self.call("fuzz")
        self.assertEqual((status, out), (7, "attest fuzz\npython none\n"), err)
        lines = err.splitlines()
        self.assertRegex(lines[-1], r"^run: building attest \.\.\. \d+ s$")
        told = [line for line in lines if "[" in line]
        self.assertRegex(told[0], r"^run: building attest \.\.\. \[3/9\] core/sub/a\.cpp, \d+ s$")
        self.assertRegex(told[-1], r"^run: building attest \.\.\. \[4/9\] kernels/part 2, \d+ s$")
        self.assertLessEqual(len(told), 5)
        self.assertNotIn("\r", err)

    def test_on_a_terminal_one_line_is_written_anew_every_second(self):
        (self.house / "ninja-tells").touch()
        ours, theirs = os.openpty()
        environment = {"PATH": str(self.bin), "CALLS": str(self.calls), "HOUSE": str(self.house),
                       "HOME": self.folder.name}
        process = subprocess.Popen([str(self.house / "run"), "fuzz"], env=environment, cwd=self.folder.name,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        process.communicate(timeout=600)
        text = os.read(ours, 1 << 16).decode()
        os.close(ours)
        self.assertIn("\r\033[Krun: building attest ... [3/9] core/sub/a.cpp, ", text)
        self.assertEqual(text.count("\n"), 2, text)  # one each for configuring and building

    def test_progress_ends_with_the_script(self):
        (self.house / "ninja-tells").touch()
        process = self.start("fuzz")
        time.sleep(0.5)
        process.kill()
        begin = time.monotonic()
        process.communicate(timeout=600)  # until nobody has its stderr open
        self.assertLess(time.monotonic() - begin, 4)

    def test_help_needs_nothing(self):
        for arguments in ([], ["--help"]):
            status, out, err, calls = self.call(*arguments)
            self.assertEqual((status, err, calls), (0, "", []))
            self.assertIn("./run fuzz", out)
            self.assertEqual([line for line in out.splitlines() if len(line) > 80], [])
        self.assertFalse((self.house / "build").exists())

    def python_of(self, *arguments, **options):
        return self.call(*arguments, **options)[1].splitlines()[1].removeprefix("python ")

    def test_python_packages_only_where_a_subject_needs_them(self):
        private = str(self.house / "build/.venv/bin/python")
        script = Path(self.folder.name, "kernel.py")
        script.touch()
        self.assertEqual(self.python_of("fuzz", "builtin:fused", "--json", "out.py"), "none")
        self.assertEqual(self.python_of("fuzz", "kernel.py:f"), "none")  # the user's python3 has numpy
        self.assertFalse((self.house / "build/.venv").exists())
        self.assertEqual(self.python_of("fuzz", "onnx:Attention"), private)  # the package that onnxruntime has beside it
        self.assertIn("requirements-onnxruntime.txt", self.pip_calls())
        self.assertEqual(self.python_of("fuzz", "onnxruntime:Attention"), private)
        self.assertEqual(self.call("fuzz", "onnxruntime:Attention")[3], [])
        self.assertEqual(self.python_of("fuzz", "onnxruntime:Attention", "--python", "p"), "none")
        self.assertEqual(self.python_of("fuzz", "onnxruntime:Attention", ATTEST_PYTHON="mine"), "mine")
        entry = self.house / "corpus/entry.json"
        entry.write_text('{"subject": "fault:scale-twice"}')
        self.assertEqual(self.python_of("replay", str(entry.parent)), "none")
        for subject in "onnxruntime:Attention", "onnx:Attention":
            entry.write_text(f'{{"subject": "{subject}"}}')
            self.assertEqual(self.python_of("replay", str(entry.parent)), private)
        entry.write_text('{"kind": "model", "runtime": "onnxruntime"}')
        self.assertEqual(self.python_of("replay", str(entry.parent)), private)
        self.assertEqual(self.python_of("fuzz", "model.onnx"), private)
        self.assertNotIn("openvino", self.pip_calls())
        self.assertEqual(self.python_of("fuzz", "model.onnx", "--on", "onnxruntime:all,openvino"), private)
        self.assertIn("requirements-openvino.txt", self.pip_calls())
        entry.write_text('{"subject":"torch:sdpa", "problem": "onnxruntime:"}')
        self.assertEqual(self.python_of("replay", str(entry.parent)), "none")
        self.assertNotIn("torch", self.pip_calls())
        self.assertEqual(self.python_of("replay", str(entry)), private)
        self.assertIn("requirements-torch.txt", self.pip_calls())
        self.assertEqual(self.python_of("explain", str(entry)), private)
        self.assertEqual(self.python_of("triage", str(entry.parent)), private)

    def pip_calls(self):
        return (self.house / "pip-calls").read_text()

    def test_a_large_package_is_announced_with_its_size(self):
        status, out, err, _ = self.call("fuzz", "torch:flash")
        self.assertEqual((status, out.splitlines()[1]), (7, f"python {self.house}/build/.venv/bin/python"), err)
        self.assertIn("3.0 GB to download, 5.5 GB installed", err)
        self.assertIn("--python EXE", err)
        self.assertRegex(self.pip_calls(), r"-r .*requirements-torch.txt\n")
        self.assertEqual(self.call("fuzz", "torch:math")[2], "")
        self.assertEqual(self.call("fuzz", "torch-cuda:flash")[2], "")
        self.assertIn("PyTorch may not be in build/.venv yet", self.call("fuzz", "model.pt2")[2])
        self.assertRegex(self.pip_calls(), r"-r .*requirements-torch-program.txt\n")
        self.assertIn("about 3 GB", self.call("fuzz", "jax-cuda:sdpa")[2])
        self.assertRegex(self.pip_calls(), r"requirements-jax-cuda.txt\n")
        self.assertIn("80 MB to download", self.call("fuzz", "openvino:sdpa")[2])
        self.assertIn("requirements-openvino.txt", self.pip_calls())
        self.assertIn("JAX is not in build/.venv yet", self.call("fuzz", "keras:numpy")[2])
        self.assertRegex(self.pip_calls(), r"requirements-keras.txt\n")

    def test_a_backend_of_keras_is_a_package_of_its_own(self):
        self.assertIn("TensorFlow is not", self.call("fuzz", "keras:tensorflow")[2])
        entry = self.house / "corpus/entry.json"
        entry.write_text('{\n  "subject": "keras:torch",\n')
        self.call("replay", str(entry))
        self.assertRegex(self.pip_calls(), r"requirements-keras-tensorflow.txt\n(.*\n)*.*requirements-keras-torch.txt\n")

    def test_a_norm_of_keras_is_of_its_backend(self):
        self.call("fuzz", "keras:tensorflow-RMSNormalization")
        self.assertRegex(self.pip_calls(), r"requirements-keras-tensorflow.txt\n")
        self.call("fuzz", "keras:jax-LayerNormalization")
        self.assertRegex(self.pip_calls(), r"requirements-keras.txt\n")

    def test_torch_is_no_part_of_the_tests(self):
        self.call("test")
        self.assertNotIn("torch", self.pip_calls())
        self.assertNotIn("openvino", self.pip_calls())

    def test_packages_that_cannot_be_installed(self):
        (self.house / "pip-fails").touch()
        status, out, err, _ = self.call("fuzz", "onnxruntime:Attention")
        self.assertEqual((status, out), (4, ""))
        self.assertIn("onnxruntime could not be installed", err)

    def test_an_adapter_in_cpp_is_built_where_it_is_named(self):
        status, out, err, calls = self.call("fuzz", "ggml:flash_attn_ext")
        self.assertEqual((status, out), (7, "attest fuzz ggml:flash_attn_ext\npython none\n"), err)
        self.assertEqual([c for c in calls if c != "python3"], ["cmake", "ninja", "tar", "cmake", "ninja"])
        self.assertIn("77 MB to download", err)
        self.assertRegex(self.pip_calls(), r"pip -m pip download .*--no-binary llama-cpp-python .*adapters/ggml/requirements.txt\n")
        self.assertEqual(self.call("fuzz", "ggml:flash_attn_ext")[2:], ("", []))
        self.assertEqual(self.call("fuzz", "builtin:fused")[2:], ("", []))

    def test_it_is_built_again_from_another_source_and_fetched_again_at_another_version(self):
        self.call("fuzz", "ggml:flash_attn_ext")
        time.sleep(0.02)
        (self.house / "subjects/adapters/ggml/a.cpp").touch()
        self.assertEqual(self.call("fuzz", "ggml:flash_attn_ext")[3], ["cmake", "ninja"])
        (self.house / "subjects/adapters/ggml/requirements.txt").write_text("ggml==2\n")
        self.assertEqual(self.call("fuzz", "ggml:flash_attn_ext")[3], ["tar", "cmake", "ninja"])
        self.assertEqual(self.call("fuzz", "ggml:flash_attn_ext")[3], [])

    def test_of_files_it_is_built_for_those_that_ask_it(self):
        self.call("fuzz")
        entry = self.house / "corpus/entry.json"
        entry.write_text('{"subject": "ggml:flash_attn_ext"}')
        self.assertEqual(self.call("replay", str(entry.parent))[3], [])  # nothing is fetched for a folder
        self.assertEqual(self.call("check", str(entry))[3], [])
        self.assertIn("tar", self.call("replay", str(entry))[3])

    def test_a_library_that_comes_built_is_installed_beside_the_plugin(self):
        err, calls = self.call("fuzz", "onednn:sdpa")[2:]
        self.assertIn("2 GB installed", err)
        self.assertNotIn("tar", calls)
        self.assertRegex(self.pip_calls(), r"pip -m pip install .*--prefix .*/adapters/onednn/source -r .*adapters/onednn/requirements.txt\n")
        self.assertEqual(self.call("compare", "onednn:sdpa", "builtin:fused")[2:], ("", []))

    def test_a_folder_of_ones_own_plugins_is_taken(self):
        self.call("fuzz")
        self.assertEqual(self.call("fuzz", "ggml:flash_attn_ext", ATTEST_ADAPTERS="/mine")[2:], ("", []))

    def test_an_adapter_that_cannot_be_built(self):
        self.call("fuzz")
        for failing in ("pip-fails", "cmake-fails", "ninja-fails"):
            (self.house / failing).touch()
            status, out, err, _ = self.call("fuzz", "ggml:flash_attn_ext")
            self.assertEqual((status, out), (4, ""), err)
            self.assertRegex(err, r"run: the adapter of ggml could not be built, see .*setup.log; or let ATTEST_ADAPTERS name")
            entry = self.house / "corpus/entry.json"
            entry.write_text('{"subject": "ggml:flash_attn_ext"}')
            status, out, err, _ = self.call("replay", str(entry))
            self.assertEqual(status, 7, err)
            self.assertIn("its entries will not run", err)
            (self.house / failing).unlink()


if __name__ == "__main__":
    RunScript.run_path = Path(sys.argv.pop(1))
    unittest.main()
