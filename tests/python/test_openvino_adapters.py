"""The openvino adapters: what they hand to the operator, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where openvino is not installed there.
"""

import unittest
from collections import Counter

from need_package import need

need("openvino", "it is never part of ./run test, ./run fuzz openvino:sdpa installs it")

import numpy as np
import openvino

from attest import Refused, Unsupported
from attest.adapters import _openvino_norm as norm_adapter, _openvino_sdpa as sdpa
from attest.adapters._forms import words
from attest.adapters import openvino as adapter
from attention_calls import BOTTOM_RIGHT, ROUNDOFF, battery, call, empty_calls, far, reference, script_output, values
from block_calls import Norms, norm, norm_reference

SUBJECTS = {name: make for name, make in adapter.SUBJECTS.items() if name.startswith("sdpa")}
NORMS = {name: make for name, make in adapter.SUBJECTS.items() if name not in SUBJECTS}
LENGTHS = np.array([1, 3], np.int32)


def problems(dtype):
    yield from battery(dtype)
    for problem in (dict(b=2, hq=3, hkv=1, lq=3, lk=4), dict(b=2, hq=2, lq=4, lk=6, window_left=1, window_right=2),
                    dict(b=2, lq=2, lk=3, window_left=0, align=BOTTOM_RIGHT, kv_lengths=np.array([2, 3], np.int32))):
        yield problem, call(dtype=dtype, **problem)


def far_in_bf16(c):
    return not np.all(np.abs(values(c.out, c.dtype) - reference(c)) <= 8 * ROUNDOFF["bf16"])


