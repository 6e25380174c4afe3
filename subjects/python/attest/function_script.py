"""A user's own function as lines of Python that import it and call it: what `attest export --to python` pastes."""
import os
import sys

from .arrays import TorchArrays
from .formats import ROWS, is_coded

ALIGNMENT = 64  # to which attest aligns what a problem does not misalign

IMPORT = """\
# the kernel, from its own script
import importlib.util, pathlib, sys, types
path = (pathlib.Path(sys.argv[0]).resolve().parent / {path!r}).resolve()
if not path.is_file():
    raise SystemExit(f"there is no {{path}}: put the kernel's script there, or change the line that names it")
try:
    from attest import subject
except ImportError:  # what such a script uses of it
    attest = sys.modules["attest"] = types.ModuleType("attest")
    attest.subject = lambda function=None, **_: function or (lambda f: f)
    attest.Unsupported = attest.Refused = type("Unsupported", (Exception,), {{}})
if "subject_script" not in sys.modules:  # several calls share what the script keeps
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location("subject_script", path)
    sys.modules["subject_script"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["subject_script"])
script = sys.modules["subject_script"]
"""

LAID_OUT = '''

def laid_out(array, strides, offset):
    """The elements with these strides, `offset` bytes past an address that 64 divides, NaN to whoever reads the gaps."""
    size = sum((n - 1) * s for n, s in zip(array.shape, strides)) + array.itemsize if array.size else 1
    memory = np.full(size + 128, 255, np.uint8)
    view = np.ndarray(array.shape, array.dtype, memory, -memory.ctypes.data % 64 + offset, strides)
    view[...] = array
    return view

'''

ON_DEVICE = '''

def on_device(array):
    """The array on the device, with its strides, its address modulo 256 and what lies in its gaps."""
    if array.size == 0:
        return torch.from_numpy(array).to({device!r})
    first = array.ctypes.data // 256 * 256
    last = array.ctypes.data + sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize
    memory = np.zeros((last - first + 7) // 8 * 8, np.uint8)
    memory[:last - first] = np.frombuffer((ctypes.c_ubyte * (last - first)).from_address(first), np.uint8)
    room = torch.empty(len(memory) + 256, dtype=torch.uint8, device={device!r})
    there = room[-room.data_ptr() % 256:][:len(memory)]
    there.copy_(torch.from_numpy(memory))
    there = there.view(torch.from_numpy(array).dtype)
    offset = there.storage_offset() + (array.ctypes.data - first) // array.itemsize
    return torch.as_strided(there, array.shape, [s // array.itemsize for s in array.strides], offset)

'''


def source(subject, call, beside):
    """Lines that expect the call's arrays and numbers in scope by their names, bfloat16 ones as float32, and leave its output in
    `got`, and stages that the call asks for in `given` by their names. Empty if the function is no name of its module."""
    function = getattr(subject.function, "__name__", "")
    module = sys.modules.get(subject.function.__module__)
    file = getattr(module, "__file__", None)
    if file is None or not function.isidentifier() or not callable(getattr(module, function, None)):
        return ""
    types = subject.tensor_types(call)
    if "out" in subject.takes:
        types["out"] = call.dtype
    tensors = {name: getattr(call, name) for name in types if getattr(call, name) is not None}
    exactly = any(not view.flags.c_contiguous or view.ctypes.data % ALIGNMENT for view in tensors.values())
    given = {name: tensor(subject, name, view, types[name], exactly) for name, view in tensors.items()}
    arguments = [given[name] for name in subject.LEADING]
    for option, value in subject.bindings:
        text = option if option in (*subject.NUMBERS, "out") else given.get(option) or repr(value(call, subject.arrays))
        arguments.append(f"{option}={text}")
    lines = IMPORT.format(path=os.path.relpath(file, beside))
    if isinstance(subject.arrays, TorchArrays):
        lines += "import torch\n"
    if any("ml_dtypes" in argument for argument in arguments):
        lines += "import ml_dtypes\n"
    if exactly:
        lines += LAID_OUT
    if subject.device:
        lines += ("" if exactly else "\n") + "import ctypes\n" + ON_DEVICE.format(device=subject.device)
    if "out" in subject.takes:
        lines += f"out = np.full({call.out.shape}, np.nan, np.{'float32' if is_coded(call.dtype) else ROWS[call.dtype].library})\n"
        lines += f"out = {given['out']}\n"
    stages = subject.asked(call)
    lines += f"got{', given' if stages else ''} = script.{function}({', '.join(arguments)})\n"
    if subject.SECOND in subject.takes and getattr(call, subject.SECOND) is not None:
        lines += "got = got[0]\n"
    if "out" in subject.takes:
        lines += "got = out if got is None else got\n"
    def told(array, dtype):
        if isinstance(subject.arrays, TorchArrays):
            return f"{array}.detach().cpu(){'.float()' if is_coded(dtype) else ''}.numpy()"
        return f"{array}.astype(np.float32)" if is_coded(dtype) else array
    if told("got", call.dtype) != "got":
        lines += f"got = {told('got', call.dtype)}\n"
    if stages and told("stage", call.stage_dtype) != "stage":
        lines += f"given = {{name: {told('stage', call.stage_dtype)} for name, stage in given.items()}}\n"
    return lines


def tensor(subject, name, view, dtype, exactly):
    """Python that makes the array `name` what the function was given: its type and, `exactly`, its strides and its alignment."""
    text = name
    if is_coded(dtype):
        text = f"({name}.view(np.uint32) >> 16).astype(np.uint16).view(np.int16)"
    if exactly:
        text = f"laid_out({text}, {view.strides}, {view.ctypes.data % ALIGNMENT})"
    if isinstance(subject.arrays, TorchArrays):
        make = "on_device" if subject.device else "torch.from_numpy"
        return f"{make}({text})" + (f".view(torch.{ROWS[dtype].library})" if is_coded(dtype) else "")
    return text + (f".view(ml_dtypes.{ROWS[dtype].library})" if is_coded(dtype) else "")
