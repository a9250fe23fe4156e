// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// A library in cuBLASLt's place: it checks and records its arguments, and computes each product
// on memory of the host from the descriptors alone.

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace nntile::test::cublaslt {

struct Layout {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
  bool operator==(Layout const&) const = default;
};
struct Product {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void const* bias = nullptr;
};

/// A product as it was asked for.
struct Call {
  Product product;
  Layout a, b, c, d;
  double alpha, beta;
  void const* at_a;
  void const* at_b;
  void const* at_c;
  void* at_d;
  void* workspace;
  std::size_t workspace_bytes;
  void* stream;
  void* handle;
};

/// What the library says of itself, and what it does not do.
struct Library {
  int version[3] = {CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH};
  bool fuses = true;                             // has algorithms with epilogues
  bool multiplies = true;                        // has any
  std::int64_t least_rows = 1, least_terms = 1;  // of what it has algorithms for
  bool computes = true;                          // else operands are addresses alone
  cublasStatus_t create = CUBLAS_STATUS_SUCCESS, multiply = CUBLAS_STATUS_SUCCESS;
};

/// Begins anew: nothing of before may be in use.
void reset(Library const& library = {});
std::vector<Call> const& calls();
/// How often an algorithm was chosen.
int choices();
/// What was wrong, in words; empty: nothing.
std::vector<std::string> const& errors();
/// Handles, descriptors, layouts and preferences that were made and not destroyed.
int live_objects();

}  // namespace nntile::test::cublaslt
