#pragma once
#include <string>
#include <string_view>
#include <vector>

// Policies of several operations in one text, "f16,softmax=f32,layer_norm*=f32", and the names that stages have in all of them: each
// operation's policy_from_text() takes `softmax` and `attention.softmax` alike, and tells who finds none what there is.
namespace attest {

// Whether a pattern of a policy names a stage of an operation: by its own name, or from outside by OPERATION.STAGE, which is what a
// pattern with a dot and one that begins with the operation's name mean. Others do not: `*o*` is not all of attention.
bool names_stage(std::string_view pattern, std::string_view op, std::string_view stage);

// The stages of an operation as its own policies name them; empty of one that has none.
const std::vector<std::string_view>& stages_of(std::string_view op);

// What of a policy's text speaks of one operation.
struct PolicyShare {
  std::string text;                    // for its policy_from_text()
  std::vector<std::string> elsewhere;  // sentences: patterns that match stages of other operations alone
};
// Patterns that match no stage of `op` but one of another operation are left out and told. A text of nothing else is f32, which
// stages follow that nothing names. All else, patterns that match nothing anywhere included, is left to policy_from_text().
PolicyShare policy_share(std::string_view op, std::string_view text);

// "the stages are a, b, c": of an error about a pattern of `op`'s policy that matches none of them; with those of the other
// operations, said from outside.
std::string stages_in_words(std::string_view op);

}  // namespace attest
