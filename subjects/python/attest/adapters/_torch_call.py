"""Calls as the PyTorch subjects need them: tensors without a copy, masks, threads, refusals."""

import warnings

import torch

from attest import Refused, Unsupported
from attest.arrays import TorchArrays
from attest.device import DeviceArrays, breaks_the_device, with_mma

from . import _masks
from ._forms import Formed, described
from ._masks import causal_alone, starts_top_left, windowed
from ._quotes import citing, refusals

RELEASE = "torch 2.15"  # its documents were read
TYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}

# "A faster version of exp with ULP=20" (ATen/cpu/vec/vec512/vec512_float.h, exp_u20, in the headers that torch 2.15
# installs): what the fused kernels call for float32. In 16-bit softmax formats that is less than one ulp. The processor's
# products of bfloat16 take subnormals for zero (AVX512_BF16), and nothing promises otherwise.
NO_PROMISE = {"exp_ulp": {"f32": 20}, "flush_to_zero": {"bf16": True}}
ADDED = {"mask_added": True}  # a key that a mask closes has -inf added to its score

torch.set_grad_enabled(False)
warnings.filterwarnings("ignore")  # on why a backend was not taken, and on broadcast arrays; what matters is raised
_own_threads = torch.get_num_threads()
HOST = TorchArrays()
tensor = HOST.enter  # (view, dtype): a tensor on the same memory


REFUSED = refusals("""
docstring of torch.nn.functional.scaled_dot_product_attention | ! this backend does not take the call, which the document announces with a warning | In the event that a fused implementation is not available, a warning will be raised with the reasons why the fused implementation cannot run.
""")


def describe(subject, supports, contract, dtypes=tuple(TYPES)):
    more = {"device": subject.device} if subject.device else {}
    return described("attention", dtypes, {"scale": "any", "forms": subject.offered(), **supports},
                     with_mma(contract, subject.arrays.capability), documents=subject.quoted(citing(RELEASE)), **more, **subject.times)


class Subject(Formed):
    """PyTorch on the CPU, on the call's own memory, or on `device`, by torch's names, on a copy with the same strides. A subclass
    has answer(call, place) -> (out, log-sum-exp or None), place.enter(view, dtype) being a tensor of the call there."""

    def __init__(self, name, device=None, **pinned):
        super().__init__(f"torch-{device}:{name}" if device else f"torch:{name}", **pinned)
        self.arrays = DeviceArrays(device) if device else HOST
        self.device = device
        self.version = f"{version()} on {self.arrays.model}" if device else version()

    def prepare(self):
        self.arrays.prepare()

    def attention(self, call):
        use_threads(call)
        place = self.arrays.begin(call)
        out, lse = place.run(self.answer, call, place)
        out, dtype = place.leave(out.reshape(call.out.shape))
        if dtype != call.dtype:
            raise TypeError(f"{self.name} gave {dtype} for {call.dtype}")
        results = [(out, place.target(call.out, call.dtype))]
        if call.lse is not None:
            results.append((place.leave(lse)[0], place.target(call.lse, {4: "f32", 8: "f64"}[call.lse.itemsize])))
        return place.end(results)


def narrowed(array, axes=(0, 1, 2, 3)):
    """The view with those of `axes` that are broadcast (stride 0) cut to length 1."""
    strides = array.stride()
    return array[tuple(slice(0, 1) if axis in axes and strides[axis] == 0 else slice(None) for axis in range(4))]


def said_by_is_causal(call):
    """Whether the causal mask is one that starts at the top left, alone: what is_causal means."""
    return causal_alone(call) and starts_top_left(call)


def lengths_as_keep(call, device=None):
    """bool [B, 1, 1, Lk]: key j of sample b is no padding."""
    return torch.from_numpy(_masks.lengths_as_keep(call.kv_lengths, call.k.shape[2])).to(device, non_blocking=True)


def diagonal_as_keep(call, device=None):
    """bool [1 or B, 1, Lq, Lk]: the keys that the causal mask and the windows leave to each query."""
    return torch.from_numpy(_masks.diagonal_as_keep(call)).to(device, non_blocking=True)


def keep_of(call, keep, device=None):
    """The mask of the keys that take part, as one bool tensor on the device, or None: `keep`, which is there, and all that is not
    said in another way."""
    parts = [] if keep is None else [keep]
    if call.kv_lengths is not None:
        parts.append(lengths_as_keep(call, device))
    if call.causal or windowed(call):
        parts.append(diagonal_as_keep(call, device))
    for part in parts[1:]:
        parts[0] = parts[0] & part
    return parts[0] if parts else None


def open_keys(call, least=float("-inf")):
    """bool, broadcastable to [B, Hq, Lq, Lk]: the keys that the masks, the key lengths and a bias above `least` leave to
    each query. A bias that is NaN leaves its key."""
    keep = keep_of(call, None if call.keep is None else narrowed(tensor(call.keep, "bool")))
    if keep is None:
        keep = torch.ones(1, 1, 1, call.k.shape[2], dtype=torch.bool)
    return keep if call.bias is None else keep & ~(narrowed(tensor(call.bias, call.bias_dtype)).double() <= least)


def use_threads(call):
    """torch.set_num_threads where it changes something; 0 leaves PyTorch its own number."""
    wanted = call.threads or _own_threads
    if torch.get_num_threads() != wanted:
        torch.set_num_threads(wanted)


def ask(function):
    """function(), with PyTorch's refusal as attest.Refused; Unsupported where a backend that was asked for cannot run."""
    try:
        return function()
    except (AssertionError, IndexError, RuntimeError, ValueError) as error:
        if breaks_the_device(error) and torch.cuda.is_available():  # without a device none is lost
            raise
        text = str(error).split("\n")[0].strip()
        if "No available kernel" in text:
            raise Unsupported("this backend does not take the call, which the document announces with a warning") from None
        raise Refused(f"torch: {text}") from error


def version():
    return f"torch {torch.__version__}"
