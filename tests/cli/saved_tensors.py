"""Saved tensors for tests, without numpy: .npy, .npz and Polygraphy's JSON, and attention in double precision."""
import base64
import json
import math
import random
import struct
import zipfile


class Array:
    """Row-major numbers of one NumPy type: '<f4', '<f2', '<i4', '|b1'."""

    def __init__(self, shape, values, descr="<f4"):
        self.shape, self.values, self.descr = tuple(shape), list(values), descr

    def npy(self):
        code = {"<f4": "f", "<f2": "e", "<f8": "d", "<i4": "i", "|b1": "?"}[self.descr]
        header = repr({"descr": self.descr, "fortran_order": False, "shape": self.shape}).encode()
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + \
            struct.pack(f"<{len(self.values)}{code}", *self.values)


def write_npz(path, compression=zipfile.ZIP_STORED, **arrays):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, array in arrays.items():
            archive.writestr(name + ".npy", array.npy())


def polygraphy_array(array):
    return {"array": base64.b64encode(array.npy()).decode(), "polygraphy_class": "ndarray"}


def write_polygraphy_inputs(path, *iterations):
    """Writes the file of `polygraphy run --save-inputs`: a list of feeds."""
    path.write_text(json.dumps([{n: polygraphy_array(a) for n, a in feed.items()} for feed in iterations]))


def write_polygraphy_outputs(path, **runners):
    """Writes the file of `polygraphy run --save-outputs`: RunResults, each runner with one iteration."""
    path.write_text(json.dumps({"lst": [[name, [{
        "outputs": {n: {"values": polygraphy_array(a), "polygraphy_class": "LazyArray"} for n, a in outputs.items()},
        "runtime": 0.1, "runner_name": name, "polygraphy_class": "IterationResult"}]] for name, outputs in runners.items()],
        "polygraphy_class": "RunResults"}))


def to_half(x):
    return struct.unpack("<e", struct.pack("<e", x))[0]


def to_single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


class Call:
    """A small random call of attention, [B,H,L,D], and what it returns."""

    def __init__(self, b=1, h=2, lq=3, lk=5, d=4, round_to=to_single, descr="<f4", causal=False, seed=1):
        rng = random.Random(seed)
        self.b, self.h, self.lq, self.lk, self.d = b, h, lq, lk, d
        self.descr, self.round_to, self.causal = descr, round_to, causal
        self.q, self.k, self.v = ([round_to(rng.gauss(0, 1)) for _ in range(b * h * n * d)] for n in (lq, lk, lk))

    def arrays(self):
        shape = lambda n: (self.b, self.h, n, self.d)
        return {"q": Array(shape(self.lq), self.q, self.descr), "k": Array(shape(self.lk), self.k, self.descr),
                "v": Array(shape(self.lk), self.v, self.descr)}

    def out(self, scale=None, exp=math.exp, corner=0, open_keys=None):
        """`corner`: how far to the right the diagonal of a causal call begins."""
        scale = self.d ** -0.5 if scale is None else scale
        values = []
        for head in range(self.b * self.h):
            for i in range(self.lq):
                row = lambda data, n, j: data[(head * n + j) * self.d:(head * n + j + 1) * self.d]
                q = row(self.q, self.lq, i)
                keys = range(min(self.lk, i + 1 + corner) if self.causal else self.lk)[:open_keys]
                s = [scale * sum(x * y for x, y in zip(q, row(self.k, self.lk, j))) for j in keys]
                w = [exp(x - max(s)) for x in s]
                values += [self.round_to(sum(p * row(self.v, self.lk, j)[c] for p, j in zip(w, keys)) / sum(w))
                           for c in range(self.d)]
        return Array((self.b, self.h, self.lq, self.d), values, self.descr)

    def out_in_single(self):
        """The same with each operation rounded to float32, in the order of the keys, and one division by the sum at the end."""
        f = to_single
        values = []
        for head in range(self.b * self.h):
            for i in range(self.lq):
                row = lambda data, n, j: data[(head * n + j) * self.d:(head * n + j + 1) * self.d]
                q, s = row(self.q, self.lq, i), []
                for j in range(min(self.lk, i + 1) if self.causal else self.lk):
                    dot = 0.0
                    for x, y in zip(q, row(self.k, self.lk, j)):
                        dot = f(dot + f(x * y))
                    s.append(f(f(self.d ** -0.5) * dot))
                total, sums = 0.0, [0.0] * self.d
                for j, x in enumerate(s):
                    w = f(math.exp(f(x - max(s))))
                    total = f(total + w)
                    sums = [f(a + f(w * v)) for a, v in zip(sums, row(self.v, self.lk, j))]
                values += [self.round_to(a / total) for a in sums]
        return Array((self.b, self.h, self.lq, self.d), values, self.descr)
