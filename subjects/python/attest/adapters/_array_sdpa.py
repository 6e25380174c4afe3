"""The base of the adapters of jax, keras, paddle and mlx: a function that is handed arrays, in place of views of the arena.

Their tensors are made from NumPy arrays and have no strides to say, so a view is packed where the library packs it.
"""

from typing import NamedTuple

from attest import Refused, Unsupported
from attest.formats import ROWS, bits

from ._arguments import unlaid, unlaid_text
from ._forms import Formed, described
from ._quotes import citing

STORED = {dtype: row.library for dtype, row in ROWS.items()}


class Asked(NamedTuple):
    """One call in the words of the library."""

    arguments: dict  # name -> Argument
    options: dict  # name -> a number, a tuple, a word
    layout: str  # the output's


class ArraySdpa(Formed):
    """A subclass has `library`, `version`, `release`, whose documents were read, `dtypes`, `supports`, `contract`; `asked(call)`,
    which says a call; `run(asked, said)`, which returns the output of the library; `array(output)`, its NumPy array; and, for
    scripts, `head(asked, said)`, `called(arguments, asked, said)` and `made(argument)`, lines and expressions of Python."""

    adapter = None  # where it is not called by the library's name
    supports = {}
    # No document says how far off exp may be in float32. NumPy's release notes (1.17) do of its own, "a max ulp error of
    # 2.52"; those of TensorFlow and PaddlePaddle were seen to be off by 1.3.
    contract = {"exp_ulp": {"f32": 4}}

    def __init__(self, name, **pinned):
        super().__init__(f"{self.adapter or self.library}:{name}", **pinned)

    def describe(self):
        supports = {"scale": "any", "dims": {"dv": "=d"}, "forms": self.offered(), **self.supports}
        return described("attention", self.dtypes, supports, self.promised(self.contract),
                         documents=self.quoted(citing(self.release)), **self.times)

    def attention(self, call):
        asked = self.asked(call)
        self.leave(call.out, self.ask(asked, self.said(call)), asked.layout, call.dtype)

    def ask(self, asked, said):
        """The output, with the library's refusal as attest.Refused."""
        try:
            return self.run(asked, said)
        except Unsupported:
            raise
        except Exception as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise Refused(f"{self.library}: {type(error).__name__}: {self.reason(lines)}") from error

    def reason(self, lines):
        """The line of an error that tells what is refused."""
        return lines[0] if lines else "no reason given"

    def leave(self, out, output, layout, dtype):
        """Writes the output as it came. Its type and shape are part of it."""
        array = self.array(output)
        if array.dtype.name != STORED[dtype]:
            raise TypeError(f"{self.library} returned {array.dtype.name} for {STORED[dtype]}")
        array = unlaid(array, layout)
        if array.shape != out.shape:
            raise TypeError(f"{self.library} returned the shape {array.shape} for {out.shape}")
        out[...] = bits(array, dtype)

    def script(self, call, beside=None):
        asked, said = self.asked(call), self.said(call)
        texts = [f"{name}={self.made(argument)}" for name, argument in asked.arguments.items()]
        texts += [f"{name}={value!r}" for name, value in asked.options.items()]
        return (f"{self.head(asked, said)}try:\n    got = {self.called(', '.join(texts), asked, said)}\n"
                'except Exception as error:\n    raise SystemExit(f"refused: {error}")\n'
                f"got = got{unlaid_text(asked.layout)}\n")
