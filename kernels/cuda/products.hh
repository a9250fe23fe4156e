#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Products by cuBLASLt: each shape's descriptors and algorithm are made once for a device, and
// kept.

#include <cuda_runtime_api.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

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

/// A product of the library.
struct ProductPart {
  ProductShape shape;
  ProductOperands operands;
};

/// The library's products in place of one, in their order: that itself, or parts whose extents
/// along memory are whole units of 16 bytes, and parts of the few rows, columns or terms that are
/// left.
///
/// An extent along memory that is odd makes the library move that operand a few bytes at once,
/// however well its columns are aligned. On an H200, of GPT-2's logits, 50,257 rows in columns of
/// 50,264, the product ran at an eighth, the sum over them at a seventh, and that over tokens at
/// three fifths of the rate in parts.
///
/// A cut along rows or columns changes no sum. Along k the terms that are left are summed first,
/// with beta and without an epilogue, and the others are added. That sum, of less than one term in
/// 512, is rounded to D's type: an error of half a unit of it, below the bound of fast numerics. A
/// sum with beta C may be larger, and a partial sum may exceed the range of fp16: a narrow D is
/// not cut along k there.
class ProductParts {
 public:
  static constexpr std::size_t most_parts = 8;

  /// A product of fewer flops than `least` is whole.
  ProductParts(ProductShape const& shape, ProductOperands const& operands, double least) {
    ProductPart const whole{shape, operands};
    bool const cuts = flops(shape) >= least && is_aligned(shape);
    Index const unit = widest_access / bytes_of(shape.element);
    auto const left = [&](Index extent) {
      return cuts && extent >= least_units * unit ? extent % unit : 0;
    };
    Index const rows = left(shape.m), columns = shape.trans_b ? left(shape.n) : 0;
    Index const terms = adds_terms(whole) ? left(shape.k) : 0;
    if (terms == 0) {
      add(whole, rows, columns);
      return;
    }
    ProductPart first = terms_of(whole, shape.k - terms, terms);
    first.shape.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    first.operands.bias = nullptr;
    first.shape.align_bias = alignment_of(nullptr);
    add(first, rows, columns);
    ProductPart others = terms_of(whole, 0, shape.k - terms);
    others.operands.c = others.operands.d;
    others.operands.beta = &one;
    add(others, rows, columns);
  }

  std::span<ProductPart const> all() const { return {parts_.data(), count_}; }

 private:
  static constexpr Index widest_access = 16;  // bytes
  /// A cut extent is as long: what is left costs a block of the library's, of 64 to 256 rows.
  static constexpr Index least_units = 512;
  static constexpr float one = 1;

  static constexpr Index bytes_of(cudaDataType_t type) {
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
  }
  static void const* at(void const* from, Index elements, cudaDataType_t type) {
    return static_cast<std::byte const*>(from) + elements * bytes_of(type);
  }
  static double flops(ProductShape const& of) {
    return 2.0 * static_cast<double>(of.m) * static_cast<double>(of.n) * static_cast<double>(of.k) *
           static_cast<double>(of.batch);
  }
  /// Whether nothing but extents keeps the library from its widest accesses.
  static bool is_aligned(ProductShape const& of) {
    auto const whole = [](Index elements, cudaDataType_t type) {
      return elements * bytes_of(type) % widest_access == 0;
    };
    for (std::uint32_t const bytes : {of.align_a, of.align_b, of.align_c, of.align_d})
      if (bytes < widest_access) return false;
    return bytes_of(of.element) <= 4 && whole(of.lda, of.element) && whole(of.ldb, of.element) &&
           whole(of.ldc, of.result) && whole(of.a_stride, of.element) &&
           whole(of.b_stride, of.element) && whole(of.c_stride, of.result);
  }
  /// Whether terms lie along memory, and may be summed in parts.
  static bool adds_terms(ProductPart const& of) {
    if (!of.shape.trans_a && of.shape.trans_b) return false;
    if (of.shape.result == CUDA_R_32F) return true;
    return of.shape.result == CUDA_R_16BF && *static_cast<float const*>(of.operands.beta) == 0;
  }

