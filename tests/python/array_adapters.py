"""The common part of the tests of adapters that hand arrays to a library (adapters/_array_sdpa.py)."""

import contextlib

import numpy as np

from attest import Refused, Unsupported
from attest.adapters._forms import words
from attention_calls import BOTTOM_RIGHT, battery, call, far, reference, script_output, values


def problems(dtype):
    yield from ((problem, c) for problem, c in battery(dtype) if c.v.shape[3] == c.q.shape[3])
    for problem in (dict(b=2, hq=3, hkv=1, lq=3, lk=4), dict(b=2, hq=2, lq=4, lk=6, window_left=1, window_right=2),
                    dict(lq=4, lk=5, window_left=1, window_right=1), dict(lq=4, lk=4, causal=True, window_left=1),
                    dict(b=2, lq=2, lk=3, window_left=0, align=BOTTOM_RIGHT, kv_lengths=np.array([2, 3], np.int32))):
        yield problem, call(dtype=dtype, **problem)


class Adapters:
    """Mixed into a TestCase, which has `make`, from each name to the subject, and says in `known` where a finding stands."""

    few = slice(None)  # the part of the battery that is asked: libraries that compile a shape anew take their time

    def known(self, name, problem, c, refusal):
        """Whether a finding of docs/findings.md explains this refusal, or, where it is None, a result that is off."""
        return False

    def least_of(self, name, dtype):
        """The number of problems of the battery that a subject has to be judged on."""
        return 14

    def wrong(self, c):
        return far(c)

    def judged(self, name, subject, dtype, form):
        judged = 0
        for problem, c in list(problems(dtype))[self.few]:
            c.form = form
            with self.subTest(name, dtype=dtype, form=form, problem=problem):
                try:
                    subject.attention(c)
                except Unsupported:
                    continue
                except Refused as refusal:
                    self.assertTrue(self.known(name, problem, c, refusal), refusal)
                    continue
                if (reference(c) == 0).all(-1).any():  # empty rows: nothing is promised of them
                    continue
                judged += 1
                if self.wrong(c):
                    self.assertTrue(self.known(name, problem, c, None), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
        return judged

    def test_battery(self):
        for name, make in self.make.items():
            subject = make()
            for dtype in subject.describe()["dtypes"]:
                with self.subTest(name, dtype=dtype):
                    self.assertGreaterEqual(self.judged(name, subject, dtype, {}), self.least_of(name, dtype))

    def test_every_form(self):
        for name, make in self.make.items():
            subject = make()
            for form, entries in subject.forms.items():
                for value in words(entries)[1:]:
                    with self.subTest(name, form=form, value=value):
                        self.assertGreaterEqual(self.judged(name, subject, "f32", {form: value}), 3)

    def test_a_wrong_corner_is_far(self):
        for name, make in self.make.items():
            c = call(causal=True, lq=2, lk=5)
            make().attention(c)
            self.assertFalse(far(c), name)
            c.align = BOTTOM_RIGHT
            self.assertTrue(far(c), name)

    def test_views_are_read_through_their_strides_and_inputs_left_alone(self):
        for name, make in self.make.items():
            c = call(b=2, hq=3, lq=4, lk=5, d=3)
            c.k = np.repeat(c.k, 2, axis=2)[:, :, ::2]
            c.v = np.broadcast_to(c.v[:1, :1], c.v.shape)
            c.out = np.zeros((2, 4, 3, 3), np.float32).transpose(0, 2, 1, 3)
            before = [x.copy() for x in (c.q, c.k, c.v)]
            make().attention(c)
            self.assertFalse(far(c), name)
            for x, y in zip(before, (c.q, c.k, c.v)):
                np.testing.assert_array_equal(x, y)

    def test_scripts_give_what_the_subject_gives(self):
        for name, make in self.make.items():
            subject = make()
            for dtype in subject.describe()["dtypes"]:
                for problem, c in list(problems(dtype))[::3]:
                    with self.subTest(name, dtype=dtype, problem=problem), np.errstate(all="ignore"):
                        self.compare(subject, c)
            for form, entries in subject.forms.items():
                c = call(hq=2, lq=3, lk=4, keep=np.array([1, 0, 1, 1], bool), form={form: words(entries)[-1]})
                with self.subTest(name, form=c.form), contextlib.suppress(Unsupported):
                    self.compare(subject, c)

    def compare(self, subject, c):
        try:
            code = subject.script(c)
            subject.attention(c)
        except Unsupported:
            return
        except Refused:
            with self.assertRaisesRegex(SystemExit, "refused: "):
                script_output(code, c)
            return
        np.testing.assert_array_equal(script_output(code, c), values(c.out, c.dtype))

    def test_a_refusal_is_told_in_the_librarys_words(self):
        for name, make in self.make.items():
            with self.subTest(name), self.assertRaises(Refused) as caught:
                make().attention(call(k=np.zeros((1, 1, 3, 5), "f")))
            self.assertRegex(str(caught.exception), rf"^{make().library}: \w+: [^\n]+$")

    def test_nothing_is_converted(self):
        """An output of another type or shape is an error, in place of numbers that were rounded on the way."""
        for name, make in self.make.items():
            subject = make()
            subject.array = lambda output: np.zeros((1, 2, 1, 2), np.float64)
            with self.subTest(name), self.assertRaisesRegex(TypeError, "returned float64 for float32"):
                subject.attention(call())
            subject.array = lambda output: np.zeros((1, 2, 2, 2), np.float32)
            with self.subTest(name), self.assertRaisesRegex(TypeError, "returned the shape"):
                subject.attention(call())

    def test_a_softcap_is_unsupported_where_there_is_none(self):
        for name, make in self.make.items():
            if not make().describe()["supports"]["softcap"]:
                with self.subTest(name), self.assertRaises(Unsupported):
                    make().attention(call(softcap=1.0))
