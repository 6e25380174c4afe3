# `attest export --to python` ends with this: q, k, v, scale and, where present, bias, keep and kv_lengths are arrays; the options of
# the call and its forms are in `asked`. It leaves the answer in `got`.
import ctypes
import os

# libggml-cpu.so of an installed ggml, or of llama_cpp/lib in llama-cpp-python
ggml = ctypes.CDLL(os.environ.get("GGML", "libggml-cpu.so"))


class Room(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def pointer(name, *arguments):
    function = getattr(ggml, name)
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(*arguments))


def bits(array):  # bfloat16 numbers, which are float32 in NumPy; another number is rounded to nearest, ties to even
    word = array.astype(np.float32).view(np.uint32)
    return ((word + 0x7fff + (word >> 16 & 1)) >> 16).astype(np.uint16)


def tensor(array, kind):  # ggml has the last axis first
    data = np.ascontiguousarray(bits(array) if kind == 30 else array.astype({0: np.float32, 1: np.float16}[kind]))
    made = pointer("ggml_new_tensor_4d", context, kind, *map(ctypes.c_int64, array.shape[::-1]))
    ctypes.memmove(pointer("ggml_get_data", made), data.ctypes.data, data.nbytes)
    return made


kind = {"f32": 0, "f16": 1, "bf16": 30}[asked["dtype"]]
length = kv_lengths[:, None, None, None] if asked["kv_lengths"] else k.shape[2]
i, j = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None, :]
diagonal = i + length - q.shape[2] if asked["align"] else i
left, right = asked["window_left"], asked["window_right"]
opened = np.broadcast_to((j < length) & ((j <= diagonal) | (not asked["causal"])) & ((left < 0) | (diagonal - j <= left))
                         & ((right < 0) | (j - diagonal <= right)), (q.shape[0], q.shape[1], q.shape[2], k.shape[2]))
opened = opened & keep if asked["keep"] else opened
added = np.where(opened, bias if asked["bias"] else 0, -np.inf)
shape = (q.shape[0], q.shape[2], q.shape[1], v.shape[3])  # the result's shape
form = asked["form"]
context = pointer("ggml_init", Room(4 * (q.size + k.size + v.size + added.size + int(np.prod(shape))) + (1 << 20), None, False))
wanted = asked["bias"] or asked["keep"] or asked["kv_lengths"] or asked["causal"] or left >= 0 or right >= 0
mask = tensor(added, 1) if wanted or form.get("mask") == "always" else None
node = pointer("ggml_flash_attn_ext", context, tensor(q, 0), tensor(k, kind), tensor(v, kind), mask, ctypes.c_float(scale),
               ctypes.c_float(0), ctypes.c_float(asked["softcap"]))
if "prec" in form:
    ggml.ggml_prec_set_acc(node, {"f32": 10, "bf16": 15, "f16": 20}[form["prec"]])
if mask and "n_kv_max" in form:
    ggml.ggml_flash_attn_ext_set_n_kv_max(node, int(np.isfinite(added).sum(-1).max()))
backend = pointer("ggml_backend_cpu_init")
ggml.ggml_backend_cpu_set_n_threads(backend, asked["threads"] or min(4, os.cpu_count()))
ggml.ggml_backend_cpu_set_use_ref(backend, ctypes.c_bool("implementation" in form))
graph = pointer("ggml_new_graph", context)
ggml.ggml_build_forward_expand(graph, node)
if status := ggml.ggml_backend_graph_compute(backend, graph):
    raise SystemExit(f"refused: status {status}")
got = np.empty(shape, np.float32)
ctypes.memmove(got.ctypes.data, pointer("ggml_get_data", node), got.nbytes)
got = got.transpose(0, 2, 1, 3)
if kind == 1:
    got = got.astype(np.float16)
if kind == 30:
    got = (bits(got).astype(np.uint32) << 16).view(np.float32)
got = got.astype(np.float64)