  static ProductPart terms_of(ProductPart part, Index first, Index count) {
    ProductShape& shape = part.shape;
    ProductOperands& x = part.operands;
    x.a = at(x.a, shape.trans_a ? first : first * shape.lda, shape.element);
    x.b = at(x.b, shape.trans_b ? first * shape.ldb : first, shape.element);
    shape.k = count;
    return part;
  }
  static ProductPart rows_of(ProductPart part, Index first, Index count) {
    ProductShape& shape = part.shape;
    ProductOperands& x = part.operands;
    x.a = at(x.a, shape.trans_a ? first * shape.lda : first, shape.element);
    x.c = at(x.c, first, shape.result);
    x.d = const_cast<void*>(at(x.d, first, shape.result));
    if (x.bias != nullptr) x.bias = at(x.bias, first, shape.result);
    shape.m = count;
    return part;
  }
  static ProductPart columns_of(ProductPart part, Index first, Index count) {
    ProductShape& shape = part.shape;
    ProductOperands& x = part.operands;
    x.b = at(x.b, shape.trans_b ? first : first * shape.ldb, shape.element);
    x.c = at(x.c, first * shape.ldc, shape.result);
    x.d = const_cast<void*>(at(x.d, first * shape.ldc, shape.result));
    shape.n = count;
    return part;
  }
  /// The part, without its last rows and columns, and then these. Addresses stay as aligned as they
  /// were.
  void add(ProductPart const& part, Index rows_left, Index columns_left) {
    Index const rows = part.shape.m - rows_left, columns = part.shape.n - columns_left;
    for (auto const& [first, count] : {std::pair(Index{0}, columns), {columns, columns_left}}) {
      if (count == 0) continue;
      ProductPart const of = columns_of(part, first, count);
      parts_[count_++] = rows_of(of, 0, rows);
      if (rows_left > 0) parts_[count_++] = rows_of(of, rows, rows_left);
    }
  }

  std::array<ProductPart, most_parts> parts_;
  std::size_t count_ = 0;
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
  /// Products of fewer flops are not made in parts. A Gflop takes 10 us by the algorithms of odd
  /// extents and 2 us by others: twice that pays for one more launch and one more pass over D.
  double least_in_parts = 2e9;

  /// Queues a product of this shape, or its parts; false where the library has no algorithm for it.
  /// Throws Refused, std::bad_alloc.
  bool multiply(ProductShape const& shape, ProductOperands const& operands, cudaStream_t stream) {
    std::lock_guard const lock(gate_);
    ProductParts const parts(shape, operands, least_in_parts);
    if (queue(parts.all(), stream)) return true;
    ProductPart const whole{shape, operands};
    return parts.all().size() > 1 && queue({&whole, 1}, stream);
  }

 private:
  /// All of them, or none.
  bool queue(std::span<ProductPart const> parts, cudaStream_t stream) {
    std::array<Product*, ProductParts::most_parts> found{};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      found[i] = find(parts[i]);
      if (found[i] == nullptr) return false;
    }
    for (std::size_t i = 0; i < parts.size(); ++i)
      must(found[i]->multiply(handle_.get(), parts[i].operands, stream));
    return true;
  }
  /// Null: there is no algorithm.
  Product* find(ProductPart const& part) {
    auto at = kept_.find(part.shape);
    if (at == kept_.end())
      at = kept_.emplace(part.shape, choose(part.shape, part.operands.bias)).first;
    return at->second.get();
  }
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

  /// Those of the calling thread's device, which live while it holds them: a worker of StarPU's
  /// multiplies without one of these. Throws Refused, std::bad_alloc.
  static std::shared_ptr<Products> here() {
    int device = 0;
    (void)cudaGetDevice(&device);
    All& all = state();
    std::lock_guard const lock(all.gate);
    std::shared_ptr<Products>& products = all.of_device[device];
    if (products == nullptr) products = std::make_shared<Products>();
    return products;
  }

 private:
  struct All {
    std::mutex gate;
    int users = 0;
    std::map<int, std::shared_ptr<Products>> of_device;
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
