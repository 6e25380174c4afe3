#pragma once
#include "core/tensor.hpp"

// Tensors' bits as doubles, exactly, a vector at a time.
namespace attest::oracle {

// Decodes elements of a floating-point type that lie one behind the other.
void decode(DType type, const void* from, Index count, double* to);
// `rows` rows of `count` elements of any floating-point type, `stride` elements apart, whose elements lie one behind
// the other.
struct DenseRows {
  attest_dtype type;
  const void* first;
  Index rows, count, stride;
};
// Decodes rows into doubles and writes zeros behind each row up to whole lanes. Reads past the last element of a row up
// to whole lanes, which the guards of a Tensor cover.
void decode_padded(const DenseRows& from, double* to, Index to_stride);
// Writes eight rows as columns: the c-th numbers of all of them at to + c * to_stride. Reads whole lanes of columns.
void turn_eight(const double* rows, Index stride, Index columns, double* to, Index to_stride);
// decode_padded() of the rows' columns, a row of `to` for each: zeros behind it where `rows` are no whole lanes.
void decode_turned(const DenseRows& from, double* to, Index to_stride);

}  // namespace attest::oracle
