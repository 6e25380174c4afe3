"""jax.nn.dot_product_attention and attention in the steps of jax.numpy, on a GPU of NVIDIA's.

Documents: those of _jax_sdpa.py and _jax_explicit.py, and the docstring of jax.lax.Precision: products of float32
are in tensorfloat32 by default. How the rest is read:
- implementation="cudnn": "Note, `cudnn` supports only a subset of shapes/dtypes, and an exception will be thrown if its not
  supported.": a ValueError and a NotImplementedError are that exception; what XLA raises is not.
Nothing else is said on precision: sums are read as those of tensor cores that have that type, from Ampere on; exp and subnormals are
read as on the CPU.
"""

import jax

from attest import Unsupported

from ._jax_explicit import Explicit
from ._jax_sdpa import Jax, Residual, Sdpa
from ._quotes import quotes, refusals

REFUSED = refusals("""
docstring of jax.nn.dot_product_attention | ! cudnn takes no such call, which the document announces with an exception | Note, `cudnn` supports only a subset of shapes/dtypes, and an exception will be thrown if its not supported.
""")
_POLICY = quotes("""
docstring of jax.lax.Precision | policy | On GPU: uses tensorfloat32 if available (e.g. on A100 and H100 GPUs), otherwise standard float32 (e.g. on V100 GPUs).
""")


class OnCuda:
    """The promises of a subclass of Jax there."""

    adapter = "jax-cuda"
    times = {"plan_ms": 1500, "warm_up_ms": 5000}
    contract = Jax.contract | {"policy": {"f32": "f32,operand=tf32"}, "mma": "ampere", "exp2": True}

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        try:
            jax.devices("cuda")
        except Exception as error:  # JAX raises several types, of which one says nothing
            raise RuntimeError(f"jax {jax.__version__} finds no device 'cuda' here") from error

    def describe(self):
        return {**super().describe(), "device": "cuda"}


class CudaSdpa(OnCuda, Sdpa):
    documents = Sdpa.documents | _POLICY


class CudaResidual(OnCuda, Residual):
    documents = Residual.documents | _POLICY


class CudaExplicit(OnCuda, Explicit):
    documents = Explicit.documents | _POLICY


class Cudnn(CudaSdpa):
    """The attention of cuDNN: "Q must be fp16/bf16/fp8_e4m3fn/fp8_e5m2"."""

    dtypes = ("f16", "bf16")
    documents = Sdpa.documents
    contract = {"flush_to_zero": True, "mma": "ampere"}

    def run(self, asked, said):
        try:
            return super().run(asked, said)
        except (NotImplementedError, ValueError):
            raise Unsupported("cudnn takes no such call, which the document announces with an exception") from None
