#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

// Files of JSON lines that a process may die over at any instant, and the folders that hold them.
namespace attest::engine {

// Calls `read` for each whole line; cuts off a last line that a kill left unfinished. Nothing for a file that is not
// there. Throws Error(usage) naming the line for one that is no JSON.
void for_each_line(const std::filesystem::path& file, const std::function<void(const nlohmann::json&)>& read);
// The same with the text of each line, of a file that is another's: it is left as it is.
void read_lines(const std::filesystem::path& file,
                const std::function<void(const nlohmann::json&, std::string_view)>& read);

// Calls `read` for the last of these lines, if there is one. Throws likewise, and Error(usage) where `read` throws
// nlohmann's exceptions.
void for_last_line(const std::filesystem::path& file, const std::function<void(const nlohmann::json&)>& read);

// A file that lines are appended to, whole or not at all.
class JsonLines {
 public:
  // Throws Error(usage) if it cannot be written.
  explicit JsonLines(std::filesystem::path file);
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  // Lines with their ends. Throws Error(usage) if they cannot be written, a full disk for one; nothing of them stands
  // there then.
  void append(const std::string& lines);

 private:
  std::filesystem::path file_;
  int descriptor_;
};

// A folder that one campaign alone has, as long as this lives.
class FolderLock {
 public:
  // Makes the folder. Throws Error(usage) if it cannot be written, or is another's.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

// Keeps campaigns out of a folder while others read it, as long as this lives.
class FolderHold {
 public:
  // Throws Error(usage) if a campaign has it. A folder that no campaign ever had needs no hold.
  explicit FolderHold(const std::filesystem::path& folder);
  ~FolderHold();
  FolderHold(FolderHold&& other) noexcept;
  FolderHold& operator=(FolderHold&& other) noexcept;

 private:
  int descriptor_;
};

// Writes `given` into campaign.json of the folder, or holds what is there against it. Throws Error(usage) naming the
// first of its keys that differs.
void keep_identity(const std::filesystem::path& folder, const nlohmann::ordered_json& given);

}  // namespace attest::engine
