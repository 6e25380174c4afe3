#include "oracle/layer_norm/quick.hpp"

namespace attest::oracle::layer_norm {

QuickRow::QuickRow(const Contract&, const Numbers& numbers, const Params& params, const Rounding& round)
    : m_(numbers), params_(params), round_(round), speaks_(false) {}

bool QuickRow::accept(const SourceRow&, std::span<const double>, std::span<std::uint8_t>) { return speaks_; }

}  // namespace attest::oracle::layer_norm
