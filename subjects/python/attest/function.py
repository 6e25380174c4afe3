"""@attest.subject: a Python function as a subject, with `supports` read off its signature."""
import difflib
import inspect

import numpy as np

from . import function_script
from .arrays import NumpyArrays, TorchArrays
from .device import DeviceArrays, with_mma
from .protocol import Unsupported

REGISTRY = []  # what the decorator has seen, in order

DTYPES = {"f16": "f16", "float16": "f16", "half": "f16", "bf16": "bf16", "bfloat16": "bf16",
          "f32": "f32", "float32": "f32", "float": "f32", "f64": "f64", "float64": "f64", "double": "f64"}
LSE = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}  # what a log-sum-exp is stored in

# Everything a function may take besides q, k and v.
OPTIONS = ("scale", "causal", "align", "bias", "keep", "kv_lengths", "softcap", "window_left", "window_right",
           "lse", "out", "threads", "form")


def subject(function=None, *, name=None, version="", dtypes=("float32",), contract=None, supports=None, documents=None,
            device=None, fork=True, plan_ms=None, warm_up_ms=None):
    """Declares a kernel under test: `@attest.subject(dtypes=["float16"], contract={"policy": "f16"})`.

    The function takes q, k, v and any of the keyword parameters of docs/worker.md ("A kernel in Python"), and returns
    out, or (out, lse) if it takes `lse` and is asked for it. Arrays are numpy's, or torch's if q is annotated with a
    torch type. What it has no parameter for is never asked. `supports` adds to what the signature says; `contract` is
    what the kernel promises, and `documents` where it says so. All three are the objects of docs/plugin.md. `device`, by
    torch's names ("cuda", "cuda:1", "xpu"): the function gets torch tensors there. fork=False: what is imported here does
    not survive a fork, and each process imports it anew. plan_ms, warm_up_ms: milliseconds that it spends on a plan or on
    compiling before the first call of a shape, and on the first call of a process. Returns the function unchanged.
    """
    def register(f):
        REGISTRY.append(FunctionSubject(f, name or f.__name__, version, dtypes, contract or {}, supports or {}, documents or {},
                                        device, fork, {"plan_ms": plan_ms, "warm_up_ms": warm_up_ms}))
        return f
    return register if function is None else register(function)


