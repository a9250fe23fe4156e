// SPDX-License-Identifier: BSD-3-Clause
// The library of products itself: without a device it takes every descriptor, and chooses nothing.
#ifdef NNTILE_HAVE_CUBLASLT
#include <cstdint>
#include <tuple>

#include "kernels/cuda/products.hh"
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

using namespace nntile;
using namespace nntile::kernels::cuda;

TEST_CASE("the library takes what it is told of each product", "[cuda][library]") {
  CublasLt const& library = cublaslt();
  if (!library.missing().empty()) return test::skip(library.missing());
  library.check();
  cublasLtHandle_t handle = nullptr;
  bool const has_device = library.create(&handle) == CUBLAS_STATUS_SUCCESS;
  struct Types {
    cudaDataType_t element, result, scale;
    cublasComputeType_t compute;
  };
  for (Types const& types : {Types{CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
                             {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                             {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
                             {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                             {CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                             {CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F}}) {
    ProductShape const shape{.element = types.element,
                             .result = types.result,
                             .scale = types.scale,
                             .compute = types.compute,
                             .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                             .m = 64,
                             .n = 32,
                             .k = 16,
                             .batch = 2,
                             .lda = 16,
                             .ldb = 32,
                             .ldc = 72,
                             .a_stride = 1024,
                             .b_stride = 512,
                             .c_stride = 4096,
                             .trans_a = true,
                             .trans_b = true,
                             .align_a = 16,
                             .align_b = 16,
                             .align_c = 16,
                             .align_d = 16,
                             .align_bias = 16,
                             .workspace = 1 << 20};
    // What it refuses of a descriptor is an invalid value; a choice needs a device.
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    try {
      Product const product(handle, shape, &shape);
    } catch (Refused const& refused) {
      status = refused.status;
    }
    CHECK(status == (has_device ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED));
  }
  if (has_device) CHECK(library.destroy(handle) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("the library has an algorithm for each part of a product", "[cuda][library]") {
  CublasLt const& library = cublaslt();
  if (!library.missing().empty()) return test::skip(library.missing());
  cublasLtHandle_t handle = nullptr;
  bool const has_device = library.create(&handle) == CUBLAS_STATUS_SUCCESS;
  float const factor = 0;
  void* const memory = reinterpret_cast<void*>(std::uintptr_t{1} << 40);  // nothing is multiplied
  constexpr Index words = 50257, tokens = 16384, width = 768;
  for (auto const& [element, compute, unit] : {std::tuple{CUDA_R_16BF, CUBLAS_COMPUTE_32F, 8},
                                               {CUDA_R_32F, CUBLAS_COMPUTE_32F, 4},
                                               {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, 4}})
    for (bool const of_rows : {true, false}) {
      Index const column = (words + unit - 1) / unit * unit;
      ProductShape const shape{.element = element,
                               .result = element,
                               .scale = CUDA_R_32F,
                               .compute = compute,
                               .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                               .m = of_rows ? words : width,
                               .n = tokens,
                               .k = of_rows ? width : words,
                               .batch = 1,
                               .lda = width,
                               .ldb = of_rows ? width : column,
                               .ldc = of_rows ? column : width,
                               .a_stride = 0,
                               .b_stride = 0,
                               .c_stride = 0,
                               .trans_a = of_rows,
                               .trans_b = false,
                               .align_a = 16,
                               .align_b = 16,
                               .align_c = 16,
                               .align_d = 16,
                               .align_bias = 16,
                               .workspace = 32 << 20};
      ProductOperands const operands{.alpha = &factor,
                                     .a = memory,
                                     .b = memory,
                                     .beta = &factor,
                                     .c = memory,
                                     .d = memory,
                                     .bias = nullptr,
                                     .workspace = nullptr};
      ProductParts const parts(shape, operands, 1);
      CHECK(parts.all().size() == 2);
      for (ProductPart const& part : parts.all()) {
        INFO(part.shape.m << 'x' << part.shape.n << 'x' << part.shape.k);
        cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
        try {
          Product const product(handle, part.shape, nullptr);
        } catch (Refused const& refused) {
          status = refused.status;
        }
        CHECK(status == (has_device ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED));
      }
    }
  if (has_device) CHECK(library.destroy(handle) == CUBLAS_STATUS_SUCCESS);
}
#else
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

TEST_CASE("the library takes what it is told of each product", "[cuda][library]") {
  nntile::test::skip("built without cublasLt.h");
}
#endif
