// Weights in files beside a model.
#include "graph/weights.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "graph/raw.hpp"
#include "graph/read.hpp"
#include "tests/graph/onnx_file.hpp"

namespace attest::graph {
namespace {

namespace fs = std::filesystem;
using test::attr;
using test::File;

// y = x + w + c, both on the outside; w is an initialiser, c the value of a Constant.
class Weights : public ::testing::Test {
 protected:
  Weights() {
    fs::remove_all(folder.parent_path());
    fs::create_directories(folder / "data");
    file.inputs = {{"x", Type::f32, {2}}};
    file.constant(w, "w");
    file.outside["w"] = {"data/w.bin", "4", "8"};
    file("Constant", {}, {attr("value", c)}, "c");
    file.outside["value"] = {"c.bin", "", ""};
    file("Add", {"x", "w"}, {}, "xw");
    file("Add", {"xw", "c"}, {}, "y");
    file.outputs = {"y"};
    put("data/w.bin", "skip" + raw_bytes(w));
    put("c.bin", raw_bytes(c));
  }
  ~Weights() override { fs::remove_all(folder.parent_path()); }

  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
  [[nodiscard]] Model read() const {
    put("m.onnx", file.bytes());
    return load_model(folder / "m.onnx");
  }
  [[nodiscard]] std::string complaint() const {
    try {
      (void)read();
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.exit(), Exit::usage);
      return error.what();
    }
  }

  const fs::path folder = fs::temp_directory_path() / ("graph_weights_test." + std::to_string(::getpid())) / "model";
  const Array w = floats(Type::f32, {2}, {1.5, -2}), c = floats(Type::f32, {2}, {0.25, 8});
  File file;
};

TEST_F(Weights, AreReadFromFilesBesideTheModel) {
  const Model model = read();
  EXPECT_EQ(model.constants.at(0).array().floats, w.floats);
  EXPECT_EQ(std::get<Stored>(model.nodes[0].attributes.at("value")).array().floats, c.floats);
  // A file without any stays byte by byte.
  File plain = file;
  plain.outside.clear();
  EXPECT_EQ(with_weights(plain.bytes(), folder / "m.onnx"), plain.bytes());
  EXPECT_EQ(with_weights("no model", folder / "m.onnx"), "no model");
}

TEST_F(Weights, AreRefusedInOneSentence) {
  struct Case {
    const char* says;
    test::Outside outside;
  };
  const Case cases[] = {
      {"m.onnx: tensor 'w' lies in the file 'gone.bin', which is not in", {"gone.bin", "", ""}},
      {"tensor 'w' lies in the file '../w.bin', which is not in the folder of the model", {"../w.bin", "", ""}},
      {"which is not in the folder of the model", {"data/../../w.bin", "", ""}},
      {"which is not in the folder of the model", {(folder / "data/w.bin").string(), "", ""}},
      {"which is not in the folder of the model", {"link.bin", "", ""}},
      {"which is not in the folder of the model", {"", "", ""}},
      {"which is not in", {"data", "", ""}},
      {"8 bytes from byte 8 on, and that has 12 bytes: it is cut short, or another model's", {"data/w.bin", "8", "8"}},
      {"it is cut short", {"data/w.bin", "13", ""}},
      {"it is cut short", {"data/w.bin", "4", "18446744073709551615"}},
      {"at '-4', which is no number of bytes", {"data/w.bin", "-4", ""}},
      {"tensor 'w' has the shape [2] and 1 numbers", {"data/w.bin", "4", "4"}},
  };
  std::ofstream(folder.parent_path() / "w.bin", std::ios::binary) << raw_bytes(w);
  fs::create_symlink(folder.parent_path() / "w.bin", folder / "link.bin");
  EXPECT_EQ(complaint(), "");
  for (const Case& one : cases) {
    file.outside["w"] = one.outside;
    const std::string said = complaint();
    EXPECT_NE(said.find(one.says), std::string::npos) << one.says << "\n" << said;
    EXPECT_EQ(said.find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace attest::graph
