"""ONNX Runtime, at each level of its graph optimisations; on the CPU, unless a build names another provider that is there."""
import re

import onnxruntime

import attest

LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}
CPU = "CPUExecutionProvider"


def builds():
    """Levels on the CPU by their own names, on another provider as LEVEL+PROVIDER."""
    others = [one for one in onnxruntime.get_available_providers() if one not in (CPU, "AzureExecutionProvider")]
    return [*LEVELS, *(f"{level}+{provider}" for provider in others for level in LEVELS)]


@attest.runtime(name="onnxruntime", version=onnxruntime.__version__, builds=builds())
def load(model, *, build, threads):
    level, _, provider = build.partition("+")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised; a second copy on stderr helps nobody
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        session = onnxruntime.InferenceSession(model, options, providers=[provider, CPU] if provider else [CPU])
    except Exception as error:  # onnxruntime's exception types share no public base class
        raise attest.Refused(reason(error)) from error
    types = {one.name: one.type for one in (*session.get_inputs(), *session.get_outputs())}

    def run(feeds, names):
        for name in (*feeds, *names):
            if types.get(name) == "tensor(bfloat16)":
                raise attest.Unsupported(f"'{name}' is bfloat16, which onnxruntime does not hand over in Python")
        try:
            return session.run(names, feeds)
        except Exception as error:
            raise attest.Refused(reason(error)) from error
    return run


def reason(error):
    """What ONNX Runtime objects to, without build paths and C++ signatures."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return "onnxruntime: " + re.sub(r"/\S+/(\w+\.\w+:\d+)", r"\1", text)[:300]
