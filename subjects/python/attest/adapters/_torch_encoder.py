"""The LayerNorms inside torch.nn.TransformerEncoderLayer on the CPU, on its fast path (torch._transformer_encoder_layer_fwd) where the
width is even, else on the other one.

Document: the docstring of the class in torch 2.15, the text of
https://docs.pytorch.org/docs/2.15/generated/torch.nn.TransformerEncoderLayer.html, and that of torch.nn.LayerNorm. How it is
read:
- with norm_first a layer is z = x + block(norm1(x)), out = z + feed_forward(norm2(z)), as the paper that it cites has it;
- softmax of one token a sample is 1, and with weights of 0 and 1 a block, and relu(y) - relu(-y) in the feed-forward part, give what
  they get, or nothing. So out is x + norm1(x), or x + norm2(x), and nothing but that sum is rounded behind the norm;
- LayerNorm of x 2^-k under epsilon 4^-k is that of x. Under a k as large as here x is less than half an ulp of each normalised value, so
  that the sum is this value; one that comes out as x itself was 0. Other values, numbers small enough to hide behind x, are not
  asked, nor values that might underflow or overflow once they are scaled. That leaves float32 and float64.
The promises for the norms are those of _torch_layer_norm for LayerNorm; of a root's error, squares that underflow once they are
scaled take a hundredth of an ulp, since they move v + epsilon by less than 2^-29 of it.
The block itself is asked by _torch_encoder_block.
"""

import numpy as np
import torch

from ._forms import described, refuse
from . import _torch_script as script
from ._quotes import citing, quotes, told
from ._torch_call import HOST, RELEASE, TYPES, ask, use_threads, version
from ._torch_layer_norm import LayerNorm

DOCUMENTS = {"layer_norm": LayerNorm.documents["layer_norm"]} | quotes("""
docstring of torch.nn.TransformerEncoderLayer
    epsilon | the eps value in layer normalization components
    ! scaled down, these numbers may underflow or overflow ! the residual connection adds x, which hides numbers this small | if True, layer norm is done prior to attention and feedforward operations, respectively.
""")

DOWN = {"f32": 50, "f64": 300}  # the power of two that x is divided by
_LEAST, _MOST = 2.0**-20, 2.0**8  # range of x other than 0
_LEAST_EPSILON, _LEAST_GAMMA, _MOST_WEIGHT = 2.0**-20, 2.0**-10, 2.0**20
_KEPT_LAYERS = 16
_layers = {}


class EncoderNorm:
    """norm1 or norm2 of a layer."""

    documents = DOCUMENTS

    def __init__(self, name, norm):
        self.name, self.norm, self.version = f"torch:{name}", norm, version()

    def describe(self):
        return described("layer_norm", DOWN, {"dims": {"hidden": [1, 256, 1]}}, {**LayerNorm.contract, "rsqrt_ulp": 4},
                         documents=told(self.documents, citing(RELEASE)))

    def layer_norm(self, call):
        use_threads(call)
        refuse(not scalable(call), "scaled down, these numbers may underflow or overflow")
        down = 2.0 ** -DOWN[call.dtype]
        x = HOST.enter(call.x, call.dtype) * down
        made = layer(call.x.shape[1], call.dtype, self.norm)
        norm = getattr(made, f"norm{self.norm}")
        made.norm1.eps = made.norm2.eps = call.epsilon * down * down
        norm.weight.copy_(torch.tensor(1.0) if call.gamma is None else HOST.enter(call.gamma, call.param_dtype))
        norm.bias.copy_(torch.tensor(0.0) if call.beta is None else HOST.enter(call.beta, call.param_dtype))
        y = ask(lambda: made(x[:, None]))[:, 0]
        refuse(hidden_by(x, y, call), "the residual connection adds x, which hides numbers this small")
        out, dtype = HOST.leave(torch.where((y == x) & (x != 0), torch.zeros_like(y), y))
        if dtype != call.dtype:
            raise TypeError(f"{self.name} gave {dtype} for {call.dtype}")
        return HOST.end([(out, call.out)])

    def script(self, call, beside=None):
        return script.encoder_norm(self.norm, DOWN[call.dtype], call)


def scalable(call):
    size = np.abs(call.x[call.x != 0])
    gamma, beta = (np.abs(np.zeros(1) if weights is None else weights) for weights in (call.gamma, call.beta))
    return bool(np.all((size >= _LEAST) & (size <= _MOST)) and call.epsilon >= _LEAST_EPSILON and call.epsilon <= _MOST
                and np.all((gamma == 0) | ((gamma >= _LEAST_GAMMA) & (gamma <= _MOST_WEIGHT))) and np.all(beta <= _MOST_WEIGHT))


def hidden_by(x, y, call):
    """Whether x, as it was added, may have changed a normalised value, or stands for one that may be something else than 0: each is 0
    or at least 2^-54 of gamma, and beta beside it may be anything."""
    beta = torch.zeros(1) if call.beta is None else HOST.enter(call.beta, call.param_dtype)
    clear = y.abs() >= x.abs() * 2.0 ** (4 - np.log2(torch.finfo(y.dtype).eps))
    return not bool((clear | ((y == x) & (beta == 0)) | y.isnan()).all())


def layer(width, dtype, norm):
    """A layer of which all but that norm passes through what it gets, or gives nothing; some widths are kept."""
    key = (width, dtype, norm)
    if key not in _layers:
        if len(_layers) == _KEPT_LAYERS:
            _layers.clear()
        made = _layers[key] = torch.nn.TransformerEncoderLayer(
            width, 2 if width % 2 == 0 else 1, 2 * width, batch_first=True, norm_first=True, dtype=TYPES[dtype]).eval()
        for parameter in (*made.self_attn.parameters(), *made.linear1.parameters(), *made.linear2.parameters()):
            parameter.zero_()
        one = torch.eye(width, dtype=TYPES[dtype])
        if norm == 1:
            made.self_attn.in_proj_weight[2 * width:] = one
            made.self_attn.out_proj.weight.copy_(one)
        else:
            made.linear1.weight.copy_(torch.cat([one, -one]))
            made.linear2.weight.copy_(torch.cat([one, -one], 1))
    return _layers[key]
