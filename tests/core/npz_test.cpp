// .npz and .npy files: what we read, and one sentence for every damage.
#include "core/npz.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <functional>

#include "core/error.hpp"

namespace attest {
namespace {

std::string put(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string npy(const std::string& header, const std::string& data) {
  return std::string("\x93NUMPY\x01\x00", 8) + put(header.size(), 2) + header + data;
}
std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string data;
  for (const T x : values) data.append(reinterpret_cast<const char*>(&x), sizeof x);
  return data;
}

std::string deflated(const std::string& data) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// A member and what may be wrong with it.
struct Member {
  std::string name, data;
  bool compress = false;
  std::uint64_t method = 0, flags = 0, attributes = 0;
  std::int64_t extra_size = 0;  // added to the size that the directory states
  std::uint32_t crc_change = 0;
};

std::string zip(const std::vector<Member>& members) {
  std::string file, directory;
  for (const Member& m : members) {
    const std::string stored = m.compress ? deflated(m.data) : m.data;
    const auto crc = static_cast<std::uint32_t>(
                         crc32(0, reinterpret_cast<const Bytef*>(m.data.data()), static_cast<uInt>(m.data.size()))) ^
                     m.crc_change;
    const std::string common =
        put(20, 2) + put(m.flags, 2) + put(m.compress ? 8 : m.method, 2) + put(0, 4) + put(crc, 4) +
        put(stored.size(), 4) +
        put(static_cast<std::uint64_t>(static_cast<std::int64_t>(m.data.size()) + m.extra_size), 4) +
        put(m.name.size(), 2) + put(0, 2);
    directory +=
        put(0x02014b50, 4) + put(20, 2) + common + put(0, 6) + put(m.attributes, 4) + put(file.size(), 4) + m.name;
    file += put(0x04034b50, 4) + common + m.name + stored;
  }
  return file + directory + put(0x06054b50, 4) + put(0, 4) + put(members.size(), 2) + put(members.size(), 2) +
         put(directory.size(), 4) + put(file.size(), 4) + put(0, 2);
}

std::vector<NamedArray> read(const std::string& file, std::uint64_t most = most_array_bytes) {
  return read_npz(std::as_bytes(std::span(file)), "x.npz", most);
}

// The one sentence with which `file` is refused.
std::string refusal(const std::string& file, std::uint64_t most = most_array_bytes) {
  try {
    read(file, most);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit(), Exit::usage);
    return error.what();
  }
  return "(read)";
}

const std::string six = bytes_of<float>({1, 2, 3, 4, 5, 6});

TEST(Npz, ReadsEveryTypeStoredAndDeflated) {
  for (const bool compress : {false, true}) {
    const auto arrays = read(zip({{"a.npy", npy(header("<f4", "(2, 3)"), six), compress},
                                  {"b.npy", npy(header("<f2", "(1,)"), bytes_of<std::uint16_t>({0x3e00})), compress},
                                  {"c.npy", npy(header("<f8", "()"), bytes_of<double>({0.1})), compress},
                                  {"d.npy", npy(header("|b1", "(2,)"), std::string("\0\1", 2)), compress},
                                  {"e.npy", npy(header("<i4", "(1,)"), bytes_of<std::int32_t>({-7})), compress},
                                  {"f.npy", npy(header("<i8", "(1,)"), bytes_of<std::int64_t>({-8})), compress},
                                  {"g.npy", npy(header("<u2", "(1,)"), bytes_of<std::uint16_t>({0x3fc0})), compress},
                                  {"h.npy", npy(header("<u2", "(1,)"), bytes_of<std::uint16_t>({3})), compress},
                                  {"i.npy", npy(header("|O", "(1,)"), "pickle"), compress},
                                  {"manifest.json", R"({"dtypes": {"g": "bf16"}})", compress},
                                  {"readme.txt", "passed over", compress}}));
    ASSERT_EQ(arrays.size(), 9u);
    EXPECT_EQ(arrays[0].described(), "f32 [2, 3]");
    EXPECT_EQ(arrays[0].at(5), 6);
    EXPECT_EQ(arrays[1].at(0), 1.5);
    EXPECT_EQ(arrays[2].at(0), 0.1);
    EXPECT_EQ(arrays[3].at(0), 0);
    EXPECT_EQ(arrays[3].at(1), 1);
    EXPECT_EQ(arrays[4].at(0), -7);
    EXPECT_EQ(arrays[5].at(0), -8);
    EXPECT_EQ(arrays[6].type, NamedArray::Type::bf16);
    EXPECT_EQ(arrays[6].at(0), 1.5);
    EXPECT_EQ(arrays[7].type, NamedArray::Type::u16);
    EXPECT_EQ(arrays[8].type, NamedArray::Type::other);
    EXPECT_EQ(arrays[8].described(), "|O [1]");
  }
}

TEST(Npz, ReadsFortranOrderAsTheSameElements) {
  const auto arrays = read(zip({{"a.npy", npy(header("<f4", "(2, 3)", true), bytes_of<float>({1, 4, 2, 5, 3, 6}))}}));
  for (Index i = 0; i < 6; ++i) EXPECT_EQ(arrays[0].at(i), static_cast<double>(i + 1));
}

TEST(Npz, ReadsEmptyArraysAndArchives) {
  EXPECT_TRUE(read(zip({})).empty());
  EXPECT_EQ(read(zip({{"a.npy", npy(header("<f4", "(3, 0)"), "")}}))[0].size(), 0);
}

TEST(Npz, RefusesEveryTruncation) {
  const std::string whole =
      zip({{"a.npy", npy(header("<f4", "(2, 3)"), six), true}, {"b.npy", npy(header("<f4", "(2, 3)"), six)}});
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "(read)") << size;
}

