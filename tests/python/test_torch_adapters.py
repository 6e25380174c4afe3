"""The torch adapters: what they hand to PyTorch, and what comes back.

Runs under ATTEST_PYTHON (or this interpreter) and exits with 125 where torch is not installed there.
"""

import unittest
import unittest.mock

from need_package import need

need("torch", "it is never part of ./run test, ./run fuzz torch:sdpa installs it")

import numpy as np
import torch

from attest import Refused, Unsupported
from attest.adapters._forms import words
from attest.adapters import _torch_call as torch_call
from attest.adapters._torch_call import TYPES, tensor
from attest.adapters.torch import SUBJECTS
from attest.adapters import _torch_encoder as torch_encoder
from block_calls import NORMS as NORMS_CALLS, norm, script_answer
from attention_calls import BOTTOM_RIGHT, battery, call, empty_calls, far, open_keys, reference, script_output, stored, values

SDPA = ("sdpa", "math", "flash", "flash-lse")
MHA = ("mha", "mha-slow", "mha-weights")
OTHER = ("nested", "explicit", "flex", "flex-traced")
COMPILED = ("explicit-compiled", "flex-compiled")  # seconds a call: test_torch_compiled.py
NORMS = ("layer_norm", "layer_norm-axes", "rms_norm", "rms_norm-axes", "encoder-norm1", "encoder-norm2")  # test_campaigns.py holds their results
ENCODERS = ("encoder", "encoder-float-mask")
BLOCKS = {name for name in SUBJECTS if "block" in name} | set(ENCODERS)  # test_torch_block.py
SAYS = {name: 8 if name == "nested" else 17 for name in (*SDPA, *MHA, *OTHER)}  # problems of the battery, at least
LENGTHS = np.array([1, 3], np.int32)


def empty_rows(c):
    """Whether a row has no key: nothing is promised of it."""
    return bool((reference(c) == 0).all(-1).any())


def is_refused(subject, c):
    """Whether torch-nested-2 or torch-mha-5 stands."""
    return subject.name == "torch:nested" and c.causal or c.form.get("input") == "jagged"


def problems(dtype):
    for problem, c in battery(dtype):
        yield problem, c
    for problem in (dict(b=2, hq=2, lq=5, lk=5, d=4), dict(b=2, hq=2, lq=4, lk=4, causal=True),
                    dict(b=2, hq=4, lq=3, lk=3, kv_lengths=LENGTHS),
                    dict(b=2, hq=2, lq=4, lk=6, window_left=1, window_right=2),
                    dict(b=2, lq=2, lk=3, window_left=0, align=BOTTOM_RIGHT, kv_lengths=np.array([2, 3], np.int32))):
        yield problem, call(dtype=dtype, **problem)


