"""Calls on a device: what a kernel there sees, and what comes back. The host's own memory stands in for the device's where torch
has none: copies, strides, alignment and guards are the same, streams and events are not."""

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

from need_package import need

need("torch", "it is never part of ./run test, ./run fuzz torch:sdpa installs it")

import numpy as np
import torch

from attention_calls import BOTTOM_RIGHT, POISON, call, far, in_an_arena, script_output, stored
from attest import subject
from attest import device as devices
from attest.device import DeviceArrays, OutOfOrder
from attest.function import REGISTRY
from attest.protocol import Broken

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def attention(q, k, v, *, scale, causal=False, align="top_left", bias=None, keep=None, kv_lengths=None, lse=False):
    score = scale * (q.double() @ k.double().transpose(2, 3))
    if bias is not None:
        score = score + bias.double()
    rows, keys = score.shape[-2:]
    open_keys = torch.ones(score.shape, dtype=torch.bool, device=q.device) if keep is None else keep.clone()
    lengths = torch.full((len(q),), keys, device=q.device) if kv_lengths is None else kv_lengths
    lengths = lengths[:, None, None, None]
    j, i = torch.arange(keys, device=q.device), torch.arange(rows, device=q.device)[:, None]
    open_keys &= j < lengths
    if causal:
        open_keys &= j <= i + (lengths - rows if align == "bottom_right" else 0)
    score = score.masked_fill(~open_keys, -torch.inf)
    out = (torch.softmax(score, -1).nan_to_num() @ v.double()).to(q.dtype)
    return (out, torch.logsumexp(score, -1).float()) if lse else out


def declared(function, **options):
    subject(name=f"{function.__name__}{len(REGISTRY)}", dtypes=["f16", "bf16", "f32", "f64"], **options)(function)
    return REGISTRY[-1]


