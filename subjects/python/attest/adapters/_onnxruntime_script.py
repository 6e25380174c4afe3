"""A call of ONNX Runtime as a few lines of Python that make it without attest."""

from . import _onnx_script as onnx_script

# GraphOptimizationLevel of each value of the form `optimisation`.
LEVELS = {"all": "ORT_ENABLE_ALL", "extended": "ORT_ENABLE_EXTENDED", "basic": "ORT_ENABLE_BASIC", "none": "ORT_DISABLE_ALL"}


def source(node, call):
    """Lines that expect the call's arrays in scope by their names and leave [B, H, Lq, Dv] in `got`."""
    level = ""
    if node.optimisation != "all":
        level = f"options.graph_optimization_level = ort.GraphOptimizationLevel.{LEVELS[node.optimisation]}\n"
    rolled = f"got = np.stack([np.roll(sample, n, 1) for sample, n in zip(got, {node.ahead})])\n" if node.ahead else ""
    run = onnx_script.result(f"session.run({[node.fetched]}, feed)[0]", node, call)
    return f"""\
import onnxruntime as ort
{onnx_script.model(node, call)}{onnx_script.functions(node)}options = ort.SessionOptions()
options.intra_op_num_threads, options.log_severity_level = {node.threads}, 4  # errors are raised
{level}try:
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
{_in_place(node, call) if node.shared else f"    got = {run}"}
except Exception as error:
    raise SystemExit(f"refused: {{str(error).strip()}}")
{rolled}"""


def _in_place(node, call):
    """The run, with outputs in the memory of their inputs."""
    at = [name for name in node.outputs if name].index(node.fetched)
    return f"""\
    values = {{n: ort.OrtValue.ortvalue_from_numpy(np.array(a, order="C")) for n, a in feed.items()}}
    binding, places = session.io_binding(), {({output: name for name, output in node.shared.items()})}
    for n, value in values.items():
        binding.bind_ortvalue_input(n, value)
    for n in {[name for name in node.outputs if name]}:
        binding.bind_ortvalue_output(n, values[places[n]]) if n in places else binding.bind_output(n)
    session.run_with_iobinding(binding)
    got = {onnx_script.result(f"binding.get_outputs()[{at}].numpy()", node, call)}"""
