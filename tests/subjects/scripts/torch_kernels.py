"""Subjects on torch tensors."""
import attest
import torch

ALL = ["float16", "bfloat16", "float32", "float64"]


@attest.subject(dtypes=ALL)
def echo(q: torch.Tensor, k, v, *, scale):
    """v's first key plus q's first element."""
    return v[:, :, :1, :] + q[..., :1]


@attest.subject(dtypes=ALL)
def facts(q: torch.Tensor, k, v, *, scale, out, bias=None, keep=None, kv_lengths=None):
    """Writes into out how the tensors came."""
    out.zero_()
    said = [q.data_ptr() % 256, *v.stride()[2:], float(bias.sum()), int(keep.sum()), keep.dtype == torch.bool,
            int(kv_lengths[0])]
    out[0, 0, 0, :len(said)] = torch.tensor(said, dtype=torch.float64)


@attest.subject(dtypes=ALL)
def wrong_type(q: torch.Tensor, k, v, *, scale):
    return (v[:, :, :1, :] + q[..., :1]).to(torch.int32)
