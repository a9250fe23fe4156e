// SPDX-License-Identifier: BSD-3-Clause
// GEMM of a vendor's library, for Numerics::fast; built once, for the library that option `blas`
// found. The library is loaded when a fast kernel is first looked for, so that programs without one
// need not have it. A task is one thread: the vendor is held to one, per call or per thread where
// it can be.
#include "kernels/cpu/kernel.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/kernel.hh"

#if defined(NNTILE_BLAS_ONEDNN)
#include <dnnl.h>
#define NNTILE_BLAS_LOADED
#elif defined(NNTILE_BLAS_OPENBLAS)
#include <cblas.h>

#include <utility>
#define NNTILE_BLAS_LOADED
#elif defined(NNTILE_BLAS_BLIS)
#if __has_include(<blis/blis.h>)
#include <blis/blis.h>
#else
#include <blis.h>  // Debian
#endif
#define NNTILE_BLAS_LOADED
#elif defined(NNTILE_BLAS_EIGEN)
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>
#endif

#if defined(NNTILE_BLAS_LOADED)
#include <dlfcn.h>
#endif

namespace nntile::kernels {
namespace {

/// C[m,n] = alpha op(A) op(B) + beta C, column-major.
template <class T> struct Product {
  bool trans_a, trans_b;
  Index m, n, k;
  T alpha, beta;
  T const* a;
  T const* b;
  T* c;
  Index lda, ldb, ldc;
};

#if defined(NNTILE_BLAS_LOADED)

/// A library of the system, if it is there. Stays loaded: its threads and tables would not survive
/// more.
class Library {
 public:
  explicit Library(char const* name) noexcept : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}

  /// Sets `function` to the library's, or that of a library that it needs; false where there is
  /// none.
  template <class Function> bool find(Function*& function, char const* name) const noexcept {
    if (handle_ != nullptr) function = reinterpret_cast<Function*>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void* handle_;
};

/// OpenMP's thread count of the calling thread, as far as a library brings OpenMP.
struct OpenMp {
  int (*get)() = nullptr;
  void (*set)(int) = nullptr;

  explicit OpenMp(Library const& library) noexcept {
    (void)(library.find(get, "omp_get_max_threads") && library.find(set, "omp_set_num_threads"));
  }
};

/// Holds OpenMP to one thread for a while.
class OneThread {
 public:
  explicit OneThread(OpenMp const& openmp) : set_(openmp.set) {
    if (set_ == nullptr) return;
    before_ = openmp.get();
    if (before_ > 1) set_(1);
  }
  ~OneThread() {
    if (before_ > 1) set_(before_);
  }
  OneThread(OneThread const&) = delete;
  OneThread& operator=(OneThread const&) = delete;

