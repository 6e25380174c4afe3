"""Calls of attention blocks and of layer_norm as a worker would make them, and what they mean in float64: what the tests of the
adapters of these operations share."""

from types import SimpleNamespace

import numpy as np

from attention_calls import BOTTOM_RIGHT, TOP_LEFT, stored, values

BLOCK_TENSORS = ("x", "memory", "w_q", "w_k", "w_v", "w_out", "b_q", "b_k", "b_v", "b_out", "bias")


def block(b=2, l=3, m=None, e=8, heads=2, head_dim=None, biases=True, dtype="f32", seed=0, packed=True, **options):
    """A call of mha; memory is x where m is None. Its numbers are of the size of 1 in every stage."""
    rng = np.random.default_rng(seed)
    draw = lambda *shape, size=1.0: stored(rng.standard_normal(shape) * size, dtype)
    head_dim = head_dim or e // heads
    width = heads * head_dim
    weights, offsets = draw(3 * width, e, size=e**-0.5), draw(3 * width)
    parts = [slice(n * width, (n + 1) * width) for n in range(3)]
    w = [weights[part] if packed else weights[part].copy() for part in parts]
    made = dict(
        x=draw(b, l, e), memory=None if m is None else draw(b, m, e), w_q=w[0], w_k=w[1], w_v=w[2],
        w_out=draw(e, width, size=width**-0.5), **{f"b_{n}": offsets[part] if biases else None for n, part in zip("qkv", parts)},
        b_out=draw(e) if biases else None, bias=None, keep=None, kv_lengths=None, out=stored(np.full((b, l, e), np.nan), dtype),
        q=None, k=None, v=None, heads_out=None, heads=heads, kv_heads=heads, head_dim=head_dim, scale=float(head_dim**-0.5),
        scale_is_default=True, causal=False, align=TOP_LEFT, threads=1, dtype=dtype, stage_dtype=None)
    made.update(options)
    if "scale" in options:
        made["scale_is_default"] = False
    keys = m or l
    for name in ("bias", "keep"):  # stride 0 where broadcast, as in a problem
        if made[name] is not None:
            made[name] = np.broadcast_to(made[name], (b, heads, l, keys))
    return SimpleNamespace(op="mha", **made)


def block_reference(c):
    """(out, whether a row has a key) in float64."""
    number = lambda name: values(getattr(c, name), c.dtype)
    x = number("x")
    memory = x if c.memory is None else number("memory")
    project = lambda t, of: t @ number(f"w_{of}").T + (0 if getattr(c, f"b_{of}") is None else number(f"b_{of}"))
    split = lambda t: t.reshape(*t.shape[:2], c.heads, -1).transpose(0, 2, 1, 3)
    q, k, v = split(project(x, "q")), split(project(memory, "k")), split(project(memory, "v"))
    score = c.scale * (q @ k.swapaxes(2, 3))
    if c.bias is not None:
        score = score + number("bias")
    rows, keys = score.shape[2:]
    lengths = np.full(len(x), keys) if c.kv_lengths is None else c.kv_lengths
    part = np.broadcast_to(np.arange(keys) < lengths[:, None, None, None], score.shape).copy()
    if c.keep is not None:
        part &= c.keep
    if c.causal:
        shift = (lengths - rows if c.align == BOTTOM_RIGHT else np.zeros_like(lengths))[:, None, None, None]
        part &= np.arange(keys) <= np.arange(rows)[:, None] + shift
    score = np.where(part, score, -np.inf)
    top = score.max(-1, keepdims=True)
    weight = np.exp(score - np.where(np.isneginf(top), 0, top))
    total = weight.sum(-1, keepdims=True)
    heads = weight @ v / np.where(total == 0, 1, total)
    out = project(heads.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1), "out")
    return out, bool(part.any(-1).all())


BLOCKS = [
    dict(),
    dict(b=1, l=1, e=2),
    dict(b=3, l=5, m=7, e=12, heads=4),
    dict(l=9, m=70, e=66),
    dict(biases=False),
    dict(biases=False, packed=False, m=4),
    dict(b=1, biases=False, m=5),
    dict(b_out=None),
    dict(causal=True, l=4),
    dict(causal=True, l=5, m=3),
    dict(causal=True, align=BOTTOM_RIGHT, l=2, m=5),
    dict(causal=True, align=BOTTOM_RIGHT, l=3, kv_lengths=np.array([3, 3], np.int32)),
    dict(kv_lengths=np.array([1, 3], np.int32)),
    dict(causal=True, kv_lengths=np.array([2, 3], np.int32), m=4),
    dict(keep=np.array([[[[1, 0, 1]]], [[[0, 1, 1]]]], bool)),
    dict(keep=np.array([[[1, 0, 1], [1, 1, 1], [0, 1, 1]], [[1, 1, 1], [0, 0, 1], [0, 1, 0]]], bool)),
    dict(bias=np.linspace(-2, 2, 9).reshape(3, 3)),
    dict(bias=np.linspace(-2, 2, 36).reshape(2, 2, 3, 3), keep=np.array([[[[1, 0, 1]]], [[[0, 1, 1]]]], bool)),
    dict(scale=0.3),
    dict(heads=2, head_dim=3),
    dict(threads=2),
]