TEST(Npz, SurvivesEveryChangedByte) {
  const std::string whole =
      zip({{"a.npy", npy(header("<f4", "(2, 3)"), six), true}, {"b.npy", npy(header("<f4", "(2, 3)"), six)}});
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      refusal(changed);  // read or refused with one sentence, never worse
    }
}

TEST(Npz, SaysWhatIsWrong) {
  const std::string good = npy(header("<f4", "(2, 3)"), six);
  const auto says = [](const Member& member, const std::string& word, std::uint64_t most = most_array_bytes) {
    const std::string sentence = refusal(zip({member}), most);
    EXPECT_NE(sentence.find(word), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("x.npz"), std::string::npos) << sentence;
  };
  EXPECT_NE(refusal("").find("truncated"), std::string::npos);
  says({.name = "a.npy", .data = good, .crc_change = 1}, "checksum");
  says({.name = "a.npy", .data = good, .flags = 1}, "encrypted");
  says({.name = "a.npy", .data = good, .attributes = 0xa1ff0000}, "symbolic link");
  says({.name = "a.npy", .data = good, .method = 12}, "compression method 12");
  says({.name = "a.npy", .data = good, .extra_size = 1}, "cannot hold");
  says({.name = "a.npy", .data = good, .compress = true, .extra_size = 1}, "size its directory states");
  says({.name = "a.npy", .data = good, .compress = true, .extra_size = -1}, "size its directory states");
  says({.name = "a.npy", .data = good, .compress = true, .extra_size = 0x7f000000}, "cannot hold");
  says({.name = "a.npy", .data = good}, "memory", good.size() - 1);
  says({.name = "a.npy", .data = npy(header("<f4", "(2, 4)"), six)}, "8 elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(1000000000, 1000000000)"), six)}, "1000000000000000000 elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(4611686018427387904, 4)"), six)}, "more elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(4611686018427387904, 4, 0)"), six)}, "more elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(99999999999999999999,)"), six)}, "count of elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(-1,)"), six)}, "count of elements");
  says({.name = "a.npy", .data = npy(header("<f4", "(1,1,1,1,1,1,1,1,1)"), six)}, "more than 8 axes");
  says({.name = "a.npy", .data = npy("{'descr': '<f4'}", six)}, "lacks");
  says({.name = "a.npy", .data = npy("{'descr': '<f4', 'descr': '<f4'}", six)}, "twice");
  says({.name = "a.npy", .data = npy("{'descr': '<f4", six)}, "quoted word");
  says({.name = "a.npy", .data = "text"}, "does not begin");
  says({.name = "a.npy", .data = std::string("\x93NUMPY\x02\x00", 8) + put(0xffffffff, 4)}, "64 KiB");
  EXPECT_NE(refusal(zip({{"a.npy", good}, {"a.npy", good}})).find("two members"), std::string::npos);
  std::string zip64 = zip({{"a.npy", good}});
  std::memset(zip64.data() + zip64.size() - 6, 0xff, 4);
  EXPECT_NE(refusal(zip64).find("zip64"), std::string::npos);
}

// A megabyte of zeros in a kilobyte: fits the ratio of deflate, and stops at the limit before it is expanded.
TEST(Npz, StopsABombAtTheLimit) {
  const std::string zeros(1 << 20, '\0');
  const std::string bomb = zip({{"a.npy", npy(header("|b1", "(1048576,)"), zeros), true}});
  EXPECT_LT(bomb.size(), 4096u);
  EXPECT_NE(refusal(bomb, 1 << 19).find("memory"), std::string::npos);
  EXPECT_EQ(read(bomb)[0].size(), 1 << 20);
}

TEST(Npz, LoadsRegularFilesAlone) {
  for (const char* path : {"/dev/zero", ".", "/nowhere/x.npz"}) EXPECT_THROW(load_npz(path), Error) << path;
}

}  // namespace
}  // namespace attest
