"""Providers of ONNX Runtime as builds of the runtime `onnxruntime`: which one is chosen, what is handed over to it, and what is said where it cannot be
had or has computed nothing. The module onnxruntime and the packages of providers are stand-ins that do what the real ones do there
(test_onnxruntime_plugin.py asks those). Usage: test_onnxruntime_providers.py"""
import importlib
import sys
import tempfile
import types
import unittest
from pathlib import Path

from need_package import need

need("numpy", "apt-get install python3-numpy")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "subjects" / "python"))
import attest

PACKAGE = '''
def get_ep_names():
    return {names!r}
def get_ep_name():
    return {names!r}[0]
def get_library_path():
    return "/lib/{package}.so"
'''


class Device:
    def __init__(self, provider, kind="GPU", virtual=False):
        self.ep_name = provider
        self.device = types.SimpleNamespace(type=f"OrtHardwareDeviceType.{kind}", metadata={"is_virtual": "1"} if virtual else {})


class Error(RuntimeError):
    def __init__(self, text):
        super().__init__(f"[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : {text}")


class Node:
    def __init__(self, op, name):
        self.op_type, self.name, self.domain = op, name, ""


class Part:
    def __init__(self, provider, nodes):
        self.ep_name, self.nodes = provider, nodes

    def get_nodes(self):
        return self.nodes


class FakeOrt(types.ModuleType):
    """`libraries`: the devices that each library has. `starts`: providers that can be started. `takes`: the operators that a provider takes."""

    def __init__(self, own=(), libraries=None, starts=(), takes=("MatMul", "Relu")):
        super().__init__("onnxruntime")
        self.__version__ = "1.31.1"
        self.own, self.libraries, self.starts, self.takes = list(own), libraries or {}, set(starts), takes
        self.registered, self.sessions, self.nodes = [], [], [Node("MatMul", "mm"), Node("Relu", "relu")]
        self.GraphOptimizationLevel = types.SimpleNamespace(ORT_DISABLE_ALL=0, ORT_ENABLE_BASIC=1, ORT_ENABLE_EXTENDED=2, ORT_ENABLE_ALL=3)
        fake = self

        class SessionOptions:
            def __init__(self):
                self.entries, self.devices, self.settings = {}, [], {}

            def add_session_config_entry(self, key, value):
                self.entries[key] = value

            def add_provider_for_devices(self, devices, settings):
                if not devices:
                    raise Error("Must provide one or more OrtEpDevice instances.")
                self.devices, self.settings = devices, settings

        class InferenceSession:
            def __init__(self, model, options, providers=None, enable_fallback=1):
                named = [one if isinstance(one, tuple) else (one, {}) for one in providers or []]
                if options.devices:
                    named = [(options.devices[0].ep_name, options.settings)]
                self.wanted, self.settings = named[0]
                self.fallback, self.model, self.options = enable_fallback, model, options
                there = self.wanted in fake.starts or self.wanted == "CPUExecutionProvider"
                if "bad" in self.settings and not enable_fallback:
                    raise Error("/src/x/provider.cc:71 virtual std::unique_ptr<P> CreateProvider(const Options&) Unknown option bad")
                there = there and "bad" not in self.settings
                if not there and options.devices and not enable_fallback:
                    raise Error("the device went away")
                self.providers = [*([self.wanted] if there else []), "CPUExecutionProvider"]  # as ONNX Runtime does: on the CPU, silently
                fake.sessions.append(self)

            def disable_fallback(self):
                self.fallback = 0

            def get_providers(self):
                return self.providers

            def get_provider_graph_assignment_info(self):
                assert self.options.entries["session.record_ep_graph_assignment_info"] == "1"
                return [Part(self.wanted if one.op_type in fake.takes else "CPUExecutionProvider", [one]) for one in fake.nodes]

            def get_inputs(self):
                return []

            def get_outputs(self):
                return []

            def run(self, names, feeds):
                return [self.wanted for _ in names]

        self.SessionOptions, self.InferenceSession = SessionOptions, InferenceSession

    def get_available_providers(self):
        return [*self.own, "AzureExecutionProvider", "CPUExecutionProvider", *{one.ep_name for name in self.registered for one in self.libraries[name]}]

    def register_execution_provider_library(self, name, path):
        library = Path(path).stem
        if library not in self.libraries:
            raise Error(f"Failed to load library {path}")
        assert not name.endswith(".virtual")
        assert library not in self.registered, "registered twice"
        self.registered.append(library)

    def get_ep_devices(self):
        return [Device("CPUExecutionProvider", "CPU"), *(one for name in self.registered for one in self.libraries[name])]