def blocks(dtype, supports):
    """(problem, its call) of each block of the list that `supports` lets a subject be asked."""
    dims = supports.get("dims", {})
    for problem in BLOCKS:
        options = {"dtype": dtype, **problem}
        if options.get("bias") is not None:
            options["bias"] = stored(options["bias"], dtype)
        c = block(**options)
        biased = c.b_q is not None
        asked = (
            ("cross" if c.memory is not None else "self") in supports["memory"]
            and (supports["in_biases"] is True or not biased) and (supports["scale"] == "any" or c.scale_is_default)
            and all(supports[name] or getattr(c, name) is None for name in ("bias", "keep", "kv_lengths"))
            and (supports["causal"] or not c.causal)
            and ("head_dim" not in dims or c.head_dim * c.heads == c.x.shape[2])
            and ("b" not in dims or dims["b"][1] >= len(c.x)) and ("heads" not in dims or c.heads % dims["heads"][2] == 0))
        if asked:
            yield problem, c


def norm(rows=3, hidden=7, dtype="f32", gamma=True, beta=True, rms=False, epsilon=1e-5, param_dtype=None, seed=1):
    """A call of layer_norm."""
    rng = np.random.default_rng(seed)
    param_dtype = param_dtype or dtype
    weight = lambda there: stored(rng.standard_normal(hidden), param_dtype) if there else None
    x = stored(rng.standard_normal((rows, hidden)) * 2 + 1, dtype)
    gamma, beta = weight(gamma), weight(beta and not rms)
    return SimpleNamespace(
        op="layer_norm", x=x, gamma=gamma, beta=beta, residual=None, sum_out=None,
        out=stored(np.full((rows, hidden), np.nan), dtype), dtype=dtype, param_dtype=None if gamma is None and beta is None else param_dtype, epsilon=epsilon, rms=rms, threads=2)


def norm_reference(c):
    x = values(c.x, c.dtype)
    x = x if c.rms else x - x.mean(-1, keepdims=True)
    y = x / np.sqrt((x * x).mean(-1, keepdims=True) + c.epsilon)
    y = y if c.gamma is None else y * values(c.gamma, c.param_dtype)
    return y if c.beta is None else y + values(c.beta, c.param_dtype)


NORMS = [dict(), dict(rows=1, hidden=2, epsilon=0.5), dict(gamma=False, beta=False), dict(beta=False), dict(gamma=False),
         dict(hidden=64, epsilon=1.0), dict(rows=5, hidden=33)]


def in_scope(c):
    """The arrays and numbers of a call as an exported script has them: bfloat16 as the float32 numbers it stands for."""
    scope = {"np": np, **vars(c)}
    for name, given in vars(c).items():
        if isinstance(given, np.ndarray) and given.dtype == np.uint16:
            scope[name] = values(given, "bf16").astype(np.float32)
    return scope


def script_answer(code, c):
    """`got` of an exported script run on the tensors of c."""
    scope = in_scope(c)
    exec(code, scope)
    return np.asarray(scope["got"], float)


