// The plug-in: a kernel that keeps a contract to the letter and takes every liberty that it leaves (README.md).
#include <attest/plugin.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>

#include "block.hpp"
#include "row.hpp"

namespace {

using namespace hostile;

struct Subject {
  Scheme scheme;
  std::string error, describe;
};

Subject& subject() {
  static Subject self;
  return self;
}

std::size_t extent(const attest_tensor& tensor, int axis) { return static_cast<std::size_t>(tensor.shape[axis]); }
std::int64_t at(std::size_t index) { return static_cast<std::int64_t>(index); }

/// Tells whether masks, windows and lengths leave key j to row i.
bool is_open(const attest_attention& call, std::int64_t length, std::int64_t b, std::int64_t h, std::int64_t i,
             std::int64_t j) {
  if (j >= length) return false;
  const std::int64_t diagonal = call.align == ATTEST_TOP_LEFT ? i : i + length - call.q.shape[2];
  if (call.causal && j > diagonal) return false;
  // j < diagonal - left and j > diagonal + right, without a sum that could overflow
  if (call.window_left >= 0 && j < diagonal && diagonal - j > call.window_left) return false;
  if (call.window_right >= 0 && j > diagonal && j - diagonal > call.window_right) return false;
  return !attest_present(&call.keep) || *static_cast<const std::uint8_t*>(attest_at(&call.keep, b, h, i, j)) != 0;
}

Head load_head(const attest_attention& call, const Attention& attention, std::int64_t b, std::int64_t h) {
  Head head;
  head.keys = extent(call.k, 2);
  head.depth = extent(call.q, 3);
  head.width = extent(call.v, 3);
  head.k.resize(head.depth * head.keys);
  head.v.resize(head.keys * head.width);
  for (std::size_t j = 0; j < head.keys; ++j) {
    for (std::size_t d = 0; d < head.depth; ++d)
      head.k[d * head.keys + j] = attention.key(attest_load(&call.k, b, h, at(j), at(d)));
    for (std::size_t c = 0; c < head.width; ++c)
      head.v[j * head.width + c] = attention.value(attest_load(&call.v, b, h, at(j), at(c)));
  }
  return head;
}

void attend_row(const attest_attention& call, const Attention& attention, const Head& head, std::int64_t b,
                std::int64_t h, std::int64_t i) {
  Row row;
  row.length =
      attest_present(&call.kv_lengths)
          ? static_cast<std::size_t>(*static_cast<const std::int32_t*>(attest_at(&call.kv_lengths, b, 0, 0, 0)))
          : head.keys;
  row.number = static_cast<std::uint64_t>(h) * 0x10001u + static_cast<std::uint64_t>(i);
  for (std::size_t d = 0; d < head.depth; ++d) row.q.push_back(attention.query(attest_load(&call.q, b, h, i, at(d))));
  for (std::size_t j = 0; j < head.keys; ++j) row.open.push_back(is_open(call, at(row.length), b, h, i, at(j)) ? 1 : 0);
  if (attest_present(&call.bias))
    for (std::size_t j = 0; j < head.keys; ++j) row.bias.push_back(attest_load(&call.bias, b, h, i, at(j)));
  std::vector<double> out(head.width);
  const double lse = attention.attend(head, row, out.data());
  const Format& stored = subject().scheme.storage;
  for (std::size_t c = 0; c < head.width; ++c) {
    double x = nearest(out[c], stored);
    if ((subject().scheme.flush & flush_output) != 0 && std::fabs(x) < stored.normal) x = std::copysign(0.0, x);
    attest_store(&call.out, b, h, i, at(c), x);
  }
  if (attest_present(&call.lse)) attest_store(&call.lse, b, h, i, 0, lse);
}

int attention(void*, const attest_attention* call, char* message, std::size_t size) {
  try {
    Options options;
    options.scale = call->scale;
    options.softcap = call->softcap;
    options.has_bias = attest_present(&call->bias);
    const Attention kernel(subject().scheme, options);
    const std::int64_t group = call->q.shape[1] / (call->k.shape[1] > 0 ? call->k.shape[1] : 1);
    for (std::int64_t b = 0; b < call->q.shape[0]; ++b) {
      std::unique_ptr<Head> head;
      for (std::int64_t h = 0; h < call->q.shape[1]; ++h) {
        if (!head || h % group == 0) head = std::make_unique<Head>(load_head(*call, kernel, b, h / group));
        for (std::int64_t i = 0; i < call->q.shape[2]; ++i) attend_row(*call, kernel, *head, b, h, i);
      }
    }
    return ATTEST_DONE;
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
    return ATTEST_ERROR;
  }
}

int mha(void*, const attest_mha* call, char* message, std::size_t size) {
  try {
    if (attend_block(*call, subject().scheme)) return ATTEST_DONE;
    std::snprintf(message, size, "no order of the declared chain sums so many terms");
    return ATTEST_UNSUPPORTED;
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
    return ATTEST_ERROR;
  }
}

int open_subject(void*, const char*, char* message, std::size_t size) {
  if (subject().error.empty()) return ATTEST_DONE;
  std::snprintf(message, size, "%s", subject().error.c_str());
  return ATTEST_ERROR;
}

}  // namespace

const attest_subject* attest_plugin(uint32_t abi, size_t* count) {
  if (abi != ATTEST_ABI) return nullptr;
  Subject& self = subject();
  const char* words = std::getenv("ATTEST_HOSTILE");
  const char* describe = std::getenv("ATTEST_HOSTILE_DESCRIBE");
  self.describe =
      describe != nullptr ? describe : R"({"ops":["attention"],"dtypes":["f32"],"contract":{"policy":"f32"}})";
  try {
    self.scheme = read_scheme(words != nullptr ? words : "");
  } catch (const std::exception& error) {
    self.error = error.what();
  }
  static attest_subject table{};
  table.struct_size = sizeof table;
  table.name = "hostile";
  table.version = "1";
  table.describe = self.describe.c_str();
  table.open = open_subject;
  table.attention = attention;
  table.mha = mha;
  *count = 1;
  return &table;
}
