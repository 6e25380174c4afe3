#pragma once
#include "oracle/layer_norm/statistics.hpp"

namespace attest::oracle::layer_norm {

// How far the roundings of a sum lead it to one side on average, where what is added has so few bits that they repeat themselves:
// which no kernel of any order can help, and no model of independent roundings tells (docs/layer-norm.md, section 10). Of kernels whose
// order does not look at the numbers; the worst of all lanes that such a sum may be made of.

// Of the mean of x, or of x less the first one (shifted). 0 where welford makes it.
double drift_of_mean(const Numbers& m, const SourceRow& source);
// Of the mean of squares, which is `squares`: of x (RMSNorm, one_pass), of x less the first one (shifted), of x less the mean.
// 0 where welford makes it.
double drift_of_squares(const Numbers& m, const SourceRow& source, const Statistics& row, double squares);

}  // namespace attest::oracle::layer_norm
