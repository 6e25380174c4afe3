"""Keras's normalisations on the CPU: the layers LayerNormalization and RMSNormalization and the operations
layer_normalization and rms_normalization.

Documents: their docstrings in keras 3.15.1, the text of https://keras.io/api/layers/normalization_layers/ and
https://keras.io/api/ops/nn/, one for all backends. They are read as follows:
- LayerNormalization: the equations of its docstring, biased variance, epsilon "added to variance"; they do not say how the
  variance is summed. The bound is that of the way each backend goes, which the source says: moments() of NumPy "is computed
  using $Var = E[|x|^2] - |E[x]|^2$, It is faster but less numerically stable", in one pass (keras-numpy-2 of
  docs/findings.md); those of JAX and TensorFlow go over x - mean; PyTorch's own layer_norm is called on PyTorch. But there x
  is scaled and shifted, gamma in the scale;
- rms_normalization: "x * rsqrt(mean(square(x))) * scale", to which epsilon is added where "a small number to avoid division
  by zero" has to be. An absent gamma is a scale of ones in the layer;
- types: of mixed_float16 and mixed_bfloat16 "variables are float32", so layers have gamma and beta of float32, too.
- LayerNormalization-as-written: the layer under the other reading, that the equation for var_i, sum((x_i[j] - mean_i) ** 2), is the
  way it is computed, in two passes.
Nothing is said on precision, NaN, repeated calls, batches: nothing is claimed. float64 is offered on TensorFlow alone, as in
_keras_sdpa. On the reciprocal root 4 ulp are left to XLA and TensorFlow.
"""

import keras
import ml_dtypes
import numpy as np

from attest import Refused
from attest.formats import bits, numbers

from ._array_sdpa import STORED
from ._forms import described
from ._quotes import citing, quotes, told

_OF_LAYER = quotes("""
docstring of keras.layers.LayerNormalization
    layer_norm | x_i_normalized = (x_i - mean_i) / sqrt(var_i + epsilon)
    layer_norm as_written | var_i = sum((x_i[j] - mean_i) ** 2 for j in range(k)) / k
    epsilon | Small float added to variance to avoid dividing by zero.
    gamma | output_i = x_i_normalized * gamma + beta
""")
_VARIANCE = {"variance": _OF_LAYER.pop("as_written")}
_OF_OPERATION = quotes("""
docstring of keras.ops.layer_normalization
    layer_norm | applies a transformation that maintains the mean activation within each example close to 0 and the activation standard deviation close to 1.
    epsilon | A lower bound value for the norm.
""")
_OF_RMS_OPERATION = quotes("""
docstring of keras.ops.rms_normalization
    layer_norm | It is defined as rms_normalization(x) = x * rsqrt(mean(square(x))) * scale
    epsilon | A lower bound value for the norm.
""")
_OF_RMS = quotes("""
docstring of keras.layers.RMSNormalization
    layer_norm | rms_normalization(x) = x * rsqrt(mean(square(x))) * scale
    epsilon | A small number to add to avoid division by zero.
""")

_KEPT_CALLS = 512  # compiled operations, one for each shape
_XLA = {"rsqrt_ulp": 4, "flush_to_zero": True}
_TORCH = {"flush_to_zero": {"bf16": True}}
_WELFORD = {"variance": "welford", "merge": "delta", "merge_depth": 64, "form": "scale_bias"}  # as in _torch_layer_norm
_LAYER_CONTRACTS = {
    "numpy": {"variance": "one_pass", "form": "folded"},
    "jax": {"variance": "two_pass", "form": "folded", **_XLA},
    "tensorflow": {"variance": "two_pass", "form": "folded", **_XLA},
    "torch": _WELFORD | _TORCH,
}
_RMS_CONTRACTS = {"numpy": {}, "jax": _XLA, "tensorflow": _XLA, "torch": _TORCH}


