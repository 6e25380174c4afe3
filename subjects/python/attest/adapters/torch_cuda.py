"""Subjects torch-cuda:NAME: the attention of PyTorch on a GPU of NVIDIA's.

The contracts, with the sentences of the documents they come from, are in _torch_NAME.py and _torch_cuda_sdpa.py. Each call goes
to the device in one copy, with its strides, its addresses modulo 256, its poison and its guards (attest.device).
"""

from functools import partial

from ._torch_cuda_others import CudaCompiled, CudaExplicit, CudaFlex
from ._torch_cuda_sdpa import CudaCudnn, CudaEfficient, CudaFlash, CudaFlashLse, CudaMath, CudaSdpa

KINDS = {
    "default": CudaSdpa,
    "math": CudaMath,
    "flash": CudaFlash,
    "flash-lse": CudaFlashLse,
    "efficient": CudaEfficient,
    "cudnn": CudaCudnn,
    "explicit": CudaExplicit,
    "compiled": CudaCompiled,
    "flex": CudaFlex,
}

SUBJECTS = {name: partial(kind, name, device="cuda") for name, kind in KINDS.items()}
