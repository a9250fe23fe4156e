// SPDX-License-Identifier: BSD-3-Clause
// The library of products itself: without a device it takes every descriptor, and chooses nothing.
#ifdef NNTILE_HAVE_CUBLASLT
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
#else
#include "tests/support/catch.hh"
#include "tests/support/skip.hh"

TEST_CASE("the library takes what it is told of each product", "[cuda][library]") {
  nntile::test::skip("built without cublasLt.h");
}
#endif