class Norm:
    """One layer or operation on a backend. A subclass says `rms`, `documents` and normalised(x, gamma, beta, call)."""

    def __init__(self, backend, name):
        if keras.config.backend() != backend:
            raise RuntimeError(f"this process has Keras on {keras.config.backend()} already, and there is one backend a process")
        self.name, self.backend = f"keras:{backend}-{name}", backend
        self.version = f"keras {keras.__version__}, {backend} {__import__(backend).__version__}"
        self.dtypes = ["f32", "bf16", "f16"] + (["f64"] if backend == "tensorflow" else [])
        self.layers, self.calls = {}, 0

    def describe(self):
        supports = {"norms": ["rms" if self.rms else "layer"], "beta": not self.rms, "param_dtypes": ["same", "f32"],
                    "dims": {"rows": [0, None, 1]}}
        return described("layer_norm", self.dtypes, supports, self.promised(), plan_ms=self.plan_ms(),
                         documents=told(self.documents, citing("keras 3.15.1")))

    def promised(self):
        return (_RMS_CONTRACTS if self.rms else _LAYER_CONTRACTS)[self.backend]

    def plan_ms(self):
        return 60 if self.backend == "jax" else 0  # each operation is compiled for each shape

    def layer_norm(self, call):
        self.calls += 1
        if self.backend == "jax" and self.calls % _KEPT_CALLS == 0:
            import jax
            jax.clear_caches()
        try:
            y = self.normalised(tensor(call.x, call.dtype), *(
                None if view is None else tensor(view, call.param_dtype) for view in (call.gamma, call.beta)), call)
            array = numpy_of(y)
        except Exception as error:  # Keras and its backends raise many types
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            raise Refused(f"keras: {type(error).__name__}: {lines[0] if lines else 'no reason given'}") from error
        if array.dtype.name != STORED[call.dtype]:
            raise TypeError(f"{self.name} gave {array.dtype.name} for {STORED[call.dtype]}")
        call.out[...] = bits(array, call.dtype)

    def script(self, call, beside=None):
        made = lambda name, dtype: f'keras.ops.convert_to_tensor({name}, "{STORED[dtype]}")'
        given = {name: "None" if getattr(call, name) is None else made(name, call.param_dtype) for name in ("gamma", "beta")}
        return (f'import os\nos.environ["KERAS_BACKEND"] = "{self.backend}"\nimport keras\n'
                f'x, gamma, beta = {made("x", call.dtype)}, {given["gamma"]}, {given["beta"]}\n'
                f'try:\n{self.called(call)}'
                'except Exception as error:\n    raise SystemExit(f"refused: {error}")\n'
                "got = np.asarray(keras.ops.convert_to_numpy(got), np.float64)\n")


class LayerOperation(Norm):
    """keras.ops.layer_normalization."""

    rms, documents = False, _OF_OPERATION

    def normalised(self, x, gamma, beta, call):
        return keras.ops.layer_normalization(x, gamma, beta, axis=-1, epsilon=call.epsilon)

    def called(self, call):
        return "    got = keras.ops.layer_normalization(x, gamma, beta, axis=-1, epsilon=epsilon)\n"


class RmsOperation(Norm):
    """keras.ops.rms_normalization."""

    rms, documents = True, _OF_RMS_OPERATION

    def normalised(self, x, gamma, beta, call):
        return keras.ops.rms_normalization(x, gamma, axis=-1, epsilon=call.epsilon)

    def called(self, call):
        return "    got = keras.ops.rms_normalization(x, gamma, axis=-1, epsilon=epsilon)\n"


class Layer(Norm):
    """A layer, of which each kind and width is built once. A subclass says `kind` and arguments(call)."""

    def normalised(self, x, gamma, beta, call):
        arguments = self.arguments(call)
        key = (call.x.shape[1], *arguments.items())
        if key not in self.layers:
            if len(self.layers) == 64:
                self.layers.clear()
            self.layers[key] = self.kind(epsilon=call.epsilon, **arguments)
            self.layers[key].build((None, call.x.shape[1]))
        layer = self.layers[key]
        layer.epsilon = call.epsilon
        layer.set_weights([numpy_of(weight) for weight in (gamma, beta) if weight is not None] or
                          [np.ones(weight.shape, np.float32) for weight in layer.weights])
        return layer(x)

    def called(self, call):
        arguments = "".join(f", {name}={value!r}" for name, value in self.arguments(call).items())
        weights = ", ".join(name for name in ("gamma", "beta") if getattr(call, name) is not None)
        fill = f"    layer.set_weights([keras.ops.convert_to_numpy(w) for w in ({weights},)])\n" if weights else ""
        return (f"    layer = keras.layers.{self.kind.__name__}(epsilon=epsilon{arguments})\n"
                f"    layer.build((None, {call.x.shape[1]}))\n{fill}    got = layer(x)\n")


class LayerNormalization(Layer):
    rms, documents, kind = False, _OF_LAYER, keras.layers.LayerNormalization

    def arguments(self, call):
        return {"center": call.beta is not None, "scale": call.gamma is not None, "dtype": policy(call)}


class AsWritten(LayerNormalization):
    documents = _OF_LAYER | _VARIANCE

    def promised(self):
        return super().promised() | {"variance": "two_pass"}


class RMSNormalization(Layer):
    rms, documents, kind = True, _OF_RMS, keras.layers.RMSNormalization

    def arguments(self, call):
        return {"dtype": policy(call)}


NORMS = {"LayerNormalization": LayerNormalization, "LayerNormalization-as-written": AsWritten, "layer_normalization": LayerOperation,
         "RMSNormalization": RMSNormalization, "rms_normalization": RmsOperation}


def policy(call):
    """The layer's dtype: that of x, mixed where its weights are float32."""
    mixed = call.param_dtype == "f32" and call.dtype in ("f16", "bf16")
    return f"mixed_{STORED[call.dtype]}" if mixed else STORED[call.dtype]


def tensor(view, dtype):
    return keras.ops.convert_to_tensor(numbers(view, dtype), STORED[dtype])


def numpy_of(t):
    """Its numbers; bfloat16, which Keras gives as float32 on some backends, as its own type."""
    array = np.asarray(keras.ops.convert_to_numpy(t))
    return array.astype(ml_dtypes.bfloat16) if keras.backend.standardize_dtype(t.dtype) == "bfloat16" else array
