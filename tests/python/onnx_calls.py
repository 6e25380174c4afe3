"""The common part of the tests of the adapters of ONNX and of ONNX Runtime: the battery through a subject, and through its script."""

import numpy as np

from attest import Refused, Unsupported
from attention_calls import battery, far, open_keys, reference


def node_of(subject, c):
    """The model that the subject makes of this call; inputs as {input: array}."""
    node = subject.node(c)
    node.inputs = dict(node.given())
    return node


def agree(case, subject, dtype, form=None, known=lambda c: False, refuses=None, **more):
    """The number of problems of the battery that the subject says, all of them rightly. `known`: whether a finding stands there;
    `refuses`: the words of one that is refused."""
    judged = 0
    for problem, c in battery(dtype, form=form or {}, **more):
        if known(c):
            continue
        with case.subTest(subject.name, dtype=dtype, form=form, problem=problem, **more):
            try:
                subject.attention(c)
            except Unsupported:
                continue
            except Refused as refusal:
                case.assertIn(refuses or "no refusal at all", str(refusal))
                continue
            judged += 1
            case.assertFalse(far(c), f"got {c.out.ravel()}, expected {reference(c).ravel()}")
    return judged


def compare_script(case, subject, c):
    """The script of a call gives what the subject gives, bit for bit, or the refusal that the subject reports."""
    try:
        code = subject.script(c)
    except Unsupported:
        return
    scope = {"np": np, **{n: getattr(c, n) for n in ("q", "k", "v", "bias", "keep", "kv_lengths", "scale")}}
    try:
        subject.attention(c)
    except Refused as refusal:
        with case.assertRaises(SystemExit) as caught:
            exec(code, scope)
        case.assertTrue(str(caught.exception).startswith("refused: "))
        case.assertTrue(str(caught.exception).endswith(str(refusal).removeprefix("onnxruntime: ")), refusal)
    else:
        exec(code, scope)
        np.testing.assert_array_equal(scope["got"], c.out)


def empty_rows(c):
    return not open_keys(c).any(-1).all()


