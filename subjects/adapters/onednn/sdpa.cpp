// oneDNN's pattern of scaled dot-product attention, in its Graph API on the CPU, as a subject of attest. sdpa.hpp says
// how its documents are read.
//
// q, k, v and out are the call's own memory with its strides; where an axis is broadcast, which a logical tensor cannot
// say, a packed copy goes in. A graph is compiled once for each way in which calls differ, and kept.
#include "sdpa.hpp"

#include <oneapi/dnnl/dnnl.h>
#include <attest/attest.hpp>
#include <cstring>
#include <limits>
#include <list>
#include <map>
#include <oneapi/dnnl/dnnl_graph.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace graph = dnnl::graph;
using attest::Attention;
using attest::TensorView;
using graph::logical_tensor;
using graph::op;
using Dims = std::vector<std::int64_t>;
using Type = logical_tensor::data_type;

constexpr float infinity = std::numeric_limits<float>::infinity();

// An input or output: its shape, its strides in elements, its place, and a copy of it where it had to be packed.
struct Array {
  Array() = default;
  Array(Type its_type, Dims its_shape, Dims its_strides, void* its_data = nullptr)
      : type(its_type), shape(std::move(its_shape)), strides(std::move(its_strides)), data(its_data) {}
  Array(Array&&) = default;  // `data` may lie in `copy`, which a copy would leave behind
  Array& operator=(Array&&) = default;

  Type type = Type::undef;
  Dims shape, strides;
  void* data = nullptr;
  std::vector<char> copy{};
};

