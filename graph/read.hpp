#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "graph/model.hpp"

namespace attest::graph {

// The model that `bytes` hold, an ONNX file (onnx.proto3 of https://github.com/onnx/onnx: ModelProto in protobuf's wire
// format). Text, training information and shapes of inner values are passed over. Throws Error(usage): one sentence
// with `name` and the reason, for whatever is truncated or damaged, refers to a name that nothing gives, gives one
// twice or goes in a circle, and for what attest does not read: tensors in files of their own (weights.hpp puts them
// inside), sparse ones, types other than those of Type, sequences. A file may come from a stranger: memory is taken in
// proportion to the file's content, not to its statements. Its constants lie within the bytes, which they keep; a view
// is copied once.
Model read_model(const std::shared_ptr<const std::string>& bytes, std::string_view name);
Model read_model(std::string_view bytes, std::string_view name);

// read_model of a regular file and of the weights beside it (weights.hpp). Throws Error(usage) also for a path that is
// none.
Model load_model(const std::filesystem::path& file);

}  // namespace attest::graph
