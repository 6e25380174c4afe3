"""torch.nn.functional.layer_norm and rms_norm on the CPU.

Documents: the docstrings of torch.nn.LayerNorm and torch.nn.RMSNorm in torch 2.15, to which those of the functions point for
details. They are read as follows:
- layer_norm: "The variance is calculated via the biased estimator, equivalent to `torch.var(input, correction=0)`.", and epsilon
  is "a value added to the denominator for numerical stability", under the root of the formula;
- rms_norm: "\\text{RMS}(x) = \\sqrt{\\epsilon + \\frac{1}{n} \\sum_{i=1}^{n} x_i^2}". It has no bias;
- precision: nothing is said, of either, so that every step may be in the type of the input. That the machine epsilon of "the
  computation (opmath) type" stands in for an eps that is not given promises no computation in that type;
- normalized_shape: "(int or list or torch.Size)"; two axes in the subjects `-axes`, which split a row;
- types: nothing says that weight and bias may have another type than the input: they are not asked with one.
No document names the way to a variance either. The bound is that of the way the library goes, with room: "Compute
rowwise moments by Welford algorithm and cascade sum to improve numerical stability" (ATen/native/cpu/moments_utils.h, in the
headers that torch 2.15 installs), parts joined by the difference of their means; and the normalised value may be made as
x * scale + shift.
Nothing is claimed on batches, on equal bits of a repeated call, on NaN. Results of bfloat16 may lose subnormals, as in
_torch_call.
"""

from torch.nn.functional import layer_norm, rms_norm

from . import _torch_script as script
from ._forms import described
from ._quotes import citing, quotes, told
from ._torch_call import HOST, RELEASE, TYPES, ask, use_threads, version

# No word is lost on how exact a root is; in 16 bits an ulp of their own is more than this.
_SUBNORMALS = {"flush_to_zero": {"bf16": True}, "rsqrt_ulp": {"f32": 4, "f64": 4}}
# Joins that one part passes through: at most two for each level of a cascade over 2^24 elements, and one for each lane.
_MERGES = 64


class Norm:
    documents = {}

    def __init__(self, name, axes=1):
        self.name, self.axes, self.version = f"torch:{name}", axes, version()

    def describe(self):
        return described("layer_norm", TYPES, self.supports, _SUBNORMALS | self.contract, documents=told(self.documents, citing(RELEASE)))

    def layer_norm(self, call):
        use_threads(call)
        shape = self.shape(call)
        x = HOST.enter(call.x, call.dtype).unflatten(1, shape)
        weights = {name: HOST.enter(view, call.param_dtype).unflatten(0, shape)
                   for name, view in (("weight", call.gamma), ("bias", call.beta)) if view is not None}
        out, dtype = HOST.leave(ask(lambda: self.function(x, shape, eps=call.epsilon, **weights)).flatten(1))
        if dtype != call.dtype:
            raise TypeError(f"{self.name} gave {dtype} for {call.dtype}")
        return HOST.end([(out, call.out)])

    def script(self, call, beside=None):
        return script.norm(self.function.__name__, call, self.shape(call))

    def shape(self, call):
        """The shape that is normalised together: the row, or the row as two axes."""
        width = call.x.shape[1]
        if self.axes == 1:
            return (width,)
        first = next(n for n in range(int(width ** 0.5), 0, -1) if width % n == 0)
        return (first, width // first)


class LayerNorm(Norm):
    """torch.nn.functional.layer_norm over the last dimension."""

    function = staticmethod(layer_norm)
    documents = quotes("""
docstring of torch.nn.LayerNorm
    layer_norm | The variance is calculated via the biased estimator, equivalent to `torch.var(input, correction=0)`.
    epsilon | a value added to the denominator for numerical stability
""")
    supports = {"norms": ["layer"], "beta": True}
    contract = {"variance": "welford", "merge": "delta", "merge_depth": _MERGES, "form": "scale_bias"}


class RmsNorm(Norm):
    """torch.nn.functional.rms_norm over the last dimension."""

    function = staticmethod(rms_norm)
    documents = quotes(r"""
docstring of torch.nn.RMSNorm
    layer_norm | \text{RMS}(x) = \sqrt{\epsilon + \frac{1}{n} \sum_{i=1}^{n} x_i^2}
    - | the computation (opmath) type
""")
    supports = {"norms": ["rms"], "beta": False}
    contract = {}