class Agreement(unittest.TestCase):
    """Every subject agrees with the reference where no finding stands, and the reference would notice."""

    def test_battery(self):
        for name, least in SAYS.items():
            subject = SUBJECTS[name]()
            for dtype in ["f32"] if name == "flex-traced" else subject.describe()["dtypes"]:  # half a second a trace
                self.assertGreaterEqual(self.judged(subject, dtype), least, (name, dtype))

    def test_every_form(self):
        for name in (*SDPA, "mha", "nested", "explicit", "flex"):
            subject = SUBJECTS[name]()
            for form, entries in subject.forms.items():
                for value in words(entries):
                    judged = self.judged(subject, "f32", {form: value})
                    least = {("mha", "strided"): 1, ("mha", "jagged"): 0, ("flash", "5d"): 0}.get((name, value), 5)  # so many have one sample
                    self.assertGreaterEqual(judged, least, (name, form, value))

    def judged(self, subject, dtype, form=None):
        """The number of problems of the battery that the subject answers, all of them rightly."""
        judged = 0
        for problem, c in problems(dtype):
            c.form = form or {}
            with self.subTest(subject.name, dtype=dtype, problem=problem, form=form):
                try:
                    subject.attention(c)
                except Unsupported:
                    continue
                except Refused as refusal:
                    self.assertTrue(is_refused(subject, c), refusal)
                    continue
                self.assertFalse(is_refused(subject, c))
                if empty_rows(c):
                    continue
                judged += 1
                if (form or {}).get("causal") == "alone" and subject.say(c).options.get("is_causal") and c.q.shape[2] > 1:  # torch-mha-2
                    self.assertTrue(far(c))
                    continue
                self.assertFalse(far(c), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
        return judged

    def test_tensors_without_elements(self):
        """Each is answered, or refused as docs/findings.md has it; nothing else is raised."""
        for name in ("sdpa", "math", "flash", "mha", "mha-slow", "mha-weights", "explicit"):
            answered = set()
            for problem, c in empty_calls(SUBJECTS[name]()):
                with self.subTest(name, problem=problem):
                    try:
                        SUBJECTS[name]().attention(c)
                        answered.add(problem[0])
                    except Unsupported:
                        pass
                    except Refused as refusal:
                        self.assertRegex(str(refusal), r"cannot reshape tensor of 0 elements")  # torch-mha-4
            self.assertGreaterEqual(len(answered), 3, name)

    def test_a_wrong_corner_is_far(self):
        for name in SAYS:
            if name == "nested":  # torch-nested-2
                continue
            c = call(causal=True, lq=2, lk=5, dtype="bf16")
            SUBJECTS[name]().attention(c)
            self.assertFalse(far(c), name)
            c.align = BOTTOM_RIGHT
            self.assertTrue(far(c), name)

    def test_a_nan_is_far(self):
        self.assertTrue(far(call(dtype="bf16")))

    def test_lse(self):
        every = [("flash-lse", {}), *((name, {"aux": aux}) for name in ("flex", "flex-traced")
                                      for aux in ("needed", "always", "return_lse"))]
        for name, form in every:
            for dtype, kind, tolerance in (("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12), ("bf16", np.float32, 0.02)):
                c = call(b=2, hq=2, lq=3, lk=5, dtype=dtype, causal=True, lse=np.full((2, 2, 3), np.nan, kind), form=form)
                SUBJECTS[name]().attention(c)
                score = c.scale * (values(c.q, dtype) @ values(c.k, dtype).swapaxes(2, 3))
                score[..., np.arange(5) > np.arange(3)[:, None]] = -np.inf
                self.assertTrue(np.allclose(c.lse, np.log(np.exp(score).sum(-1)), atol=tolerance, rtol=0), (name, dtype))

    def test_lse_of_a_row_without_keys(self):
        bias = np.array([[-np.inf, 0, -np.inf], [-np.inf, 0, 0]], "f")
        c = call(b=2, hq=2, kv_lengths=LENGTHS, bias=bias, keep=np.array([[1, 1, 1], [1, 0, 1]], bool),
                 lse=np.full((2, 2, 2), np.nan, "f"))
        SUBJECTS["flash-lse"]().attention(c)
        expected = np.where(open_keys(c).any(-1), np.isfinite(c.lse), np.isneginf(c.lse))
        self.assertTrue(expected.all(), c.lse)
        self.assertEqual(np.isfinite(c.lse).sum(), 4)

    def test_open_keys(self):
        closed, low = 0, np.array([[0, -np.inf, 1], [np.nan, np.finfo("f").min, -np.inf]], "f")
        every = [c for _, c in problems("f32")] + [call(b=2, hq=2, kv_lengths=LENGTHS, bias=low, causal=True)]
        for c in every:
            got = torch_call.open_keys(c).expand(*c.q.shape[:3], c.k.shape[2]).numpy()
            np.testing.assert_array_equal(got, open_keys(c))
            closed += (~got).any()
        self.assertGreater(closed, 10)

    def test_threads(self):
        for threads in (1, 2, 0):
            c = call(b=2, hq=3, threads=threads)
            SUBJECTS["sdpa"]().attention(c)
            self.assertFalse(far(c))
            if threads:
                self.assertEqual(torch.get_num_threads(), threads)


class Views(unittest.TestCase):
    """Tensors are the call's own memory, whatever its strides and alignment."""

    def test_address_and_strides_are_kept(self):
        for dtype, kind in TYPES.items():
            size = 4 if dtype == "f32" else 8 if dtype == "f64" else 2
            buffer = np.zeros(4096, np.uint8)
            for offset, strides in ((3 * size, (40, 20, 5, 1)), (0, (0, 7, 1, 21)), (size, (0, 0, 0, 0))):
                plain = stored(np.zeros(1), dtype).dtype
                view = np.ndarray((2, 3, 4, 5), plain, buffer, offset, [s * size for s in strides])
                made = tensor(view, dtype)
                self.assertEqual((made.data_ptr(), made.stride(), made.dtype, made.shape),
                                 (view.ctypes.data, strides, kind, view.shape))

    def test_values_and_writes_go_through(self):
        for dtype in TYPES:
            buffer = stored(np.arange(24), dtype)
            made = tensor(buffer.reshape(2, 3, 4).transpose(2, 0, 1), dtype)
            np.testing.assert_array_equal(made.double().numpy(), np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1))
            made[1, 1, 2] = 64
            self.assertEqual(values(buffer, dtype)[21], 64)
        self.assertTrue(tensor(np.array([True, False]), "bool").data_ptr())

    def test_inputs_are_left_alone(self):
        for name in SAYS:
            c = call(b=2, hq=2, lq=4, lk=4, d=3, dtype="bf16", bias=None)
            c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
            c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
            c.out = stored(np.full((2, 4, 2, 3), np.nan), "bf16").transpose(0, 2, 1, 3)
            before = [x.copy() for x in (c.q, c.k, c.v)]
            SUBJECTS[name]().attention(c)
            self.assertFalse(far(c), name)
            for x, y in zip(before, (c.q, c.k, c.v)):
                np.testing.assert_array_equal(x, y)


class Scripts(unittest.TestCase):
    """The script of a call gives what the subject gives, bit for bit."""

    def test_battery(self):
        threads = torch.get_num_threads()
        for name in SAYS:
            subject = SUBJECTS[name]()
            for dtype in [] if name == "flex-traced" else subject.describe()["dtypes"]:  # but for one line, that of flex
                for problem, c in problems(dtype):
                    with self.subTest(name, dtype=dtype, problem=problem):
                        self.compare(subject, c)
        torch.set_num_threads(threads)

    def test_forms(self):
        for name, options in (("math", {}), ("mha", {}), ("nested", dict(b=2, kv_lengths=LENGTHS)),
                              ("explicit", dict(hq=2, hkv=1)), ("flex", dict(b=2, kv_lengths=LENGTHS, causal=True, softcap=2.0)),
                              ("flex-traced", {})):
            subject = SUBJECTS[name]()
            for form, entries in subject.forms.items():
                for value in words(entries):
                    with self.subTest(name, form=form, value=value):
                        heads = {"hq": 2} if form == "input" else {}
                        self.compare(subject, call(lq=3, lk=3, dtype="f16", form={form: value}, **options, **heads))
                        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)  # a script sets it for good

    def test_layout(self):
        for name in ("sdpa", "mha-slow", "flex", "explicit", "nested"):
            c = call(b=2, hq=2, lq=4, lk=4, d=3)
            c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
            c.q = np.pad(c.q.ravel(), (1, 0))[1:].reshape(c.q.shape)
            c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
            self.assertIn("laid(k, torch.float32, (48, 24, 6, 1), ", SUBJECTS[name]().script(c))
            self.compare(SUBJECTS[name](), c)

    def compare(self, subject, c):
        try:
            code = subject.script(c)
            subject.attention(c)
        except Unsupported:
            return
        except Refused:
            with self.assertRaises(SystemExit):
                script_output(code, c)
            return
        np.testing.assert_array_equal(script_output(code, c), values(c.out, c.dtype))


class Declarations(unittest.TestCase):
    def test_names_versions_and_descriptions(self):
        self.assertEqual(set(SUBJECTS), {*SDPA, *MHA, *OTHER, *COMPILED, *NORMS, *BLOCKS})
        for name, make in SUBJECTS.items():
            subject = make()
            self.assertEqual(subject.name, f"torch:{name}")
            self.assertIn(torch.__version__, subject.version)
            types = (["f32", "bf16", "f16"] if name == "flex-compiled" else ["f32", "f64"] if name.startswith("encoder-norm") or name in ENCODERS
                     else ["f32", "bf16", "f64"] if name.startswith("encoder-block") else ["f32", "f64", "bf16", "f16"])
            self.assertEqual(subject.describe()["dtypes"], types)
            op = "layer_norm" if name in NORMS else "mha" if name in BLOCKS else "attention"
            self.assertEqual(subject.describe()["ops"], [op])

    def test_only_the_math_backend_promises_a_policy_for_16_bits(self):
        for name, make in SUBJECTS.items():
            self.assertEqual("policy" in make().describe()["contract"], name == "math")


class Norms(unittest.TestCase):
    def test_a_row_in_two_axes_is_the_row(self):
        for name in ("layer_norm", "rms_norm"):
            for dtype in ("f32", "f16"):
                for problem in NORMS_CALLS:
                    c, alone = (norm(dtype=dtype, rms=name == "rms_norm", **problem) for _ in range(2))
                    split = SUBJECTS[f"{name}-axes"]()
                    split.layer_norm(c)
                    SUBJECTS[name]().layer_norm(alone)
                    np.testing.assert_array_equal(c.out, alone.out)
                    np.testing.assert_array_equal(script_answer(split.script(c), c), values(c.out, dtype))
        self.assertEqual(split.shape(norm(hidden=12)), (3, 4))
        self.assertEqual(split.shape(norm(hidden=7)), (1, 7))


class Encoder(unittest.TestCase):
    """The result for a layer's norm is that of the norm: nothing else of the layer is left in it."""

    def answer(self, name, c):
        SUBJECTS[name]().layer_norm(c)
        return c.out

    def test_it_is_the_norm_bit_for_bit(self):
        fast = unittest.mock.Mock(wraps=torch._transformer_encoder_layer_fwd)
        with unittest.mock.patch.object(torch, "_transformer_encoder_layer_fwd", fast):
            for name in ("encoder-norm1", "encoder-norm2"):
                for dtype in ("f32", "f64"):
                    for problem in NORMS_CALLS:
                        with self.subTest(name, dtype=dtype, **problem):
                            c = norm(dtype=dtype, **problem)
                            alone = norm(dtype=dtype, **problem)
                            alone.param_dtype = dtype
                            if alone.gamma is None:  # a layer has both
                                alone.gamma = np.ones_like(alone.x[0])
                            if alone.beta is None:
                                alone.beta = np.zeros_like(alone.x[0])
                            SUBJECTS["layer_norm"]().layer_norm(alone)
                            got = self.answer(name, c)
                            np.testing.assert_array_equal(got, alone.out)
                            np.testing.assert_array_equal(script_answer(SUBJECTS[name]().script(c), c), got)
        even = [problem for problem in NORMS_CALLS if problem.get("hidden", 7) % 2 == 0]
        self.assertEqual(fast.call_count, 2 * 2 * 2 * len(even))  # and once more in the script

    def test_another_norm_in_the_layer_shows(self):
        """The one that is asked, and not the other one."""
        for norm_of, shows in ((1, True), (2, False)):
            c, alone = norm(hidden=8), norm(hidden=8)
            self.answer("encoder-norm1", c)
            made = torch_encoder.layer(8, "f32", 1)
            wrong = getattr(made, f"norm{norm_of}")
            with unittest.mock.patch.object(wrong, "forward", lambda x: x * 2.0**60), \
                    unittest.mock.patch.object(torch.backends.mha, "get_fastpath_enabled", lambda: False):
                self.answer("encoder-norm1", alone)
            self.assertEqual(not np.array_equal(c.out, alone.out), shows)

    def test_what_hides_behind_x_is_not_asked(self):
        for change in (dict(x=np.array([[1, 1e-9]], "f")), dict(x=np.array([[1, 1e9]], "f")), dict(epsilon=0.0),
                       dict(x=np.array([[1, 2, 3]], "f"), gamma=np.array([1, 1, 1], "f"), beta=np.array([0, 1e-20, 0], "f"))):
            c = norm(rows=1, hidden=3 if "gamma" in change else 2, gamma=False, beta=False)
            vars(c).update(change, param_dtype="f32")
            with self.assertRaises(Unsupported):
                self.answer("encoder-norm2", c)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