Dims packed(const Dims& shape) {
  Dims strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

Type type_of(const TensorView& tensor) { return tensor.holds<const float>() ? Type::f32 : Type::bf16; }
std::size_t size_of(Type type) { return type == Type::f32 ? 4 : type == Type::bf16 ? 2 : 1; }

// [B,H,L,D] as [B,Hkv,H/Hkv,L,D].
Array grouped(Array array, std::int64_t kv_heads) {
  const std::int64_t group = array.shape[1] / kv_heads;
  array.shape = {array.shape[0], kv_heads, group, array.shape[2], array.shape[3]};
  array.strides = {array.strides[0], array.strides[1] * group, array.strides[1], array.strides[2], array.strides[3]};
  return array;
}

// [B,H,L,D] of the call; under groups [B,Hkv,H/Hkv,L,D], as the native pattern of grouped heads has it.
// `units_are_one`: axes of one element have the stride 1, and that of the call else.
Array array_of(const TensorView& t, std::int64_t kv_heads, bool in_groups, bool units_are_one) {
  Array array{type_of(t), {t.size(0), t.size(1), t.size(2), t.size(3)}, {}, attest_at(&t.raw(), 0, 0, 0, 0)};
  bool broadcast = false;
  for (int axis = 0; axis < 4; ++axis) {
    array.strides.push_back(t.stride(axis));
    broadcast |= t.size(axis) > 1 && t.stride(axis) == 0;
  }
  const Dims plain = packed(array.shape);
  for (std::size_t axis = 0; axis < 4; ++axis) {  // nothing lies along an axis of one element
    if (array.shape[axis] > 1) continue;
    if (array.strides[axis] == 0) array.strides[axis] = plain[axis];
    if (units_are_one) array.strides[axis] = 1;
  }
  if (broadcast) {
    const std::size_t size = size_of(array.type);
    array.copy.reserve(static_cast<std::size_t>(t.size(0) * t.size(1) * t.size(2) * t.size(3)) * size);
    for (std::int64_t b = 0; b < t.size(0); ++b)
      for (std::int64_t h = 0; h < t.size(1); ++h)
        for (std::int64_t i = 0; i < t.size(2); ++i)
          for (std::int64_t d = 0; d < t.size(3); ++d) {
            const char* element = static_cast<const char*>(attest_at(&t.raw(), b, h, i, d));
            array.copy.insert(array.copy.end(), element, element + size);
          }
    array.strides = plain;
    array.data = array.copy.data();
  }
  if (in_groups) return grouped(std::move(array), kv_heads);  // a move keeps `data` in `copy`
  return array;
}

Array scalar(float value) {
  Array array{Type::f32, {1}, {1}};
  array.copy.resize(sizeof value);
  std::memcpy(array.copy.data(), &value, sizeof value);
  array.data = array.copy.data();
  return array;
}

bool masked(const Attention& call) {
  return call.keep || call.kv_lengths || call.causal || call.window_left >= 0 || call.window_right >= 0;
}

// The mask: the numbers that are added to the scores, in float32, or booleans that say which of them stay. It is narrow
// along samples and heads that share it.
Array mask_of(const Attention& call, bool boolean, bool grouped) {
  const auto varies = [&](int axis) {
    const auto along = [&](const TensorView& t) { return t && t.size(axis) > 1 && t.stride(axis) != 0; };
    return call.form("mask_shape", "narrowed") == "full" || along(call.keep) || along(call.bias);
  };
  const std::int64_t samples = varies(0) || call.kv_lengths ? call.batch() : 1, heads = varies(1) ? call.heads() : 1;
  Array mask{boolean ? Type::boolean : Type::f32, {samples, heads, call.queries(), call.keys()}, {}};
  mask.copy.reserve(static_cast<std::size_t>(samples * heads * call.queries() * call.keys()) * size_of(mask.type));
  for (std::int64_t b = 0; b < samples; ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < call.queries(); ++i)
        for (std::int64_t j = 0; j < call.keys(); ++j) {
          const bool open = call.takes_part(b, h, i, j);
          const float added = !open ? -infinity : call.bias ? static_cast<float>(call.bias.load(b, h, i, j)) : 0.0F;
          const char* first = reinterpret_cast<const char*>(&added);
          if (boolean)
            mask.copy.push_back(open ? 1 : 0);
          else
            mask.copy.insert(mask.copy.end(), first, first + sizeof added);
        }
  if (grouped) {
    const std::int64_t group = call.heads() / call.kv_heads();
    mask.shape = {samples, heads == 1 ? 1 : call.kv_heads(), heads == 1 ? 1 : group, call.queries(), call.keys()};
  }
  mask.strides = packed(mask.shape);
  mask.data = mask.copy.data();
  return mask;
}

struct Plan {
  graph::compiled_partition compiled{};
  std::vector<logical_tensor> inputs{}, outputs{};  // in the order in which they are given
};

// The graph of one call: arrays by name, and how it is said.
class Pattern {
 public:
  Pattern(const Attention& call) : call_(call), grouped_(call.heads() != call.kv_heads()) {
    for (const auto& [name, tensor] : {std::pair{"q", &call.q}, {"k", &call.k}, {"v", &call.v}, {"out", &call.out}})
      add(name, array_of(*tensor, call.kv_heads(), grouped_, call.form("unit_axes", "kept") == "one"));
    if (call.lse) {
      Array stats{Type::f32, {call.batch(), call.heads(), call.queries(), 1}, {}};
      stats.strides = packed(stats.shape);
      stats.copy.assign(static_cast<std::size_t>(stats.shape[0] * stats.strides[0]) * sizeof(float), '\xff');  // NaN
      add("lse", grouped_ ? grouped(std::move(stats), call.kv_heads()) : std::move(stats));
      arrays_["lse"].data = arrays_["lse"].copy.data();
    }
    const bool divided = call.form("scaling", "multiply") == "divide" && call.scale != 0;
    scaling_ = divided ? op::kind::Divide : op::kind::Multiply;
    add("scale", scalar(static_cast<float>(divided ? 1 / call.scale : call.scale)));
    if (masked(call) || call.bias) {
      boolean_ = call.form("mask", "add") == "select";
      if (boolean_ && call.bias) throw attest::Unsupported(sdpa_refused_bias);
      add("mask", mask_of(call, boolean_, grouped_));
      if (boolean_) add("closed", scalar(-infinity));
    }
    mode_ = call.form("softmax", "none");
    key_ = std::to_string(static_cast<int>(scaling_)) + mode_;
    for (const auto& [name, array] : arrays_) {
      key_ += ' ' + name + std::to_string(static_cast<int>(array.type));
      for (const Dims* numbers : {&array.shape, &array.strides})
        for (const std::int64_t number : *numbers) key_ += ',' + std::to_string(number);
    }
  }

  const std::string& key() const { return key_; }

  Plan compile(const dnnl::engine& engine) {
    graph::graph made(dnnl::engine::kind::cpu);
    const auto node = [&](op::kind kind, const char* name, const std::vector<logical_tensor>& in,
                          const std::vector<logical_tensor>& out) {
      op operation(next_++, kind, in, out, name);
      if (kind == op::kind::MatMul && std::strcmp(name, "qk") == 0)
        operation.set_attr<bool>(op::attr::transpose_b, true);
      if (kind == op::kind::SoftMax)
        operation.set_attr<std::int64_t>(op::attr::axis, -1).set_attr<std::string>(op::attr::mode, mode_);
      made.add_op(operation);
    };
    logical_tensor last = between(Type::f32);
    node(op::kind::MatMul, "qk", {tensor("q"), tensor("k")}, {last});
    const auto then = [&](op::kind kind, const char* name, std::vector<logical_tensor> in, Type type) {
      const logical_tensor made_here = between(type);
      node(kind, name, in, {made_here});
      last = made_here;
    };
    then(scaling_, "scale", {last, tensor("scale")}, Type::f32);
    if (arrays_.count("mask") != 0) {
      if (boolean_)
        then(op::kind::Select, "mask", {tensor("mask"), last, tensor("closed")}, Type::f32);
      else
        then(op::kind::Add, "mask", {last, tensor("mask")}, Type::f32);
    }
    std::vector<logical_tensor> weights{between(arrays_.at("v").type)};
    if (arrays_.count("lse") != 0) weights.push_back(tensor("lse"));
    node(op::kind::SoftMax, "softmax", {last}, weights);
    node(op::kind::MatMul, "pv", {weights[0], tensor("v")}, {tensor("out")});
    made.finalize();
    const std::vector<graph::partition> partitions = made.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported())
      throw std::runtime_error("get_partitions gave " + std::to_string(partitions.size()) +
                               " partitions in place of one that is supported");
    Plan plan{{}, partitions[0].get_input_ports(), partitions[0].get_output_ports()};
    for (std::vector<logical_tensor>* ports : {&plan.inputs, &plan.outputs})
      for (logical_tensor& port : *ports) port = tensor(names_.at(port.get_id()));
    plan.compiled = partitions[0].compile(plan.inputs, plan.outputs, engine);
    return plan;
  }

  void run(Plan& plan, const dnnl::engine& engine, dnnl::stream& stream) {
    std::vector<graph::tensor> inputs, outputs;
    for (const logical_tensor& port : plan.inputs) inputs.emplace_back(port, engine, data_of(port));
    for (const logical_tensor& port : plan.outputs) outputs.emplace_back(port, engine, data_of(port));
    plan.compiled.execute(stream, inputs, outputs);
    stream.wait();
    if (call_.lse) leave_lse(static_cast<const float*>(arrays_.at("lse").data));
  }

 private:
  void add(const std::string& name, Array array) {
    ids_[name] = names_.size();
    names_[names_.size()] = name;
    arrays_[name] = std::move(array);
  }
  logical_tensor tensor(const std::string& name) const {
    const Array& array = arrays_.at(name);
    return {ids_.at(name), array.type, array.shape, array.strides};
  }
  // Writes the log-sum-exp. By the document's formula that of a row without keys is NaN; attest has it as -inf.
  void leave_lse(const float* numbers) const {
    for (std::int64_t b = 0; b < call_.batch(); ++b)
      for (std::int64_t h = 0; h < call_.heads(); ++h)
        for (std::int64_t i = 0; i < call_.queries(); ++i) {
          bool empty = true;
          for (std::int64_t j = 0; j < call_.keys() && empty; ++j)
            empty = !call_.takes_part(b, h, i, j) || (call_.bias && call_.bias.load(b, h, i, j) == -infinity);
          const float number = *numbers++;
          call_.lse.store(empty ? -infinity : static_cast<double>(number), b, h, i);
        }
  }
  void* data_of(const logical_tensor& port) const { return arrays_.at(names_.at(port.get_id())).data; }
  // The scores, in each of their states.
  logical_tensor between(Type type) {
    Dims shape = arrays_.at("q").shape;
    shape.back() = call_.keys();
    return {100 + next_++, type, shape, packed(shape)};
  }

  const Attention& call_;
  bool grouped_, boolean_ = false;
  op::kind scaling_ = op::kind::Multiply;
  std::string mode_, key_;
  std::map<std::string, Array> arrays_;
  std::map<std::string, std::size_t> ids_;
  std::map<std::size_t, std::string> names_;
  std::size_t next_ = 0;
};

