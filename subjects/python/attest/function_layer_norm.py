"""A Python function as a subject of layer_norm."""
from .function_base import Function


class LayerNormFunction(Function):
    op = "layer_norm"
    LEADING, SECOND, NUMBERS = ("x",), "sum_out", ("epsilon",)
    OPTIONS = ("residual", "gamma", "beta", "epsilon", "rms", "sum_out", "out", "threads")

    def option_names(self):
        names = super().option_names()
        if "epsilon" not in names:
            raise TypeError(f"{self.name} must take epsilon: every call has its own")
        if "sum_out" in names and "residual" not in names:
            raise TypeError(f"{self.name} takes sum_out without a residual, and there is no sum: take both")
        return names

    def offers(self):
        # No parameter shows a function that does RMSNorm alone: declare it with supports={"norms": ["rms"]}.
        return {"norms": ["layer", "rms"] if "rms" in self.takes else ["layer"],
                **{feature: feature in self.takes for feature in ("residual", "sum_out", "gamma", "beta")}}

    def layer_norm(self, call):
        place = self.arrays.begin(call)
        options = {option: get(call, place) for option, get in self.bindings}
        result = place.run(self.function, place.enter(call.x, call.dtype), **options)
        return place.end(self.results(place, result, call, self.SECOND, call.dtype, (call.dtype,)))

    def tensor_types(self, call):
        return {"x": call.dtype, "residual": call.dtype, "gamma": call.param_dtype, "beta": call.param_dtype}

    # The argument for each option: None stands for an absent tensor. `place`: where tensors are to be.
    def get_epsilon(self, call, _place): return call.epsilon
    def get_rms(self, call, _place): return call.rms
    def get_sum_out(self, call, _place): return call.sum_out is not None
    def get_residual(self, call, place): return None if call.residual is None else place.enter(call.residual, call.dtype)
    def get_gamma(self, call, place): return None if call.gamma is None else place.enter(call.gamma, call.param_dtype)
    def get_beta(self, call, place): return None if call.beta is None else place.enter(call.beta, call.param_dtype)
