#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace attest {

// Shared memory that a worker process maps too. Its file is as long as it will ever be and sealed: whoever has it can
// make it neither shorter, so that a look at it would end who looks, nor longer, nor seal it against others. Pages are
// there once they are written.
class Arena {
 public:
  // Throws Error(internal) if the system gives no shared memory.
  Arena();
  // Maps what another process made. Throws Error(internal) if `path` cannot be opened.
  explicit Arena(const std::string& path);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Makes the first `size` bytes usable; the mapping may move. Throws Error(internal) when memory runs out.
  void grow(std::size_t size);
  void map(std::size_t size);  // the same for memory that the other side grew
  // Copies `bytes` to its beginning, for which there must be room, and keeps no page of them in this process. Throws
  // Error(internal) when memory runs out.
  void write(std::string_view bytes) const;
  // Gives back what it holds, and keeps its size: all of it is 0 then.
  void empty() noexcept;

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] int file() const noexcept { return file_; }

 private:
  int file_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace attest
