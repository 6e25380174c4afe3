"""The sessions that run ONNX models on ONNX Runtime's CPUExecutionProvider.

A session is kept per model (operators, attributes, which inputs are given, their types and ranks) and reused over
calls of any shape, as an application does; the `static` form pins the shapes and so keeps a session per shape.
"""

import onnx
import onnxruntime

from attest import Refused
from attest.runtimes._onnxruntime_said import objection

from . import _onnxruntime_script
from ._kept import Kept

_LEVELS = {name: getattr(onnxruntime.GraphOptimizationLevel, level) for name, level in _onnxruntime_script.LEVELS.items()}
_sessions = Kept(64)  # a scale or a softcap is an attribute: a random one makes a model of its own
source = _onnxruntime_script.source


def run(node):
    """The output of the node that is read. Raises attest.Refused with ONNX Runtime's own reason."""
    return _asked(node, lambda session, feed: _run_in_place(session, node, feed) if node.shared
                  else session.run([node.fetched], feed)[0])


def run_all(node):
    """All outputs that the node names. Raises as run() does."""
    return _asked(node, lambda session, feed: session.run([name for name in node.outputs if name], feed))


def _asked(node, ask):
    """ask(session of the node, what it is fed)."""
    try:
        return ask(_sessions.get(node.key(), lambda: _build(node)), dict(node.fed()))
    except Exception as error:  # onnxruntime's exception types share no public base class
        raise Refused(f"onnxruntime: {objection(str(error))}") from error


def _run_in_place(session, node, feed):
    """Outputs of `shared` go where their input lies, in a copy of the call's array."""
    binding = session.io_binding()
    values = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a.copy() if n in node.shared else a) for n, a in feed.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    places = {output: values[name] for name, output in node.shared.items()}
    for name in filter(None, node.outputs):
        binding.bind_ortvalue_output(name, places[name]) if name in places else binding.bind_output(name)
    session.run_with_iobinding(binding)
    return binding.get_outputs()[[name for name in node.outputs if name].index(node.fetched)].numpy()


def _build(node):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = node.threads
    options.graph_optimization_level = _LEVELS[node.optimisation]
    options.log_severity_level = 4  # errors are raised; a second copy on stderr helps nobody
    # Idle threads of the kept sessions must not spin beside the next call.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        node.model().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def versions():
    return f"onnxruntime {onnxruntime.__version__}, onnx {onnx.__version__}"