class Agreement(unittest.TestCase):
    """Every subject agrees with the reference where no finding stands, and the reference would notice."""

    def test_battery(self):
        for name, make in SUBJECTS.items():
            subject = make()
            wrong = far_in_bf16 if name == "sdpa-bf16" else far
            for dtype in subject.describe()["dtypes"]:
                judged = 0
                for problem, c in problems(dtype):
                    with self.subTest(name, dtype=dtype, problem=problem):
                        try:
                            subject.attention(c)
                        except Unsupported:
                            continue
                        if (reference(c) == 0).all(-1).any():  # empty rows: nothing is promised of them
                            continue
                        judged += 1
                        self.assertFalse(wrong(c), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
                self.assertGreaterEqual(judged, 18, (name, dtype))

    def test_every_form(self):
        subject = SUBJECTS["sdpa"]()
        for form, entries in subject.forms.items():
            for value in words(entries)[1:]:
                wrong = far_in_bf16 if form == "precision" else far
                judged = 0
                for problem, c in problems("f32"):
                    c.form = {form: value}
                    with self.subTest(form=form, value=value, problem=problem):
                        try:
                            subject.attention(c)
                        except Unsupported:
                            continue
                        except Refused as refusal:  # openvino-sdpa-3
                            self.assertEqual((value, c.k.size), ("kv", 1))
                            self.assertIn("Layout rank can't be larger", str(refusal))
                            continue
                        if (reference(c) == 0).all(-1).any():
                            continue
                        judged += 1
                        self.assertFalse(wrong(c), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
                self.assertGreaterEqual(judged, 12, (form, value))

    def test_tensors_without_elements(self):
        """Each is answered, or refused as docs/findings.md has it; nothing else is raised."""
        for name in SUBJECTS:
            answered = set()
            for problem, c in empty_calls(SUBJECTS[name]()):
                with self.subTest(name, problem=problem):
                    try:
                        SUBJECTS[name]().attention(c)
                        answered.add(problem[0])
                    except Unsupported:
                        pass
                    except Refused as refusal:
                        self.assertRegex(str(refusal), r"object is not initialized|an output of the shape")  # openvino-sdpa-9
            self.assertGreaterEqual(len(answered), 5, name)

    def test_a_wrong_corner_is_far(self):
        for name in SUBJECTS:
            c = call(causal=True, lq=2, lk=5)
            SUBJECTS[name]().attention(c)
            c.align = BOTTOM_RIGHT
            self.assertTrue(far_in_bf16(c), name)

    def test_a_nan_is_far(self):
        self.assertTrue(far(call(dtype="bf16")) and far_in_bf16(call(dtype="bf16")))

    def test_the_hint_reaches_the_device(self):
        """float32 is float32 in ACCURACY mode, and is not under the hint."""
        results = []
        for name in ("sdpa", "sdpa-bf16"):
            c = call(lq=5, lk=7, d=3)
            SUBJECTS[name]().attention(c)
            results.append(far(c))
        self.assertFalse(results[0])
        if "BF16" in sdpa._core.get_property("CPU", "OPTIMIZATION_CAPABILITIES"):
            self.assertTrue(results[1])

    def test_views_are_read_through_their_strides_and_inputs_left_alone(self):
        c = call(b=2, hq=3, lq=4, lk=5, d=3, dtype="bf16")
        c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
        c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
        c.out = np.zeros((2, 4, 3, 3), np.uint16).transpose(0, 2, 1, 3)
        before = [x.copy() for x in (c.q, c.k, c.v)]
        SUBJECTS["sdpa"]().attention(c)
        self.assertFalse(far(c))
        for x, y in zip(before, (c.q, c.k, c.v)):
            np.testing.assert_array_equal(x, y)

    def test_contiguous_memory_goes_in_as_it_is(self):
        c = call()
        self.assertEqual(SUBJECTS["sdpa"]().node(c).inputs["query"].ctypes.data, c.q.ctypes.data)

    def test_a_model_is_reused_over_shapes_and_a_static_one_is_not(self):
        for name, models in (("sdpa", 1), ("sdpa-static", 2)):
            sdpa._models.made.clear()
            for lk in (3, 4, 3):
                c = call(lk=lk)
                SUBJECTS[name]().attention(c)
                self.assertFalse(far(c))
            self.assertEqual(len(sdpa._models.made), models, name)

    def test_a_kept_model_keeps_its_constants(self):
        sdpa._models.made.clear()
        bias = np.linspace(-3, 3, 15, dtype=np.float32).reshape(1, 1, 3, 5)
        first = call(lq=3, lk=5, bias=bias, form={"constants": "mask"})
        first.bias = bias.copy()  # to be written to, as that of a worker
        SUBJECTS["sdpa"]().attention(first)
        first.bias[...] = 7  # the next call's
        again = call(lq=3, lk=5, bias=bias, form={"constants": "mask"})
        SUBJECTS["sdpa"]().attention(again)
        self.assertEqual(len(sdpa._models.made), 1)
        self.assertFalse(far(again))

    def test_kept_models_are_bounded(self):
        sdpa._models.made.clear()
        most, sdpa._models.most = sdpa._models.most, 2
        try:
            for lk in (3, 4, 5):
                SUBJECTS["sdpa-static"]().attention(call(lk=lk))
            self.assertEqual(len(sdpa._models.made), 2)
        finally:
            sdpa._models.most = most


class Encoding(unittest.TestCase):
    def inputs(self, **options):
        node = SUBJECTS["sdpa"]().node(call(**options))
        return {name: a for name, a in node.inputs.items() if name not in ("query", "key", "value")}, node.causal

    def test_plain(self):
        self.assertEqual(self.inputs(), ({}, False))

    def test_forms(self):
        def said(keep=((1, 1, 0), (1, 0, 1)), **form):
            return SUBJECTS["sdpa"]().node(call(b=1, hq=2, keep=np.array(keep, bool), form=form))

        self.assertEqual(said(mask="full").inputs["attention_mask"].shape, (1, 2, 2, 3))
        self.assertEqual(said(mask="3d").inputs["attention_mask"].shape, (1, 2, 3))
        self.assertEqual(said(mask_type="float").inputs["attention_mask"].ravel().tolist(), [0, 0, -np.inf, 0, -np.inf, 0])
        self.assertEqual(list(said(constants="kv").fed()), ["query", "attention_mask"])
        self.assertEqual(float(said(scale="explicit").inputs["scale"]), float(np.float32(0.5**0.5)))
        self.assertEqual(said(precision="bf16").config(), {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1})
        c = call(causal=True, form={"causal": "mask"})
        self.assertFalse(SUBJECTS["sdpa"]().node(c).causal)
        self.assertEqual(SUBJECTS["sdpa-bf16"]().describe()["contract"]["flush_to_zero"], True)
        with self.assertRaises(Unsupported):
            SUBJECTS["sdpa"]().node(call(b=2, kv_lengths=LENGTHS, form={"mask": "3d"}))

    def test_a_scale_needs_a_mask_before_it(self):
        inputs, _ = self.inputs(scale=0.5)
        self.assertEqual([(name, a.shape, float(a)) for name, a in inputs.items()],
                         [("attention_mask", (), 0), ("scale", (), 0.5)])
        self.assertEqual(self.inputs(scale=0.1, dtype="bf16")[0]["scale"], np.uint16(0x3DCD))

    def test_causal_is_the_top_left_alone(self):
        self.assertEqual(self.inputs(causal=True, lq=2, lk=5), ({}, True))
        self.assertEqual(self.inputs(causal=True, align=BOTTOM_RIGHT, lq=3, lk=3), ({}, True))
        inputs, causal = self.inputs(causal=True, align=BOTTOM_RIGHT, lq=2, lk=3)
        self.assertEqual((inputs["attention_mask"][0, 0].tolist(), causal), ([[True, True, False], [True] * 3], False))

    def test_masks(self):
        mask = self.inputs(lq=3, lk=3, window_left=1, window_right=0)[0]["attention_mask"][0, 0]
        np.testing.assert_array_equal(mask, [[1, 0, 0], [1, 1, 0], [0, 1, 1]])
        mask = self.inputs(b=2, kv_lengths=LENGTHS)[0]["attention_mask"]
        np.testing.assert_array_equal(mask, [[[[1, 0, 0]]], [[[1, 1, 1]]]])
        self.assertEqual(self.inputs(b=2, hq=4, lq=3, keep=np.ones((2, 1, 1, 3), bool))[0]["attention_mask"].shape,
                         (2, 1, 1, 3))
        keep, bias = np.array([[1, 0, 1], [0, 1, 1]], bool), np.arange(6, dtype=np.float16).reshape(2, 3)
        mask = self.inputs(keep=keep, bias=bias, dtype="f16")[0]["attention_mask"]
        self.assertEqual(mask.dtype, np.float16)
        np.testing.assert_array_equal(mask[0, 0], [[0, -np.inf, 2], [-np.inf, 4, 5]])

    def test_unsupported(self):
        for c in (call(softcap=1.0), call(hq=4, hkv=2), call(scale=1e300), call(scale=1e-12, dtype="f16"),
                  call(bias=np.zeros((2, 3), "f"), bias_dtype="f32", dtype="f16")):
            with self.assertRaises(Unsupported):
                SUBJECTS["sdpa"]().node(c)

    def test_a_refusal_is_one_line_without_paths(self):
        with self.assertRaises(Refused) as caught:
            SUBJECTS["sdpa-static"]().attention(call(k=np.zeros((1, 1, 3, 5), "f")))
        self.assertRegex(str(caught.exception), r"^openvino: [^\n/]+$")


class Scripts(unittest.TestCase):
    """The script of a call gives what the subject gives, bit for bit."""

    def test_battery(self):
        for name, make in SUBJECTS.items():
            subject = make()
            for dtype in subject.describe()["dtypes"]:
                every = list(problems(dtype))
                for problem, c in every if name == "sdpa" else every[::5]:  # a model a problem takes its time
                    with self.subTest(name, dtype=dtype, problem=problem):
                        self.compare(subject, c)

    def compare(self, subject, c):
        try:
            code = subject.script(c)
            subject.attention(c)
        except Unsupported:
            return
        np.testing.assert_array_equal(script_output(code, c), values(c.out, c.dtype))


class Declarations(unittest.TestCase):
    def test_names_versions_and_descriptions(self):
        self.assertEqual(set(SUBJECTS), {"sdpa", "sdpa-static", "sdpa-bf16"})
        for name, make in adapter.SUBJECTS.items():
            subject = make()
            self.assertEqual(subject.name, f"openvino:{name}")
            self.assertIn(openvino.__version__.split("-")[0], subject.version)
            self.assertEqual(subject.describe()["dtypes"], ["f32", "bf16", "f16"])


class NormsAgree(Norms, unittest.TestCase):
    make = NORMS

    def limit(self, name, dtype):
        return self.tolerance["f32" if dtype == "f32" and not name.endswith("16") else "bf16" if "16" in name else dtype]


class NormDeclarations(unittest.TestCase):
    def test_there_is_a_graph_under_each_precision(self):
        self.assertEqual(set(NORMS), {graph + end for graph in ("MVN", "LayerNorm", "RMSNorm")
                                      for end in ("", "-constants", "-f16", "-bf16")})

    def test_the_contract_is_that_of_the_precision_that_a_model_says_it_took(self):
        for hint in ("f16", "bf16"):
            taken = norm_adapter.effective(hint)
            self.assertIn(taken, ("f32", "bf16", "f16"))
            policy = NORMS[f"MVN-{hint}"]().describe()["contract"].get("policy", {"f32": "f32"})["f32"]
            self.assertEqual(policy, "f32" if taken == "f32" else f"*={taken},storage=f32,output=f32")
        self.assertEqual(NORMS["MVN"]().describe()["contract"]["policy"], {"f32": "f32"})

    def test_graphs_are_fused(self):
        """The kernel itself is asked, not the operators that say it."""
        for graph, kernel in (("MVN", "MVN"), ("LayerNorm", "MVN"), ("RMSNorm", "RMS")):
            for name in (graph, f"{graph}-constants"):
                self.assertEqual(self.kinds(name, norm(hidden=64, rms=graph == "RMSNorm"))[kernel], 1, name)

    def kinds(self, name, c):
        """The number of kernels of each kind that run this call, by their kind."""
        subject = NORMS[name]()
        compiled = subject.request(c).get_compiled_model()
        kinds = Counter(str(op.get_rt_info()["layerType"].astype(str)) for op in compiled.get_runtime_model().get_ops())
        self.assertEqual(kinds["Reduce"], 0, name)
        return kinds

    def test_packed_copies_live_as_long_as_the_call(self):
        for name, make in NORMS.items():
            subject = make()
            for seed in range(20):
                c = norm(rows=64, hidden=700, rms="RMS" in name, seed=seed)
                c.x = np.repeat(c.x, 2, 1)[:, ::2]
                c.gamma = np.repeat(c.gamma, 2)[::2]
                subject.layer_norm(c)
                self.assertLess(np.abs(c.out - norm_reference(c)).max(), 0.1 if "16" in name else 1e-4, name)

    def test_constants_are_part_of_the_model(self):
        c = norm()
        self.assertEqual(self.kinds("MVN", c)["Input"], 3)
        self.assertEqual(self.kinds("MVN-constants", c)["Input"], 1)

    def test_a_model_is_kept_for_every_width_but_where_it_is_pinned(self):
        for name, kept in (("MVN", True), ("MVN-constants", False), ("RMSNorm", False)):
            subject = NORMS[name]()
            requests = [subject.request(norm(hidden=hidden, rms=name == "RMSNorm")) for hidden in (5, 6)]
            self.assertEqual(requests[0] is requests[1], kept, name)

    def test_an_epsilon_that_the_constants_type_does_not_hold(self):
        if norm_adapter.effective("f16") != "bf16":
            self.skipTest("the hint f16 is not bfloat16 on this processor")
        for epsilon, held in ((2.0**-25, False), (1e-5, True), (0.0, True), (1e-12, False)):
            c = norm(dtype="f16", beta=False, epsilon=epsilon)
            if held:
                NORMS["LayerNorm-f16"]().layer_norm(c)
            else:
                self.assertRaises(Unsupported, NORMS["LayerNorm-f16"]().layer_norm, c)


if __name__ == "__main__":
    unittest.main()
