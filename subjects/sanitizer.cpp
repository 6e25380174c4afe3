#include "subjects/sanitizer.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <vector>

#include "core/nest.hpp"
#include "core/tensor.hpp"

namespace attest {
namespace {

// ---- what a shared object wants -------------------------------------------------------------------------------------

constexpr std::uint64_t most_table_bytes = std::uint64_t{1} << 28;

// The objects of a table in a file; empty if it does not hold them.
template <class T>
std::vector<T> read_table(std::ifstream& file, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes > most_table_bytes) return {};
  std::vector<T> table(bytes / sizeof(T));
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(table.data()), static_cast<std::streamsize>(table.size() * sizeof(T)));
  return file ? table : std::vector<T>();
}

std::string_view name_at(const std::vector<char>& names, std::uint64_t offset) {
  if (offset >= names.size()) return {};
  return {names.data() + offset, ::strnlen(names.data() + offset, names.size() - offset)};
}

// The newest of clang's.
std::string clang_runtime() {
  constexpr std::array patterns{"/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.asan-*.so",
                                "/usr/lib/clang/*/lib/linux/libclang_rt.asan-*.so",
                                "/usr/lib*/clang/*/lib/*-linux-gnu/libclang_rt.asan.so"};
  std::string found;
  for (const char* pattern : patterns) {
    glob_t files{};
    if (::glob(pattern, 0, nullptr, &files) == 0)
      for (std::size_t n = 0; n < files.gl_pathc; ++n)
        if (std::string_view(files.gl_pathv[n]).find("i386") == std::string_view::npos) found = files.gl_pathv[n];
    ::globfree(&files);
    if (!found.empty()) break;
  }
  return found;
}

bool is_loaded() { return ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr; }

// ---- poisoning ------------------------------------------------------------------------------------------------------

// ASAN's own interface (sanitizer/asan_interface.h): null in a process without it.
using Region = void (*)(const volatile void*, std::size_t);
Region function(const char* name) { return reinterpret_cast<Region>(::dlsym(RTLD_DEFAULT, name)); }
void poison(std::span<std::byte> bytes) {
  static const Region region = function("__asan_poison_memory_region");
  if (region != nullptr && !bytes.empty()) region(bytes.data(), bytes.size());
}
void unpoison(std::span<std::byte> bytes) {
  static const Region region = function("__asan_unpoison_memory_region");
  if (region != nullptr && !bytes.empty()) region(bytes.data(), bytes.size());
}

// Calls visit(bytes) for each part of each tensor, guards and all, as far as it lies in the memory.
template <class Visit>
void for_each_part(const Call& call, std::span<std::byte> memory, Visit&& visit) {
  for (const auto slot : call.shape().tensors) {
    const attest_tensor& view = call.tensor(slot);
    if (!attest_present(&view)) continue;
    const MemoryParts parts = parts_of(view);
    for (std::size_t n = 0; n < parts.count; ++n) {
      const std::span<std::byte> part = parts.part(n);
      std::byte* const first = std::max(part.data(), memory.data());
      std::byte* const last = std::min(part.data() + part.size(), memory.data() + memory.size());
      if (first < last) visit(std::span(first, last));
    }
  }
}

void unpoison_elements(const attest_tensor& view) {
  std::array<std::int64_t, 4> shape{1, 1, 1, 1}, strides{};
  std::copy_n(view.shape, view.ndim, shape.begin());
  std::copy_n(view.strides, view.ndim, strides.begin());
  const Nest nest(shape.data(), strides.data());
  const std::size_t width = view.dtype.bits / 8u;
  auto* const first = static_cast<std::byte*>(view.data) + view.byte_offset;
  for_each_run(nest, [&](Index at) {
    std::byte* const run = first + at * static_cast<Index>(width);
    const auto count = static_cast<std::size_t>(nest.extent[0]), step = static_cast<std::size_t>(nest.stride[0]);
    if (step <= 1) return unpoison({run, (step == 0 ? 1 : count) * width});
    for (std::size_t n = 0; n < count; ++n) unpoison({run + n * step * width, width});
  });
}

}  // namespace