class FunctionSubject:
    def __init__(self, function, name, version, dtypes, contract, supports, documents, device=None, fork=True, times=None):
        self.fork = fork
        self.times = {key: ms for key, ms in (times or {}).items() if ms is not None}
        self.name, self.version = name, str(version)
        self.function, self.device = function, device
        self.dtypes = [dtype_name(name, dtype) for dtype in dtypes]
        self.contract, self.declared, self.documents = dict(contract), dict(supports), dict(documents)
        self.takes = option_names(name, function)
        self.first_forms = first_forms(name, self.declared.get("forms", {}), self.takes)
        self.corner_is_said = "align" in self.takes or "align" in self.declared
        self.arrays = DeviceArrays(device) if device else TorchArrays() if wants_torch(function) else NumpyArrays()
        # (parameter, Call -> value), bound once so that a call costs one pass over a list.
        self.bindings = [(option, getattr(self, "get_" + option)) for option in OPTIONS if option in self.takes]

    def describe(self):
        takes = self.takes
        supports = {feature: feature in takes for feature in ("causal", "bias", "keep", "kv_lengths", "softcap", "lse")}
        supports["window"] = "window_left" in takes
        supports["scale"] = "any" if "scale" in takes else "default"
        supports["gqa"] = False  # no parameter shows it: declare it with supports={"gqa": True}
        return {"ops": ["attention"], "dtypes": self.dtypes, "supports": {**supports, **self.declared},
                "contract": with_mma(self.contract, self.arrays.capability), "documents": self.documents, **self.times}

    def prepare(self):
        self.arrays.prepare()

    def attention(self, call):
        if not self.corner_is_said and corner_matters(call):
            raise Unsupported(f"{self.name} does not say which corner the diagonal starts from: take `align`, or "
                              'declare supports={"align": ["top_left"]}')
        place = self.arrays.begin(call)
        enter, dtype = place.enter, call.dtype
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, enter(call.q, dtype), enter(call.k, dtype), enter(call.v, dtype), **options)
        returned = []
        if "lse" in self.takes and call.lse is not None:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"{self.name} was asked for lse and did not return (out, lse)")
            result, lse = result
            returned.append((self.checked(place, "lse", lse, call.lse, None), place.target(call.lse, LSE[call.lse.dtype])))
        if result is not None or "out" not in self.takes:
            returned.append((self.checked(place, "out", result, call.out, dtype), place.target(call.out, dtype)))
        return place.end(returned)

    def checked(self, place, what, result, target, dtype):
        """A result of the shape and the dtype that the call's tensor has. A dtype of None accepts f32 and f64."""
        try:
            array, got = place.leave(result)
        except TypeError as error:
            raise TypeError(f"{self.name} returned {error} for {what}") from None
        if tuple(array.shape) != target.shape:
            raise ValueError(f"{self.name} returned {what} of shape {tuple(array.shape)} instead of {target.shape}")
        if got not in (("f32", "f64") if dtype is None else (dtype,)):
            wanted = "f32 or f64" if dtype is None else f"{dtype}: end with a conversion to the type of q"
            raise TypeError(f"{self.name} returned {what} as {got} instead of {wanted}")
        return array

    def script(self, call, beside):
        return function_script.source(self, call, beside)

    # What each option is given as: None stands for an absent tensor and an unbounded window. `place`: where tensors are to be.
    def get_scale(self, call, _place): return call.scale
    def get_causal(self, call, _place): return call.causal
    def get_align(self, call, _place): return ("top_left", "bottom_right")[call.align]
    def get_softcap(self, call, _place): return call.softcap
    def get_threads(self, call, _place): return call.threads
    def get_lse(self, call, _place): return call.lse is not None
    def get_window_left(self, call, _place): return None if call.window_left < 0 else call.window_left
    def get_window_right(self, call, _place): return None if call.window_right < 0 else call.window_right
    def get_bias(self, call, place): return None if call.bias is None else place.enter(call.bias, call.bias_dtype)
    def get_keep(self, call, place): return None if call.keep is None else place.enter(call.keep, "bool")
    def get_form(self, call, _place): return {**self.first_forms, **call.form}
    def get_out(self, call, place): return place.enter(call.out, call.dtype)

    def get_kv_lengths(self, call, place):
        return None if call.kv_lengths is None else place.enter(call.kv_lengths, "i32")


def corner_matters(call):
    """Whether top-left and bottom-right diagonals differ in this call."""
    if not call.causal and call.window_left < 0 and call.window_right < 0:
        return False
    rows, keys = call.q.shape[2], call.k.shape[2]
    return bool((call.kv_lengths != rows).any()) if call.kv_lengths is not None else rows != keys


def first_forms(subject_name, forms, takes):
    """Every form at its first value: what a call that says nothing of them means."""
    if forms and "form" not in takes:
        raise TypeError(f"{subject_name} declares forms and has no parameter `form` to be told which is meant")
    first = {}
    for form, values in forms.items():
        value = values[0] if isinstance(values, list) and values else None
        first[form] = value.get("value") if isinstance(value, dict) else value
    return first


def dtype_name(subject_name, dtype):
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).replace("torch.", "")
    if text not in DTYPES:
        raise ValueError(f"{subject_name}: dtype {text!r} is none of float16, bfloat16, float32, float64")
    return DTYPES[text]


def wants_torch(function):
    parameters = list(inspect.signature(function).parameters.values())
    annotation = parameters[0].annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__module__", "")
    return text.split(".")[0] == "torch"


def option_names(subject_name, function):
    """The options the function takes. Raises TypeError for a signature that no call could satisfy."""
    parameters = inspect.signature(function).parameters
    names = list(parameters)
    if names[:3] != ["q", "k", "v"]:
        raise TypeError(f"{subject_name} must take q, k, v first, and takes {', '.join(names[:3]) or 'nothing'}")
    for option in names[3:]:
        parameter = parameters[option]
        if option in OPTIONS or parameter.kind is parameter.VAR_KEYWORD:
            continue
        near = difflib.get_close_matches(option, OPTIONS, 1, 0.8)
        if near or parameter.default is parameter.empty:
            raise TypeError(f"{subject_name} takes {option!r}, which no call has"
                            + (f": did you mean {near[0]!r}?" if near else f"; calls have {', '.join(OPTIONS)}"))
    if ("window_left" in names) != ("window_right" in names):
        raise TypeError(f"{subject_name} takes one of window_left and window_right: take both or none")
    return frozenset(names).intersection(OPTIONS)
