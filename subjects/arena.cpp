#include "subjects/arena.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "subjects/descriptor.hpp"

namespace attest {
namespace {

constexpr std::size_t smallest = std::size_t{1} << 20, most = std::size_t{1} << 42;

Error failure(const char* what) {
  return internal_error(std::string("the memory shared with a worker cannot be ") + what + ": " + std::strerror(errno));
}

}  // namespace

Arena::Arena() : file_(out_of_the_way(::memfd_create("attest", MFD_CLOEXEC | MFD_ALLOW_SEALING))) {
  if (file_ < 0) throw failure("made");
  rlimit longest{};
  room_ = ::getrlimit(RLIMIT_FSIZE, &longest) == 0 ? std::min<std::size_t>(most, longest.rlim_cur) : most;
  const bool made = ::ftruncate(file_, static_cast<off_t>(room_)) == 0;
  if (made && ::fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) return;
  const Error why = failure(made ? "sealed" : "made");
  ::close(file_);
  throw why;
}

Arena::Arena(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  if (file_ < 0) throw failure("opened");
}

Arena::~Arena() {
  if (data_ != nullptr) ::munmap(data_, size_);
  if (file_ >= 0) ::close(file_);
}

void Arena::grow(std::size_t size) {
  if (size <= size_) return;
  if (size > room_)
    throw usage_error("the memory shared with a worker counts as a file here, and files may not be as long as the " +
                      std::to_string(size) + " bytes that this problem takes: raise their limit (ulimit -f)");
  map(std::min(std::max({size, smallest, size_ + size_ / 2}), room_));
}

void Arena::write(std::string_view bytes) const {
  for (off_t at = 0; !bytes.empty();) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), at);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) throw failure("written");
    bytes.remove_prefix(static_cast<std::size_t>(written));
    at += written;
  }
}

void Arena::empty() noexcept {
  if (data_ != nullptr) ::madvise(data_, size_, MADV_REMOVE);
}

void Arena::map(std::size_t size) {
  if (size <= size_) return;
  struct stat status {};
  if (::fstat(file_, &status) != 0 || static_cast<std::size_t>(status.st_size) < size) {
    errno = EINVAL;
    throw failure("mapped: it is smaller than announced");
  }
  void* fresh = data_ == nullptr ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0)
                                 : ::mremap(data_, size_, size, MREMAP_MAYMOVE);
  if (fresh == MAP_FAILED) throw failure("mapped");
  data_ = static_cast<std::byte*>(fresh);
  size_ = size;
}

}  // namespace attest
