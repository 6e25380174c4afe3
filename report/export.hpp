#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/documents.hpp"
#include "engine/corpus.hpp"

namespace attest::report {

// A reproducer with its tensors, ready to be written for somebody who does not have attest.
struct Exported {
  const engine::Entry& entry;
  const ops::Exchange& call;
  bool answered = false;  // the outputs of `call` are what the subject returned just now
  // Python that leaves the subject's answer in `got`, and stages that the call asks for in `given` by their names;
  // empty: the recorded output is printed.
  std::string subject_code;
  // The calls of entry.after, with code like subject_code; empty where the subject has none.
  struct Earlier {
    const engine::EarlierCall& call;
    std::unique_ptr<ops::Exchange> exchange;
    std::string code;
  };
  std::vector<Earlier> earlier{};
};

// A self-contained script: literal tensors, what this problem asks for in float64, the subject's answer, and
// both at the witness. Needs NumPy, and what subject_code needs.
std::string python_script(const Exported& exported);

// A draft of an issue for the tracker of whoever keeps the kernel, in Markdown: title, what happens and what is
// expected, what the documents say, the script of python_script(), what was tried, the environment. `documents`: the
// subject's. `system`: the machine on which the subject was asked.
std::string issue_text(const Exported& exported, std::span<const Quote> documents, std::string_view system);

// Tensors as an uncompressed .npz: inputs, and outputs where the subject was asked, by their names; bf16 as uint16. A
// member manifest.json holds the problem, the policy, the contract and the dtypes. Throws Error(usage) if it cannot be
// written.
void write_npz(const Exported& exported, const std::filesystem::path& file);

// A program in C++20 for the suite of whoever keeps the kernel: the tensors, packed row by row, and what a kernel that
// keeps the contract may return for each element; who has the kernel writes the body of run(). It ends with 1 where an
// element is outside. Needs no attest. Throws Error(usage) where there are more numbers than a source file should hold.
std::string cpp_program(const engine::Entry& entry, ops::Exchange& call);

}  // namespace attest::report
