"""OpenVINO on the CPU: in ACCURACY mode, which promises to compute in no smaller type than a tensor's own; and by its default mode, which may compute in
bfloat16 where the processor has it (https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/precision-control.html), to be
asked by name and under `--policy run=bf16`. Either computes float64 in float32: the types that its page of the CPU device
(https://docs.openvino.ai/2025/openvino-workflow/running-inference/inference-devices-and-modes/cpu-device.html) lists as "inference precision of internal
primitives" end with FP32, so that a graph with a float64 in it is not asked."""
import openvino
from openvino.properties import hint

import attest

MODES = {"accuracy": hint.ExecutionMode.ACCURACY, "hint+performance": hint.ExecutionMode.PERFORMANCE}
_core = openvino.Core()


@attest.runtime(name="openvino", version=openvino.__version__.partition("-")[0], builds=tuple(MODES), layouts=attest.LAYOUTS)
def load(model, *, build, threads):
    options = {hint.execution_mode: MODES[build], openvino.properties.inference_num_threads: threads} if threads else {
        hint.execution_mode: MODES[build]}
    try:
        graph = _core.read_model(model=model, weights=b"")
        double = has_double(graph)
        compiled = None if double else _core.compile_model(graph, "CPU", options)
    except Exception as error:
        raise attest.Refused(reason(error)) from error
    if double:
        raise attest.Unsupported("openvino: no float64, which the CPU computes in float32")
    places = {name: port for port in compiled.outputs for name in port.get_names()}
    request = compiled.create_infer_request()

    def run(feeds, names):
        for name in names:
            if name not in places:
                raise attest.Refused(f"openvino: the compiled model has no output '{name}'")
        try:
            got = request.infer(feeds, share_inputs=False, share_outputs=False)
        except Exception as error:
            raise attest.Refused(reason(error)) from error
        return [got[places[name]] for name in names]
    return run


def has_double(graph):
    return any(port.get_element_type() == openvino.Type.f64 for node in graph.get_ops() for port in node.outputs())


def reason(error):
    """The objection of OpenVINO: its last sentence, without source files."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "openvino: " + " ".join(lines[-2:])[:300]