class Device(unittest.TestCase):
    def test_a_call_is_answered_as_on_the_host(self):
        problems = [
            dict(), dict(b=2, hq=3, lq=5, lk=7, d=3, dv=6), dict(causal=True, align=BOTTOM_RIGHT, lq=2, lk=5),
            dict(b=2, lq=3, lk=5, kv_lengths=np.array([2, 5], np.int32)),
            dict(lq=2, lk=3, keep=np.array([[1, 0, 1], [0, 1, 1]], bool), bias=np.linspace(-2, 2, 6).reshape(2, 3)),
        ]
        for device in DEVICES:
            moved = declared(attention, device=device)
            for dtype in ("f16", "bf16", "f32", "f64"):
                for problem in problems:
                    if "bias" in problem:
                        problem = problem | {"bias": stored(problem["bias"], dtype)}
                    for shift in (0, 1, 3):
                        with self.subTest(device=device, dtype=dtype, problem=problem, shift=shift):
                            c = call(dtype=dtype, **problem)
                            c.lse = np.full(c.q.shape[:3], np.nan, np.float32)
                            memory = in_an_arena(c, shift)
                            moved.attention(c)
                            self.assertFalse(far(c))
                            self.assertFalse(np.isnan(c.lse).any())
                            self.assertTrue((memory[:c.q.ctypes.data - memory.ctypes.data] == POISON).all())

    def test_memory_stays_from_call_to_call_and_grows(self):
        for device in DEVICES:
            moved = declared(attention, device=device)
            rooms = []
            for lk in (3, 1 << 17, 3, 1 << 17, 5):
                c = call(lk=lk, d=3)
                in_an_arena(c, 1)
                moved.attention(c)
                self.assertFalse(far(c))
                rooms.append(moved.arrays.room)
            self.assertIsNot(rooms[0], rooms[1])
            self.assertEqual(rooms[1:], [rooms[1]] * 4)

    def test_strides_and_addresses_are_those_of_the_call(self):
        seen = {}

        def looks(q, k, v, *, bias=None, out):
            for name, tensor in dict(q=q, k=k, v=v, bias=bias, out=out).items():
                seen[name] = tensor.data_ptr() % 256, [s * tensor.element_size() for s in tensor.stride()], tensor.shape
            out.zero_()

        for device in DEVICES:
            moved = declared(looks, device=device)
            for shift in (0, 1, 5):
                c = call(b=2, hq=2, lq=3, lk=4, d=5, dtype="f16", bias=np.zeros((1, 1, 3, 4), np.float16))
                c.q = c.q.transpose(0, 2, 1, 3).copy().transpose(0, 2, 1, 3)
                in_an_arena(c, shift)
                moved.attention(c)
                for name, (address, strides, shape) in seen.items():
                    here = getattr(c, name)
                    self.assertEqual((address, strides, shape), (here.ctypes.data % 256, list(here.strides), here.shape), name)
                self.assertEqual(c.bias.strides[0], 0)
                self.assertTrue((c.out == 0).all())

    def test_what_a_kernel_writes_elsewhere_comes_back(self):
        def strays(q, k, v, *, out):
            out.zero_()
            torch.as_strided(out, (1,), (1,), out.storage_offset() + out.numel()).fill_(1)  # one element behind the last
            q.fill_(2)

        for device in DEVICES:
            c = call(lq=2, d=3, dtype="f32")
            memory = in_an_arena(c)
            declared(strays, device=device).attention(c)
            behind = c.out.ctypes.data - memory.ctypes.data + c.out.nbytes
            self.assertEqual(memory[behind:behind + 4].view(np.float32)[0], 1)
            self.assertTrue((memory[behind + 4:behind + 256] == POISON).all())
            self.assertTrue((c.q == 2).all())

    def test_results_of_the_wrong_kind_are_told(self):
        for result, told in ((lambda q: 3, "returned int"), (lambda q: q[..., :1], "of shape"), (lambda q: q.half(), "as f16")):
            def wrong(q, k, v):
                return result(q)
            c = call(d=3)
            in_an_arena(c)
            with self.assertRaisesRegex((TypeError, ValueError), told):
                declared(wrong, device="cpu").attention(c)

    def test_a_result_that_comes_late_is_told(self):
        for late in (True, False):
            for shown in (lambda result: result, lambda result: result.double(), lambda result: result.mT.contiguous().mT):
                c = call(d=3)
                in_an_arena(c)
                place = DeviceArrays("cpu").begin(c)
                result = shown(torch.ones(c.out.shape))

                def synchronize(_device):  # another stream has not yet written it when the caller's is done
                    if late:
                        result.fill_(2)

                place.arrays.module = SimpleNamespace(synchronize=synchronize)
                place.times = [SimpleNamespace(elapsed_time=lambda _end: 0)] * 2
                if late:
                    with self.assertRaisesRegex(OutOfOrder, "does not wait"):
                        place.end([(result, place.target(c.out, "f32"))])
                else:
                    place.end([(result, place.target(c.out, "f32"))])
                self.assertTrue((c.out == 1 + late).all())

    def test_an_error_of_the_device_ends_the_process(self):
        def raises(text):
            raise RuntimeError(text)

        c = call()
        in_an_arena(c)
        place = DeviceArrays("cpu").begin(c)
        with self.assertRaisesRegex(Broken, "misaligned"):
            place.guarded(lambda: raises("CUDA error: misaligned address"))
        with self.assertRaisesRegex(RuntimeError, "out of paper"):
            place.guarded(lambda: raises("out of paper"))

    def test_a_device_that_is_not_there_is_named(self):
        if torch.cuda.is_available():
            self.skipTest("there is one")
        with self.assertRaisesRegex(RuntimeError, "finds no device 'cuda:3'"):
            declared(attention, device="cuda:3")

    def test_the_exported_script_moves_its_tensors_too(self):
        for device in DEVICES:
            moved = declared(attention, device=device)
            for dtype in ("f32", "bf16"):
                c = call(b=2, hq=2, lq=3, lk=4, d=5, dtype=dtype)
                c.k = c.k.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)
                in_an_arena(c, 1)
                source = moved.script(c, Path(__file__).parent).replace("sys.argv[0]", repr(__file__))
                moved.attention(c)
                want = c.out if dtype != "bf16" else (c.out.astype(np.uint32) << 16).view(np.float32)
                np.testing.assert_array_equal(script_output(source, c), want)


class TensorCores(unittest.TestCase):
    """The contract of a kernel on a device has the generation's own sums, unless it says how they are rounded."""

    def test_each_generation_has_a_name(self):
        expected = {(7, 0): "volta", (7, 5): "turing", (8, 0): "ampere", (8, 9): "ada", (9, 0): "hopper", (10, 0): "blackwell",
                    (12, 0): "blackwell", (6, 1): None, (99, 0): None}
        self.assertEqual({capability: devices.mma_of(capability) for capability in expected}, expected)

    def test_a_contract_that_does_not_say_how_sums_are_rounded_gets_it(self):
        self.assertEqual(devices.with_mma({"policy": "f16"}, (8, 0)), {"policy": "f16", "mma": "ampere"})

    def test_a_contract_that_says_more_stays_as_it_is(self):
        for contract in ({"kappa": 1}, {"mma": "volta"}):
            self.assertEqual(devices.with_mma(contract, (9, 0)), contract)

    def test_without_tensor_cores_nothing_is_added(self):
        for capability in (None, (6, 1)):
            self.assertEqual(devices.with_mma({}, capability), {})

    def test_a_subject_on_a_device_is_described_with_it(self):
        moved = declared(attention, device="cpu", contract={"policy": "f32"})
        self.assertEqual(moved.describe()["contract"], {"policy": "f32"})
        moved.arrays.capability = (9, 0)
        self.assertEqual(moved.describe()["contract"], {"policy": "f32", "mma": "hopper"})


if __name__ == "__main__":
    sys.argv[1:] = []
    unittest.main()