std::string wanted_sanitizer(const std::filesystem::path& plugin) {
  std::ifstream file(plugin, std::ios::binary);
  const auto heads = read_table<Elf64_Ehdr>(file, 0, sizeof(Elf64_Ehdr));
  if (heads.empty()) return {};
  const Elf64_Ehdr& head = heads.front();
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_shentsize != sizeof(Elf64_Shdr))
    return {};
  const auto sections = read_table<Elf64_Shdr>(file, head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr));
  bool uses = false;
  for (const Elf64_Shdr& section : sections) {
    if ((section.sh_type != SHT_DYNAMIC && section.sh_type != SHT_DYNSYM) || section.sh_link >= sections.size())
      continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = read_table<char>(file, strings.sh_offset, strings.sh_size);
    if (section.sh_type == SHT_DYNAMIC) {
      for (const Elf64_Dyn& entry : read_table<Elf64_Dyn>(file, section.sh_offset, section.sh_size)) {
        if (entry.d_tag != DT_NEEDED) continue;
        const std::string_view name = name_at(names, entry.d_un.d_val);
        if (name.starts_with("libasan.so")) return std::string(name);
        uses |= name.starts_with("libclang_rt.asan");
      }
    } else {
      for (const Elf64_Sym& symbol : read_table<Elf64_Sym>(file, section.sh_offset, section.sh_size))
        uses |= symbol.st_shndx == SHN_UNDEF && name_at(names, symbol.st_name) == "__asan_init";
    }
  }
  return uses ? clang_runtime() : std::string();
}

void preload_sanitizer(const char* plugin, char** argv) {
  if (is_loaded()) return;
  const std::string library = wanted_sanitizer(plugin);
  if (library.empty()) return;
  const char* const preloaded = std::getenv("LD_PRELOAD");
  std::string all = preloaded != nullptr ? preloaded : "";
  if (all.find(library) != std::string::npos) return;  // it was tried
  all = library + (all.empty() ? "" : ":" + all);
  ::setenv("LD_PRELOAD", all.c_str(), 1);
  // A report ends as a signal; leaks of a killed process are nobody's concern. The user's options come later, and
  // count.
  const char* const options = std::getenv("ASAN_OPTIONS");
  const std::string ours = "abort_on_error=1:detect_leaks=0";
  ::setenv("ASAN_OPTIONS", (options != nullptr ? ours + ":" + options : ours).c_str(), 1);
  ::execv("/proc/self/exe", argv);
}

PoisonedGaps::PoisonedGaps(const Call& call, std::span<std::byte> memory) : call_(call), memory_(memory) {
  static const bool loaded = is_loaded();
  if (!loaded) return;
  // All that is no element of any: the guard of one view may be elements of another, of one buffer.
  for_each_part(call_, memory_, poison);
  for (const auto slot : call_.shape().tensors)
    if (const attest_tensor& view = call_.tensor(slot); attest_present(&view)) unpoison_elements(view);
}
PoisonedGaps::~PoisonedGaps() {
  static const bool loaded = is_loaded();
  if (loaded) for_each_part(call_, memory_, unpoison);
}

std::string sanitizer_report(const std::filesystem::path& log, pid_t process) {
  constexpr std::streamoff most = 1 << 18;
  // The subject may have put a pipe there, whose reader would wait for ever.
  std::error_code error;
  if (std::filesystem::symlink_status(log, error).type() != std::filesystem::file_type::regular) return {};
  std::ifstream file(log, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg();
  std::string text(static_cast<std::size_t>(std::min(size, most)), '\0');
  file.seekg(size - static_cast<std::streamoff>(text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  const std::size_t report = text.rfind("==" + std::to_string(process) + "==ERROR: AddressSanitizer");
  if (report == std::string::npos) return {};
  constexpr std::string_view head = "SUMMARY: ";
  const std::size_t summary = text.find(head, report);
  if (summary == std::string::npos) return "AddressSanitizer";
  const std::size_t from = summary + head.size();
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace attest