class Providers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.addCleanup(setattr, sys, "path", list(sys.path))
        # No package of this machine's, but where this repository is.
        sys.path = [str(self.folder), *(one for one in sys.path if not list(Path(one or ".").glob("onnxruntime_ep_*")))]

    def package(self, package, *names, text=None):
        (self.folder / f"{package}.py").write_text(text or PACKAGE.format(package=package, names=list(names)))
        self.addCleanup(sys.modules.pop, package, None)

    def runtime(self, fake):
        """The shipped runtime on a stand-in for onnxruntime."""
        for name in ("onnxruntime", "attest.runtimes.onnxruntime", "attest.runtimes._providers"):
            old = sys.modules.pop(name, None)
            if old is not None:
                self.addCleanup(sys.modules.__setitem__, name, old)
            else:
                self.addCleanup(sys.modules.pop, name, None)
        sys.modules["onnxruntime"] = fake
        importlib.invalidate_caches()
        import attest.runtimes
        vars(attest.runtimes).pop("_providers", None)
        from attest import models
        models.REGISTRY.clear()
        return importlib.import_module("attest.runtimes.onnxruntime")

    def refusal(self, runtime, build):
        with self.assertRaises(attest.Unsupported) as raised:
            runtime.accepts(build)
        return str(raised.exception)

    def test_a_level_is_on_the_cpu(self):
        fake = FakeOrt(own=["CUDAExecutionProvider"], starts=["CUDAExecutionProvider"])
        runtime = self.runtime(fake)
        self.assertTrue(runtime.accepts("all"))
        self.assertFalse(runtime.accepts("fast"))
        self.assertEqual(fake.sessions, [])
        run = runtime.load(b"model", build="basic", threads=3)
        self.assertEqual((run({}, ["y"]), run.note), (["CPUExecutionProvider"], ""))
        [session] = fake.sessions
        self.assertEqual((session.options.graph_optimization_level, session.options.intra_op_num_threads, session.fallback), (1, 3, 0))
        self.assertEqual(runtime.builds()[-1], "all+CUDAExecutionProvider")
        self.assertIn("on the CPU by itself", self.refusal(runtime, "all+CPUExecutionProvider"))

    def test_a_provider_of_the_build_gets_what_is_handed_over(self):
        fake = FakeOrt(own=["TensorrtExecutionProvider"], starts=["TensorrtExecutionProvider"])
        runtime = self.runtime(fake)
        build = "all+TensorrtExecutionProvider+trt_fp16_enable=1+trt_profile_min_shapes=x:1x4%2Cy:1%2B1"
        self.assertTrue(runtime.accepts(build))
        run = runtime.load(b"model", build=build, threads=1)
        self.assertEqual(run({}, ["y"]), ["TensorrtExecutionProvider"])
        for session in fake.sessions:
            self.assertEqual(session.settings, {"trt_fp16_enable": "1", "trt_profile_min_shapes": "x:1x4,y:1+1"})
            self.assertEqual(session.fallback, 0)
        self.assertEqual([session.model for session in fake.sessions][1:], [b"model"])
        self.assertIn("cannot be started with bad=1: Unknown option bad; mend", self.refusal(runtime, "all+TensorrtExecutionProvider+bad=1"))

    def test_a_provider_that_the_session_goes_without_is_not_there(self):
        fake = FakeOrt(own=["CUDAExecutionProvider"])
        runtime = self.runtime(fake)
        self.assertRegex(self.refusal(runtime, "all+CUDAExecutionProvider"), "could not be started here, and the session would be one of CPUExecutionProvider: .* not installed")
        with self.assertRaises(attest.Unsupported):
            runtime.load(b"model", build="all+CUDAExecutionProvider", threads=1)

    def test_a_package_is_found_by_the_name_of_its_provider(self):
        self.package("onnxruntime_ep_one", "OneExecutionProvider")
        self.package("onnxruntime_ep_two", "TwoExecutionProvider", "ThirdExecutionProvider")
        fake = FakeOrt(libraries={"onnxruntime_ep_one": [], "onnxruntime_ep_two": [
            Device("TwoExecutionProvider", "NPU"), Device("ThirdExecutionProvider", "GPU", virtual=True), Device("ThirdExecutionProvider", "CPU"),
            Device("ThirdExecutionProvider", "GPU"), Device("ThirdExecutionProvider.AUTO", "CPU")]},
            starts=["TwoExecutionProvider", "ThirdExecutionProvider", "ThirdExecutionProvider.AUTO"])
        runtime = self.runtime(fake)
        for build, kind, settings in (("all+ThirdExecutionProvider", "CPU", {}), ("all+ThirdExecutionProvider+device_type=gpu", "GPU", {}),
                                      ("all+ThirdExecutionProvider.AUTO+device_type=CPU+n=1", "CPU", {"n": "1"}), ("basic+TwoExecutionProvider+a=b=c", "NPU", {"a": "b=c"})):
            self.assertTrue(runtime.accepts(build), build)
            run = runtime.load(b"model", build=build, threads=1)
            session = fake.sessions[-1]
            self.assertEqual(run({}, ["y"]), [build.split("+")[1]])
            self.assertEqual([one.device.type for one in session.options.devices], [f"OrtHardwareDeviceType.{kind}"])
            self.assertEqual((session.settings, session.fallback), (settings, 0))
        self.assertEqual(fake.registered, ["onnxruntime_ep_two"])
        self.assertIn("no device of type NPU here: it has CPU, GPU", self.refusal(runtime, "all+ThirdExecutionProvider+device_type=NPU"))
        self.assertIn("OneExecutionProvider of the package onnxruntime_ep_one finds none of its devices here: name another",
                      self.refusal(runtime, "all+OneExecutionProvider"))

    def test_what_is_not_there_is_said_with_the_remedy(self):
        self.package("onnxruntime_ep_broken", text="raise OSError('no libcudart')")
        self.package("onnxruntime_ep_old", "OldExecutionProvider")
        self.package("onnxruntime_ep_plain", text="def get_ep_name():\n    return 'PlainExecutionProvider'\ndef get_library_path():\n    return '/lib/onnxruntime_ep_plain.so'\n")
        fake = FakeOrt(own=["CUDAExecutionProvider"], libraries={"onnxruntime_ep_plain": [Device("PlainExecutionProvider")]})
        runtime = self.runtime(fake)
        sentence = self.refusal(runtime, "all+NopeExecutionProvider")
        for part in ("no provider NopeExecutionProvider here", "CUDAExecutionProvider", "OldExecutionProvider of onnxruntime_ep_old",
                     "onnxruntime_ep_broken cannot be imported (no libcudart)", "install"):
            self.assertIn(part, sentence)
        self.assertRegex(self.refusal(runtime, "all+OldExecutionProvider"), "cannot be registered with ONNX Runtime 1.31.1: Failed to load library .*; install what that names")
        # A provider with a device may not start: ONNX Runtime would go on with the CPU.
        self.assertIn("PlainExecutionProvider cannot be started: the device went away", self.refusal(runtime, "all+PlainExecutionProvider"))

    def test_what_is_no_build_is_said(self):
        runtime = self.runtime(FakeOrt())
        for build, part in (("fast+XExecutionProvider", "LEVEL one of disabled, basic, extended, all"), ("all+X+Y", "LEVEL+PROVIDER"), ("all+k=v", "LEVEL+PROVIDER+KEY=VALUE"),
                            ("all+X+a=1+b", "'b' is no option"), ("all+X+a=1+a=2", "option a twice"), ("all++", "'' is no option"), ("all+X+=1", "'=1' is no option"),
                            ("all+X+a=1 2", "write it as %XX"), ("all+X+a=\u00e9", "write it as %XX")):
            self.assertIn(part, self.refusal(runtime, build), build)

    def test_nodes_that_are_left_to_the_cpu_are_told(self):
        fake = FakeOrt(own=["CUDAExecutionProvider"], starts=["CUDAExecutionProvider"])
        runtime = self.runtime(fake)
        load = lambda: runtime.load(b"model", build="all+CUDAExecutionProvider", threads=1)
        self.assertEqual(load().note, "")
        fake.nodes += [Node("Softmax", f"s{i}") for i in range(6)]
        self.assertEqual(load().note, "CUDAExecutionProvider takes 2 of 8 nodes; CPUExecutionProvider computes Softmax 's0', Softmax 's1', Softmax 's2', Softmax 's3' and 2 more")
        fake.takes = ()
        with self.assertRaisesRegex(attest.Unsupported, "CUDAExecutionProvider takes no node of the graph"):
            load()
        fake.nodes = []
        with self.assertRaisesRegex(attest.Unsupported, "takes no node"):
            load()
        del fake.InferenceSession.get_provider_graph_assignment_info
        self.assertIn("does not say which nodes", load().note)


if __name__ == "__main__":
    unittest.main()