 private:
  void (*set_)(int);
  int before_ = 1;
};

#endif

#if defined(NNTILE_BLAS_ONEDNN)

#define NNTILE_TEXT_OF(number) #number
#define NNTILE_LIBRARY_OF(major) "libdnnl.so." NNTILE_TEXT_OF(major)

struct Vendor {
  Library library{NNTILE_LIBRARY_OF(DNNL_VERSION_MAJOR)};
  OpenMp openmp{library};
  decltype(&dnnl_sgemm) sgemm = nullptr;
  bool usable = library.find(sgemm, "dnnl_sgemm");
};
Vendor const& vendor() noexcept {
  static Vendor const loaded;
  return loaded;
}

/// Row-major: computes the transpose of all three. There is no product of doubles.
char const* multiply(Product<float> const& x) {
  OneThread const one(vendor().openmp);
  dnnl_status_t const status =
      vendor().sgemm(x.trans_b ? 'T' : 'N', x.trans_a ? 'T' : 'N', x.n, x.m, x.k, x.alpha, x.b,
                     x.ldb, x.a, x.lda, x.beta, x.c, x.ldc);
  return status == dnnl_success ? nullptr : "oneDNN refused the product";
}

#elif defined(NNTILE_BLAS_OPENBLAS)

struct Vendor {
  Library library{"libopenblas.so.0"};
  OpenMp openmp{library};
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&openblas_get_parallel) get_parallel = nullptr;
  decltype(&openblas_get_num_threads) get_num_threads = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  bool usable = library.find(sgemm, "cblas_sgemm") && library.find(dgemm, "cblas_dgemm") &&
                library.find(get_parallel, "openblas_get_parallel") &&
                library.find(get_num_threads, "openblas_get_num_threads") &&
                library.find(set_num_threads, "openblas_set_num_threads");
};
Vendor const& vendor() noexcept {
  static Vendor const loaded;
  return loaded;
}

CBLAS_TRANSPOSE transposition(bool yes) { return yes ? CblasTrans : CblasNoTrans; }

/// Its own threads have one count a process before version 0.3.22; only that is set here, and only
/// if it is not 1.
void hold_to_one_thread() {
  if (vendor().get_parallel() == OPENBLAS_THREAD && vendor().get_num_threads() != 1)
    vendor().set_num_threads(1);
}

/// The reason for which it has no such product; null where it has one.
template <class T> char const* refusal(Product<T> const& x) {
  for (Index const extent : {x.m, x.n, x.k, x.lda, x.ldb, x.ldc})
    if (!std::in_range<blasint>(extent))
      return "OpenBLAS counts rows and columns in 32 bits: take smaller tiles, or exact numerics";
  return nullptr;
}

char const* multiply(Product<float> const& x) {
  if (char const* const why = refusal(x)) return why;
  OneThread const one(vendor().openmp);
  hold_to_one_thread();
  vendor().sgemm(CblasColMajor, transposition(x.trans_a), transposition(x.trans_b),
                 static_cast<blasint>(x.m), static_cast<blasint>(x.n), static_cast<blasint>(x.k),
                 x.alpha, x.a, static_cast<blasint>(x.lda), x.b, static_cast<blasint>(x.ldb),
                 x.beta, x.c, static_cast<blasint>(x.ldc));
  return nullptr;
}
char const* multiply(Product<double> const& x) {
  if (char const* const why = refusal(x)) return why;
  OneThread const one(vendor().openmp);
  hold_to_one_thread();
  vendor().dgemm(CblasColMajor, transposition(x.trans_a), transposition(x.trans_b),
                 static_cast<blasint>(x.m), static_cast<blasint>(x.n), static_cast<blasint>(x.k),
                 x.alpha, x.a, static_cast<blasint>(x.lda), x.b, static_cast<blasint>(x.ldb),
                 x.beta, x.c, static_cast<blasint>(x.ldc));
  return nullptr;
}

#elif defined(NNTILE_BLAS_BLIS)

struct Vendor {
  Library library{"libblis.so.4"};
  decltype(&bli_rntm_init) init = nullptr;
  decltype(&bli_sgemm_ex) sgemm = nullptr;
  decltype(&bli_dgemm_ex) dgemm = nullptr;
  bool usable = library.find(sgemm, "bli_sgemm_ex") && library.find(dgemm, "bli_dgemm_ex");
};
Vendor const& vendor() noexcept {
  static Vendor const loaded;
  return loaded;
}

/// BLIS takes the thread count with the call.
template <class T, class Function> char const* multiply_with(Product<T> x, Function function) {
  rntm_t one;
  bli_rntm_init(&one);
  bli_rntm_set_num_threads(1, &one);
  function(x.trans_a ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE,
           x.trans_b ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE, x.m, x.n, x.k, &x.alpha,
           const_cast<T*>(x.a), 1, x.lda, const_cast<T*>(x.b), 1, x.ldb, &x.beta, x.c, 1, x.ldc,
           nullptr, &one);
  return nullptr;
}
char const* multiply(Product<float> const& x) { return multiply_with(x, vendor().sgemm); }
char const* multiply(Product<double> const& x) { return multiply_with(x, vendor().dgemm); }

#elif defined(NNTILE_BLAS_EIGEN)

template <class T> char const* multiply(Product<T> const& x) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  using View = Eigen::Map<Matrix const, 0, Eigen::OuterStride<>>;
  View const a(x.a, x.trans_a ? x.k : x.m, x.trans_a ? x.m : x.k, Eigen::OuterStride<>(x.lda));
  View const b(x.b, x.trans_b ? x.n : x.k, x.trans_b ? x.k : x.n, Eigen::OuterStride<>(x.ldb));
  Eigen::Map<Matrix, 0, Eigen::OuterStride<>> c(x.c, x.m, x.n, Eigen::OuterStride<>(x.ldc));
  if (x.beta == T(0))
    c.setZero();
  else if (x.beta != T(1))
    c *= x.beta;
  if (x.trans_a && x.trans_b)
    c.noalias() += x.alpha * a.transpose() * b.transpose();
  else if (x.trans_a)
    c.noalias() += x.alpha * a.transpose() * b;
  else if (x.trans_b)
    c.noalias() += x.alpha * a * b.transpose();
  else
    c.noalias() += x.alpha * a * b;
  return nullptr;
}

