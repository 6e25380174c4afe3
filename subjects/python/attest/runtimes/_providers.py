"""Execution providers of ONNX Runtime: those of its own build, and those that come as a package each, `onnxruntime_ep_*`, which are registered
with it (https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries/usage.html). Such a package says by get_ep_names() or get_ep_name()
which providers it has, and by get_library_path() where its library is
(https://onnxruntime.ai/docs/execution-providers/plugin-ep-libraries/packaging.html)."""
import importlib
import pkgutil
import re

import onnxruntime

from attest import Refused, Unsupported

CPU = "CPUExecutionProvider"
PACKAGES = "onnxruntime_ep_"
DEVICES = "device_type"  # chooses one device of a provider from a package; it is no option of the provider there
# A model without a node: whose session has a provider has it whatever it takes. IR version 8, opset 17, a constant `one` as the output.
EMPTY = (b"\x08\x08:'\x12\x01g*\x0f\x08\x01\x10\x01\"\x04\x00\x00\x80?B\x03oneb\x11\n\x03one\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01B\x04\n\x00\x10\x11")

_own = frozenset(onnxruntime.get_available_providers())  # before anything is registered
_registered = set()  # packages


def own_providers():
    """The providers of this build, but for the CPU's and one that sends a model elsewhere."""
    return [one for one in onnxruntime.get_available_providers() if one in _own and one not in (CPU, "AzureExecutionProvider")]


def packages():
    """The installed packages that may offer providers, by name."""
    return sorted({found.name for found in pkgutil.iter_modules() if found.name.startswith(PACKAGES)})


def offered_by(package):
    """The names of a package's providers. Raises what importing it does."""
    module = importlib.import_module(package)
    return list(module.get_ep_names()) if hasattr(module, "get_ep_names") else [module.get_ep_name()]


def devices_of(provider, kind=""):
    """The devices of a provider that a package offers, of hardware `kind` (CPU, GPU, NPU) where that is said, after its library was registered. Devices
    that stand for hardware that is not here ("is_virtual") can compile alone, and are left out. Raises Unsupported, with the remedy, where there is none."""
    package, name = package_of(provider)
    try:
        if package not in _registered:
            # The name is the provider's own, which some libraries give to their devices. Any will do, but for one that ends with ".virtual".
            onnxruntime.register_execution_provider_library(name, importlib.import_module(package).get_library_path())
            _registered.add(package)
        devices = [one for one in onnxruntime.get_ep_devices()
                   if one.ep_name == provider and dict(one.device.metadata).get("is_virtual") != "1"]
    except Exception as error:  # onnxruntime's exception types share no public base class
        raise Unsupported(f"the package {package} cannot be registered with ONNX Runtime {onnxruntime.__version__}: {first_line(error)}; "
                          "install what that names, or versions that go together") from error
    kinds = sorted({kind_of(one) for one in devices})
    if not devices:
        raise Unsupported(f"{provider} of the package {package} finds none of its devices here: name another provider, or run this where such hardware "
                          "and its driver are")
    fitting = [one for one in devices if not kind or kind_of(one) == kind.upper()]
    if not fitting:
        raise Unsupported(f"{provider} has no device of type {kind} here: it has {', '.join(kinds)}")
    return fitting


def kind_of(device):
    """CPU, GPU, NPU."""
    return str(device.device.type).rpartition(".")[2]


def package_of(provider):
    """The installed package that offers a provider, and the name by which it does. A library has providers beside those that its package names,
    NAME.AUTO beside NAME."""
    found, broken = {}, []
    for package in packages():
        try:
            offered = offered_by(package)
        except Exception as error:
            broken.append(f"{package} cannot be imported ({first_line(error)})")
            continue
        found[package] = offered
        for name in offered:
            if provider == name or provider.startswith(f"{name}."):
                return package, name
    here = [*own_providers(), *(f"{one} of {package}" for package, offered in found.items() for one in offered)]
    raise Unsupported(f"there is no provider {provider} here: this ONNX Runtime has {', '.join(here) or 'that of the CPU alone'}"
                      f"{'; ' if broken else ''}{'; '.join(broken)}; install a build of ONNX Runtime that has it, or the package {PACKAGES}* that offers it")


def session_of(model, options, provider, settings):
    """A session of the bytes of a model on a provider, the CPU's where that is empty, with `settings` handed over to it. `options` are the session's own,
    of this session alone. Never one of another provider in its place, which ONNX Runtime makes where it cannot have the first
    one and, of a run that fails, later: results would be told as those of a provider that has computed nothing. Raises Unsupported where the provider
    cannot be had, and what InferenceSession does."""
    settings = dict(settings)
    if not provider:
        return onnxruntime.InferenceSession(model, options, providers=[CPU], enable_fallback=0)
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")  # versions that do not know it leave it aside
    if provider in _own:
        session = onnxruntime.InferenceSession(model, options, providers=[(provider, settings), CPU], enable_fallback=0)
    else:
        devices = devices_of(provider, settings.pop(DEVICES, ""))
        options.add_provider_for_devices(devices[:1], settings)
        session = onnxruntime.InferenceSession(model, options, enable_fallback=0)
    if hasattr(session, "disable_fallback"):  # older ones know no enable_fallback, and leave it aside
        session.disable_fallback()
    if provider not in session.get_providers():
        raise Unsupported(f"{provider} could not be started here, and the session would be one of {' and '.join(session.get_providers())}: "
                          "the log says why, mostly libraries of its own that are not installed")
    return session


def ensure(provider, settings, options):
    """Raises Unsupported, one sentence with the remedy, where a provider with these settings cannot be had."""
    try:
        session_of(EMPTY, options, provider, settings)
    except Exception as error:
        if isinstance(error, Unsupported):
            raise
        words = ", ".join(f"{key}={value}" for key, value in settings.items())
        raise Unsupported(f"{provider} cannot be started{f' with {words}' if words else ''}: {first_line(error)}; "
                          f"mend what it names, or name another provider") from error


def taken_by(session, provider):
    """The note on a session whose nodes are not all the provider's: "" where they are. Raises Unsupported where none is, since the results would be those of
    another provider."""
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return f"this version of ONNX Runtime does not say which nodes {provider} takes: results may be those of the CPU's provider"
    nodes = [(part.ep_name, node) for part in session.get_provider_graph_assignment_info() for node in part.get_nodes()]
    others = [(owner, node) for owner, node in nodes if owner != provider]
    if len(others) == len(nodes):
        raise Unsupported(f"{provider} takes no node of the graph, which would be computed elsewhere")
    if not others:
        return ""
    named = [f"{node.op_type} '{node.name}'" for _, node in others[:MOST_NAMED]]
    more = len(others) - len(named)
    return (f"{provider} takes {len(nodes) - len(others)} of {len(nodes)} nodes; {' and '.join(sorted({owner for owner, _ in others}))} "
            f"computes {', '.join(named)}{f' and {more} more' if more else ''}")


MOST_NAMED = 4


def first_line(error):
    """The objection of ONNX Runtime, without the number of its kind, build paths and C++ signatures."""
    text = " ".join(str(error).split())
    if "[ONNXRuntimeError] : " in text:
        text = text.rpartition("[ONNXRuntimeError] : ")[2].split(" : ", 2)[-1]
    text = re.sub(r"^/\S+:\d+ \S.*?\) (?=[A-Z])", "", text)
    return text[:200] or type(error).__name__
