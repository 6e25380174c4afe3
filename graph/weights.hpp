#pragma once
#include <filesystem>
#include <string>

namespace attest::graph {

// The bytes of an ONNX model that lies at `file`, with the numbers that it keeps in files of their own
// (TensorProto.external_data) inside; everything else as it stands. Such files are regular ones in the folder of `file`
// or below it, links followed. Throws Error(usage): one sentence with the tensor, the file and the remedy where one is
// missing, lies elsewhere or ends too soon, and where more than 2^31 bytes come together, which protobuf does not hold.
// Bytes that are no model come back as they are.
std::string with_weights(std::string bytes, const std::filesystem::path& file);

}  // namespace attest::graph
