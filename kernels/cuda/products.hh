#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products by cuBLASLt: each shape's descriptors and algorithm are made once for a device, and
// kept.

#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/cuda/cublaslt.hh"
#include "nntile/core/shape.hh"

namespace nntile::kernels::cuda {

/// The status of a call of the library that was no success.
struct Refused {
  cublasStatus_t status;
};
inline void must(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw Refused{status};
}

/// D[m,n,b] = epilogue(alpha sum_k op(A)[m,k,b] op(B)[k,n,b] + beta C[m,n,b] + bias[m]), C and D
/// laid out alike: all that the choice of an algorithm depends on.
struct ProductShape {
  cudaDataType_t element, result, scale;
  cublasComputeType_t compute;
  cublasLtEpilogue_t epilogue;
  Index m, n, k, batch;
  Index lda, ldb, ldc, a_stride, b_stride, c_stride;
  bool trans_a, trans_b;
  /// Powers of two that divide the addresses; the widest access to memory is of 16 bytes.
  std::uint32_t align_a, align_b, align_c, align_d, align_bias;  // the last 16 where there is none
  std::size_t workspace;                                         // bytes that are lent
  auto operator<=>(ProductShape const&) const = default;
};

inline std::uint32_t alignment_of(void const* pointer) {
  auto const address = reinterpret_cast<std::uintptr_t>(pointer);
  for (std::uint32_t bytes = 16; bytes > 1; bytes /= 2)
    if (address % bytes == 0) return bytes;
  return 1;
}

/// The factors are of type `scale`.
struct ProductOperands {
  void const* alpha;
  void const* a;
  void const* b;
  void const* beta;
  void const* c;
  void* d;
  void const* bias;
  void* workspace;
};

/// An object of the library, which its end gives back.
template <class Object, auto destroy> class Owned {
 public:
  template <class Create> explicit Owned(Create create) { must(create(&object_)); }
  Owned(Owned const&) = delete;
  Owned& operator=(Owned const&) = delete;
  ~Owned() { (void)(cublaslt().*destroy)(object_); }
  Object get() const { return object_; }

 private:
  Object object_ = nullptr;
};

/// Descriptors and algorithm of one shape. Throws Refused where the library has none.
class Product {
 public:
  Product(cublasLtHandle_t handle, ProductShape const& of, void const* bias)
      : product_([&](auto* at) { return cublaslt().create_product(at, of.compute, of.scale); }),
        a_([&](auto* at) {
          return layout(at, of.element, of.trans_a ? of.k : of.m, of.trans_a ? of.m : of.k, of.lda);
        }),
        b_([&](auto* at) {
          return layout(at, of.element, of.trans_b ? of.n : of.k, of.trans_b ? of.k : of.n, of.ldb);
        }),
        c_([&](auto* at) { return layout(at, of.result, of.m, of.n, of.ldc); }),
        workspace_bytes_(of.workspace) {
    set(CUBLASLT_MATMUL_DESC_TRANSA, of.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, of.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, of.epilogue);
    if (bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    set_batch(a_.get(), of.batch, of.a_stride);
    set_batch(b_.get(), of.batch, of.b_stride);
    set_batch(c_.get(), of.batch, of.c_stride);
    Preference const wanted([](auto* at) { return cublaslt().create_preference(at); });
    auto const prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      must(cublaslt().set_preference(wanted.get(), attribute, &value, sizeof value));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{of.workspace});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of.align_a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of.align_b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of.align_c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of.align_d);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    must(cublaslt().choose(handle, product_.get(), a_.get(), b_.get(), c_.get(), c_.get(),
                           wanted.get(), 1, &best, &found));
    must(found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : best.state);
    algorithm_ = best.algo;
  }

  cublasStatus_t multiply(cublasLtHandle_t handle, ProductOperands const& x, cudaStream_t stream) {
    if (x.bias != nullptr) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, x.bias);
    return cublaslt().multiply(handle, product_.get(), x.alpha, x.a, a_.get(), x.b, b_.get(),
                               x.beta, x.c, c_.get(), x.d, c_.get(), &algorithm_, x.workspace,
                               workspace_bytes_, stream);
  }

 private:
  using Layout = Owned<cublasLtMatrixLayout_t, &CublasLt::destroy_layout>;
  using Preference = Owned<cublasLtMatmulPreference_t, &CublasLt::destroy_preference>;

  static cublasStatus_t layout(cublasLtMatrixLayout_t* at, cudaDataType_t type, Index rows,
                               Index columns, Index ld) {
    return cublaslt().create_layout(at, type, static_cast<std::uint64_t>(rows),
                                    static_cast<std::uint64_t>(columns), ld);
  }
  static void set_batch(cublasLtMatrixLayout_t of, Index batch, Index stride) {
    if (batch == 1) return;
    auto const count = static_cast<std::int32_t>(batch);
    must(cublaslt().set_layout(of, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    must(cublaslt().set_layout(of, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                               sizeof stride));
  }
  template <class T> void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    must(cublaslt().set_product(product_.get(), attribute, &value, sizeof value));
  }

  Owned<cublasLtMatmulDesc_t, &CublasLt::destroy_product> product_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_;
};

/// The products of one device, which is the calling thread's at every call. Any thread may call it.
class Products {
 public:
  /// Queues a product of this shape; false where the library has no algorithm for it. Throws
  /// Refused, std::bad_alloc.
  bool multiply(ProductShape const& shape, ProductOperands const& operands, cudaStream_t stream) {
    std::lock_guard const lock(gate_);
    auto at = kept_.find(shape);
    if (at == kept_.end()) at = kept_.emplace(shape, choose(shape, operands.bias)).first;
    if (at->second == nullptr) return false;
    must(at->second->multiply(handle_.get(), operands, stream));
    return true;
  }

 private:
  std::unique_ptr<Product> choose(ProductShape const& shape, void const* bias) {
    try {
      return std::make_unique<Product>(handle_.get(), shape, bias);
    } catch (Refused const& refused) {
      if (refused.status == CUBLAS_STATUS_NOT_SUPPORTED) return nullptr;
      throw;
    }
  }

  std::mutex gate_;
  Owned<cublasLtHandle_t, &CublasLt::destroy> handle_{
      [](auto* at) { return cublaslt().create(at); }};
  std::map<ProductShape, std::unique_ptr<Product>> kept_;  // null: there is no algorithm
};

/// The products of every device, while one of these lives; else until the process ends.
class KeptProducts {
 public:
  KeptProducts() { change(1); }
  KeptProducts(KeptProducts const&) = delete;
  KeptProducts& operator=(KeptProducts const&) = delete;
  ~KeptProducts() { change(-1); }

  /// Those of the calling thread's device. Throws Refused, std::bad_alloc.
  static Products& here() {
    int device = 0;
    (void)cudaGetDevice(&device);
    All& all = state();
    std::lock_guard const lock(all.gate);
    std::unique_ptr<Products>& products = all.of_device[device];
    if (products == nullptr) products = std::make_unique<Products>();
    return *products;
  }

 private:
  struct All {
    std::mutex gate;
    int users = 0;
    std::map<int, std::unique_ptr<Products>> of_device;
  };
  /// Never destroyed: at the end of the process the library may have ended before.
  static All& state() {
    static All& all = *new All;
    return all;
  }
  static void change(int by) {
    All& all = state();
    std::lock_guard const lock(all.gate);
    if ((all.users += by) == 0) all.of_device.clear();
  }
};

}  // namespace nntile::kernels::cuda