// Compiles without oneDNN's cache under `unit_axes` one: calls with other strides do not find that plan, nor does it
// find theirs (onednn-sdpa-1), so that each call fails for itself.
template <class Compile>
Plan apart(const Attention& call, Compile compile) {
  if (call.form("unit_axes", "kept") != "one") return compile();
  struct Off {
    int capacity = 0;
    Off() {
      if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success ||
          dnnl_set_primitive_cache_capacity(0) != dnnl_success)
        throw std::runtime_error("the primitive cache could not be switched off");
    }
    ~Off() { dnnl_set_primitive_cache_capacity(capacity); }
  } off;
  return compile();
}

void attention(const Attention& call) {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  static std::list<std::pair<std::string, Plan>> plans;  // the last used first
  constexpr std::size_t most = 64;

  Pattern pattern(call);
  auto found = plans.begin();
  while (found != plans.end() && found->first != pattern.key()) ++found;
  if (found != plans.end())
    plans.splice(plans.begin(), plans, found);
  else
    plans.emplace_front(pattern.key(), apart(call, [&] { return pattern.compile(engine); }));
  if (plans.size() > most) plans.pop_back();
  pattern.run(plans.front().second, engine, stream);
}

}  // namespace

const attest_subject* attest_plugin(std::uint32_t abi, std::size_t* count) {
  const dnnl_version_t& found = *dnnl_version();
  static const std::string version =
      "oneDNN " + std::to_string(found.major) + "." + std::to_string(found.minor) + "." + std::to_string(found.patch);
  static const attest::Plugin plugin{attest::subject("sdpa", describe_sdpa, attention, version)};
  return plugin.table(abi, count);
}
