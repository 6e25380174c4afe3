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


@attest.runtime(name="onnxruntime", version=onnxruntime.__version__, builds=builds(), layouts=attest.LAYOUTS)
def load(model, *, build, threads):
    level, _, provider = build.partition("+")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised; a second copy on stderr helps nobody
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = [provider, CPU] if provider else [CPU]
    try:
        session = onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:  # onnxruntime's exception types share no public base class
        if has_no_kernel(error) and level_has_no_kernel(model, providers):
            raise attest.Unsupported(reason(error)) from error
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


def has_no_kernel(error):
    return "NOT_IMPLEMENTED" in str(error)


def level_has_no_kernel(model, providers):
    """Whether the file as it stands names a kernel that there is none of: which types each has, its page OperatorKernels.md says. What an optimisation
    alone makes of a graph, its owner has not asked for."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(model, options, providers=providers)
    except Exception as error:
        return has_no_kernel(error)
    return False


def reason(error):
    """What ONNX Runtime objects to, without build paths and C++ signatures."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ", "", text)
    return "onnxruntime: " + re.sub(r"/\S+/(\w+\.\w+:\d+)", r"\1", text)[:300]
