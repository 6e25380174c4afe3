"""Python functions of any operation as subjects: `supports` is read off the signature."""
import difflib
import inspect

from . import function_script
from .arrays import NumpyArrays, TorchArrays
from .device import DeviceArrays, with_mma
from .formats import FLOATS, ROWS
from .protocol import Unsupported

DTYPES = {"half": "f16", "float": "f32", "double": "f64",
          **{name: dtype for dtype in FLOATS for name in (dtype, ROWS[dtype].library)}}


class Function:
    """A subject that calls a Python function. A subclass has

    op         the operation
    LEADING    the names of the tensors that the function takes first
    SECOND     the name of the output beside `out`, None where there is none
    NUMBERS    those of its options that a script has in scope by their names
    OPTIONS    everything that it may take besides: what the call has by that name, or get_OPTION(call, place)
    TENSORS    each tensor that it may take -> its type, or the call's attribute that has it
    ASKED      options that say whether the call has an output of that name
    offers()   what the signature says of `supports`

    and a method of the operation's name that answers a call.
    """

    def __init__(self, function, name, version, dtypes, contract, supports, documents, device=None, fork=True, times=None):
        self.fork = fork
        self.times = {key: ms for key, ms in (times or {}).items() if ms is not None}
        self.name, self.version = name, str(version)
        self.function, self.device = function, device
        self.dtypes = [dtype_name(name, dtype) for dtype in dtypes]
        self.contract, self.declared, self.documents = dict(contract), dict(supports), dict(documents)
        self.takes = self.option_names()
        self.arrays = DeviceArrays(device) if device else TorchArrays() if wants_torch(function) else NumpyArrays()
        # (parameter, (Call, place) -> value), bound once so that a call costs one pass over a list.
        self.bindings = [(option, self.getter(option)) for option in self.OPTIONS if option in self.takes]
        self.corner_is_said = "align" in self.takes or "align" in self.declared

    def getter(self, option):
        """The argument for an option: None stands for an absent tensor."""
        if own := getattr(self, "get_" + option, None):
            return own
        if kind := self.TENSORS.get(option):
            def tensor(call, place):
                view = getattr(call, option)
                return None if view is None else place.enter(view, getattr(call, kind, kind))
            return tensor
        if option in self.ASKED:
            return lambda call, _place: getattr(call, option) is not None
        return lambda call, _place: getattr(call, option)

    def tensor_types(self, call):
        return {name: getattr(call, kind, kind) for name, kind in self.TENSORS.items()}

    def check_corner(self, call):
        """Raises Unsupported for a call in which top-left and bottom-right diagonals differ, if the function does not say which it takes."""
        if not self.corner_is_said and self.corner_matters(call):
            raise Unsupported(f"{self.name} does not say which corner the diagonal starts from: take `align`, or "
                              'declare supports={"align": ["top_left"]}')

    def describe(self):
        return {"ops": [self.op], "dtypes": self.dtypes, "supports": {**self.offers(), **self.declared},
                "contract": self.promised(), "documents": self.documents, **({"device": self.device} if self.device else {}), **self.times}

    def asked(self, _call):
        """The stages that the call asks for, by the names under which the function returns them."""
        return ()

    def script(self, call, beside):
        return function_script.source(self, call, beside)

    def promised(self):
        return with_mma(self.contract, self.arrays.capability)

    def prepare(self):
        self.arrays.prepare()

    def option_names(self):
        """The options the function takes. Raises TypeError for a signature that no call could satisfy."""
        parameters = inspect.signature(self.function).parameters
        names, first = list(parameters), len(self.LEADING)
        if tuple(names[:first]) != self.LEADING:
            raise TypeError(f"{self.name} must take {', '.join(self.LEADING)} first, and takes "
                            f"{', '.join(names[:first]) or 'nothing'}")
        for option in names[first:]:
            parameter = parameters[option]
            if option in self.OPTIONS or parameter.kind is parameter.VAR_KEYWORD:
                continue
            near = difflib.get_close_matches(option, self.OPTIONS, 1, 0.8)
            if near or parameter.default is parameter.empty:
                raise TypeError(f"{self.name} takes {option!r}, which no call has"
                                + (f": did you mean {near[0]!r}?" if near else f"; calls have {', '.join(self.OPTIONS)}"))
        return frozenset(names).intersection(self.OPTIONS)

    def results(self, place, result, call, second, stored, accepted):
        """(array, where it goes) of what the function returned: out, or (out, `second`) where the call has a tensor of that
        name, of the type `stored`, for which the types `accepted` may be returned. `second` None: out alone."""
        returned, target = [], getattr(call, second) if second else None
        if second in self.takes and target is not None:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError(f"{self.name} was asked for {second} and did not return (out, {second})")
            result, other = result
            returned.append((self.checked(place, second, other, target, accepted), place.target(target, stored)))
        if result is not None or "out" not in self.takes:
            dtype = call.dtype
            returned.append((self.checked(place, "out", result, call.out, (dtype,)), place.target(call.out, dtype)))
        return returned

    def checked(self, place, what, result, target, accepted):
        """A result of the shape that the call's tensor has, and of one of the types `accepted`."""
        try:
            array, got = place.leave(result)
        except TypeError as error:
            raise TypeError(f"{self.name} returned {error} for {what}") from None
        if tuple(array.shape) != target.shape:
            raise ValueError(f"{self.name} returned {what} of shape {tuple(array.shape)} instead of {target.shape}")
        if got not in accepted:
            hint = "" if len(accepted) > 1 else f": end with a conversion to the type of {self.LEADING[0]}"
            raise TypeError(f"{self.name} returned {what} as {got} instead of {' or '.join(accepted)}{hint}")
        return array

    def get_align(self, call, _place): return ("top_left", "bottom_right")[call.align]
    def get_out(self, call, place): return place.enter(call.out, call.dtype)


def lengths_differ(rows, keys, kv_lengths):
    """Whether some sample has another number of keys than there are rows."""
    return bool((kv_lengths != rows).any()) if kv_lengths is not None else rows != keys


def dtype_name(subject_name, dtype):
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype)).replace("torch.", "")
    if text not in DTYPES:
        raise ValueError(f"{subject_name}: dtype {text!r} is none of {', '.join(ROWS[dtype].library for dtype in FLOATS)}")
    return DTYPES[text]


def wants_torch(function):
    parameters = list(inspect.signature(function).parameters.values())
    annotation = parameters[0].annotation if parameters else ""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__module__", "")
    return text.split(".")[0] == "torch"
