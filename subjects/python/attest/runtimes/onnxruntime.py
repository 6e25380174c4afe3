"""ONNX Runtime, at each level of its graph optimisations; on the CPU, unless a build names another provider: LEVEL+PROVIDER, and
LEVEL+PROVIDER+KEY=VALUE+... with options that are handed over to it (docs/graphs.md section 5)."""
import re

import onnxruntime

import attest
from . import _providers as providers
from ._onnxruntime_said import objection

LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED", "all": "ORT_ENABLE_ALL"}


def builds():
    """Levels on the CPU by their own names, on another provider of this ONNX Runtime as LEVEL+PROVIDER."""
    return [*LEVELS, *(f"{level}+{provider}" for provider in providers.own_providers() for level in LEVELS)]


def parts(build):
    """Level, provider ("": the CPU's) and what is handed over to it. Raises attest.Unsupported for what is no build."""
    words, settings = attest.split_build(build)
    if len(words) > 2 or words[0] not in LEVELS:
        raise attest.Unsupported(f"there is no build '{build}': it is LEVEL, LEVEL+PROVIDER or LEVEL+PROVIDER+KEY=VALUE+..., LEVEL one of {', '.join(LEVELS)}")
    level, provider = words[0], words[1] if len(words) == 2 else ""
    if provider == providers.CPU or (settings and not provider):
        raise attest.Unsupported(f"build '{build}': {level} is on the CPU by itself, and options are those of another provider, LEVEL+PROVIDER+KEY=VALUE")
    return level, provider, settings


def accepts(build):
    """Whether there is such a build; a provider that it names is started once."""
    if build not in builds() and "+" not in build:
        return False
    level, provider, settings = parts(build)
    if provider:
        providers.ensure(provider, settings, session_options(level, 1))
    return True


def session_options(level, threads):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # errors are raised; a second copy on stderr helps nobody
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


@attest.runtime(name="onnxruntime", version=onnxruntime.__version__, builds=builds(), layouts=attest.LAYOUTS, accepts=accepts)
def load(model, *, build, threads):
    level, provider, settings = parts(build)
    try:
        session = providers.session_of(model, session_options(level, threads), provider, settings)
    except attest.Unsupported:
        raise
    except Exception as error:  # onnxruntime's exception types share no public base class
        if has_no_kernel(error) and level_has_no_kernel(model, provider, settings):
            raise attest.Unsupported(reason(error)) from error
        raise attest.Refused(reason(error)) from error
    note = providers.taken_by(session, provider) if provider else ""
    types = {one.name: one.type for one in (*session.get_inputs(), *session.get_outputs())}

    def run(feeds, names):
        for name in (*feeds, *names):
            if types.get(name) == "tensor(bfloat16)":
                raise attest.Unsupported(f"'{name}' is bfloat16, which onnxruntime does not hand over in Python")
        try:
            return session.run(names, feeds)
        except Exception as error:
            raise attest.Refused(reason(error)) from error
    run.note = note
    return run


def has_no_kernel(error):
    return "NOT_IMPLEMENTED" in str(error)


def level_has_no_kernel(model, provider, settings):
    """Whether the file as it stands names a kernel that there is none of: the page OperatorKernels.md lists the types of each. A node that an optimisation
    alone makes is none that the graph's owner has asked for."""
    try:
        providers.session_of(model, session_options("disabled", 0), provider, settings)
    except Exception as error:
        return has_no_kernel(error)
    return False


def reason(error):
    """The objection of ONNX Runtime, without build paths."""
    return "onnxruntime: " + re.sub(r"/\S+/(\w+\.\w+:\d+)", r"\1", objection(str(error)))[:300]
