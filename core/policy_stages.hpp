#pragma once
#include <string>
#include <string_view>
#include <vector>

// Policies of several operations in one text, "f16,softmax=f32,layer_norm*=f32", and the names that stages have in all
// of them. Each operation's policy_from_text() takes `softmax` and `attention.softmax` alike, and lists the stages
// where a name matches none.
namespace attest {

// Tells whether a pattern of a policy names a stage of an operation: by its own name, or from outside by
// OPERATION.STAGE. A pattern with a dot and one that begins with the operation's name are from outside. Others are not:
// `*o*` is not all of attention.
bool names_stage(std::string_view pattern, std::string_view op, std::string_view stage);

// The stages of an operation as its own policies name them; empty of one that has none.
const std::vector<std::string_view>& stages_of(std::string_view op);

// The part of a policy's text about one operation.
struct PolicyShare {
  std::string text;                    // for its policy_from_text()
  std::vector<std::string> elsewhere;  // sentences: patterns that match stages of other operations alone
};
// Returns the part of `text` about `op`. Patterns that match no stage of `op` but one of another operation are left out
// and listed. A text of nothing else is f32, which all other stages follow. The rest, patterns that match nothing
// anywhere included, is left to policy_from_text().
PolicyShare policy_share(std::string_view op, std::string_view text);

// Returns "the stages are a, b, c", for an error about a pattern of `op`'s policy that matches none of them; with the
// stages of the other operations, named from outside.
std::string stages_in_words(std::string_view op);

}  // namespace attest
