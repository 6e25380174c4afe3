#pragma once
#include <nlohmann/json_fwd.hpp>

#include <vector>

#include "core/documents.hpp"
#include "core/forms.hpp"

namespace attest {

// Reads `documents` of describe: an object of sentences, or of lists of them, by what they are about. Throws
// Error(usage) naming a key that is nothing of a call, or a form that `forms` does not offer.
std::vector<Quote> read_documents(const nlohmann::json& documents, const std::vector<FormOffer>& forms);

}  // namespace attest