class Blocks:
    """Mixed into a TestCase, which has `make`, from each name to the subject, and says in `known` where a finding stands."""

    tolerance = {"f16": 0.02, "bf16": 0.15, "f32": 1e-5, "f64": 1e-13}
    least = 8  # problems that a subject is judged on, of each type

    def known(self, name, problem):
        return False

    def test_every_way_agrees_with_float64(self):
        for name, make in self.make.items():
            subject = make()
            described = subject.describe()
            self.assertEqual(described["ops"], ["mha"])
            for dtype in described["dtypes"]:
                judged = 0
                for problem, c in blocks(dtype, described["supports"]):
                    with self.subTest(name, dtype=dtype, problem=problem):
                        expected, full = block_reference(c)
                        if not full or self.known(name, problem):
                            continue
                        before = {t: getattr(c, t).copy() for t in BLOCK_TENSORS if getattr(c, t) is not None}
                        if not self.asked(subject, c):
                            continue
                        judged += 1
                        off = np.abs(values(c.out, dtype) - expected).max()
                        self.assertLess(off, self.tolerance[dtype])
                        for tensor, was in before.items():
                            np.testing.assert_array_equal(getattr(c, tensor), was)
                self.assertGreaterEqual(judged, min(self.least, self.fewer.get(name, self.least)), (name, dtype))

    fewer = {}  # name -> problems that a subject is judged on, at least, where it takes less

    def asked(self, subject, c):
        from attest import Unsupported
        try:
            subject.mha(c)
        except Unsupported:
            return False
        return True

    def test_another_block_is_far(self):
        """A head for another, a bias left out and the wrong corner do not agree."""
        for name, make in self.make.items():
            subject, c = make(), block(b=1, m=5, l=3, biases=False)
            if "cross" not in subject.describe()["supports"]["memory"]:
                c = block(b=1, l=3)
            self.assertTrue(self.asked(subject, c), name)
            got = c.out.astype(float)
            c.w_q, c.w_k = c.w_k, c.w_q
            c.w_out = np.roll(c.w_out, 1, 1)
            self.assertGreater(np.abs(got - block_reference(c)[0]).max(), 0.05, name)

    def test_scripts_give_what_the_subjects_give(self):
        for name, make in self.make.items():
            subject = make()
            described = subject.describe()
            for dtype in described["dtypes"]:
                for problem, c in list(blocks(dtype, described["supports"]))[::2]:
                    with self.subTest(name, dtype=dtype, problem=problem):
                        if self.asked(subject, c):
                            np.testing.assert_array_equal(script_answer(subject.script(c), c), values(c.out, dtype))

    def test_strides(self):
        """Views that are no copies are read through their strides, and out is written through its own."""
        for name, make in self.make.items():
            subject = make()
            supports = subject.describe()["supports"]
            c = block(b=1, l=4, m=6 if "cross" in supports["memory"] else None, e=8, biases=supports["in_biases"] is True)
            c.x = np.repeat(c.x, 2, 2)[:, :, ::2]
            c.w_k = np.ascontiguousarray(c.w_k.T).T
            c.w_out = np.repeat(c.w_out, 3, 1)[:, ::3]
            c.out = np.full((1, 8, 4), np.nan, np.float32).transpose(0, 2, 1)
            with self.subTest(name):
                self.assertTrue(self.asked(subject, c))
                self.assertLess(np.abs(c.out - block_reference(c)[0]).max(), 1e-5)


class Norms:
    """The same of layer_norm."""

    tolerance = {"f16": 0.01, "bf16": 0.1, "f32": 1e-5, "f64": 1e-13}

    def problems(self, subject):
        described = subject.describe()
        self.assertEqual(described["ops"], ["layer_norm"])
        supports = described["supports"]
        for dtype in described["dtypes"]:
            for problem in NORMS:
                for param_dtype in {dtype} | ({"f32"} if "f32" in supports["param_dtypes"] else set()):
                    yield norm(dtype=dtype, rms=supports["norms"] == ["rms"], param_dtype=param_dtype, **problem), problem

    def test_every_norm_agrees_with_float64(self):
        for name, make in self.make.items():
            subject = make()
            for c, problem in self.problems(subject):
                with self.subTest(name, dtype=c.dtype, problem=problem):
                    c.x = np.repeat(c.x, 2, 1)[:, ::2]
                    subject.layer_norm(c)
                    self.assertLess(np.abs(values(c.out, c.dtype) - norm_reference(c)).max(), self.limit(name, c.dtype))
            c.rms = not c.rms
            self.assertGreater(np.abs(values(c.out, c.dtype) - norm_reference(c)).max(), 0.2, "the other norm is not far")

    def limit(self, name, dtype):
        return self.tolerance[dtype]

    def test_no_rows(self):
        for name, make in self.make.items():
            subject = make()
            supports = subject.describe()["supports"]
            self.assertEqual(supports["dims"]["rows"][0], 0)
            c = norm(rows=0, rms=supports["norms"] == ["rms"], beta=supports["beta"])
            subject.layer_norm(c)
            self.assertEqual(c.out.shape, (0, 7))

    def test_scripts_give_what_the_norms_give(self):
        for name, make in self.make.items():
            subject = make()
            for c, problem in list(self.problems(subject))[::2]:
                with self.subTest(name, dtype=c.dtype, problem=problem):
                    subject.layer_norm(c)
                    np.testing.assert_array_equal(script_answer(subject.script(c), c), values(c.out, c.dtype))