#endif

#if defined(NNTILE_BLAS_LOADED) || defined(NNTILE_BLAS_EIGEN)

/// C = beta C: a product over nothing.
template <class T> void scale(Product<T> const& x) {
  for (Index j = 0; j < x.n; ++j)
    for (Index i = 0; i < x.m; ++i) {
      T& c = x.c[i + j * x.ldc];
      c = x.beta == T(0) ? T(0) : x.beta * c;
    }
}

template <class T> struct Gemm {
  static Status run(KernelCall const& call) noexcept {
    ops::Gemm::Args args;
    __builtin_memcpy(&args, call.arguments, sizeof args);
    if (args.m == 0 || args.n == 0) return {};
    if (args.finishing) return find_on_cpu("gemm", dtype_of<T>)->cpu(call);  // no product
    using Operand = ops::Gemm::Operand;
    Buffers<ops::Gemm> const buffers(call);
    T* sums = buffers.at<T>(Operand::c);
    if (sums == nullptr) sums = buffers.at<T>(Operand::carry);  // of a canonical group, as fp32
    for (Index batch = 0; batch < args.batch; ++batch) {
      Product<T> x{};
      x.trans_a = args.trans_a, x.trans_b = args.trans_b;
      x.m = args.m, x.n = args.n, x.k = args.k;
      x.alpha = static_cast<T>(args.alpha), x.beta = static_cast<T>(args.chain.factor(args.beta));
      x.a = buffers.at<T>(Operand::a) + args.a_offset + batch * args.a_stride;
      x.b = buffers.at<T>(Operand::b) + args.b_offset + batch * args.b_stride;
      x.c = sums + args.c_offset + batch * args.c_stride;
      x.lda = args.lda, x.ldb = args.ldb, x.ldc = args.ldc;
      if (x.k == 0) {  // vendors differ
        scale(x);
        continue;
      }
      if (char const* const error = multiply(x)) return {error};
    }
    if (!args.chain.last) return {};
    if (buffers.at<T>(Operand::bias) == nullptr && args.activation == Activation::none) return {};
    return find_on_cpu("gemm_finish", dtype_of<T>)->cpu(call);
  }
};

template <DType element> consteval Kernels<1> fast(CpuEntry entry) {
  return kernel<ops::Gemm, element, element, Mode::fast>(entry);
}

#if defined(NNTILE_BLAS_ONEDNN)
constinit auto const kernels = join(
    fast<DType::fp32>(&Gemm<float>::run), fast<DType::fp32_fast_tf32>(&Gemm<float>::run),
    fast<DType::fp32_fast_fp16>(&Gemm<float>::run), fast<DType::fp32_fast_bf16>(&Gemm<float>::run));
#else
constinit auto const kernels =
    join(fast<DType::fp32>(&Gemm<float>::run), fast<DType::fp32_fast_tf32>(&Gemm<float>::run),
         fast<DType::fp32_fast_fp16>(&Gemm<float>::run),
         fast<DType::fp32_fast_bf16>(&Gemm<float>::run), fast<DType::fp64>(&Gemm<double>::run));
#endif

#else
constinit Kernels<0> const kernels{};
#endif

}  // namespace

/// Kernels of the vendor, none where its library is not there; loads it.
KernelList vendor_kernels() noexcept {
#if defined(NNTILE_BLAS_LOADED)
  if (!vendor().usable) return {};
#endif
  return kernels;
}

}  // namespace nntile::kernels
