// SPDX-License-Identifier: BSD-3-Clause
// Products of fast numerics by cuBLASLt, with bias and activation fused where it has that; what it
// has not, and what is no product, is the exact kernel's.
#include "kernels/cuda/lists.hh"
#include "nntile/ops/gemm.hh"

#ifdef NNTILE_HAVE_CUBLASLT
#include <cstdio>
#include <limits>
#include <new>

#include "kernels/cuda/products.hh"
#endif

namespace nntile::kernels::cuda {

#ifdef NNTILE_HAVE_CUBLASLT

extern KernelList const gemm_kernels;

namespace {

/// The size that NVIDIA advises for its newest devices; there is one for each stream of kernels.
constexpr std::uint32_t workspace_bytes = 32u << 20;

constexpr cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return CUDA_R_64F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    default:
      return CUDA_R_32F;
  }
}

constexpr cublasComputeType_t compute_of(DType dtype) {
  switch (dtype) {
    case DType::fp64:
      return CUBLAS_COMPUTE_64F;
    case DType::fp32_fast_tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case DType::fp32_fast_fp16:
      return CUBLAS_COMPUTE_32F_FAST_16F;
    case DType::fp32_fast_bf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    default:
      return CUBLAS_COMPUTE_32F;
  }
}

template <DType dtype> struct FastGemm {
  using S = stored_t<dtype>;
  using T = compute_t<S>;
  using Operand = ops::Gemm::Operand;
  static constexpr bool narrow = !std::same_as<S, T>;

  KernelCall const& call;
  void* stream;
  Arguments<ops::Gemm> given;
  S* out = nullptr;
  S* bias = nullptr;
  T* carry = nullptr;

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    FastGemm task{call, stream, {}};
    std::memcpy(&task.given, call.arguments, sizeof task.given);
    try {
      return task.run();
    } catch (Refused const& refused) {
      std::snprintf(call.text, status_text_bytes, "cuBLASLt: %.150s",
                    cublaslt().status_text(refused.status));
      return {call.text};
    } catch (std::bad_alloc const&) {
      return {"no memory of the host for what a product keeps"};
    }
  }

 private:
  Status run() {
    ops::Gemm::Args const& args = given.args;
    if (args.m == 0 || args.n == 0 || args.batch == 0) return {};
    if (args.finishing || args.k == 0 || args.batch > std::numeric_limits<std::int32_t>::max())
      return exact(given);
    Buffers<ops::Gemm> const buffers(call);
    out = buffers.at<S>(Operand::c);
    carry = buffers.at<T>(Operand::carry);
    bias = args.chain.last ? buffers.at<S>(Operand::bias) : nullptr;
    bool const finishes =
        args.chain.last && (bias != nullptr || args.activation != Activation::none);
    // D has one type with C.
    bool const rounds_apart = narrow && carry != nullptr && args.chain.last && !args.chain.first;
    if (finishes && !rounds_apart && multiply(true, false)) return {};
    if (narrow && finishes && carry == nullptr) return exact(given);  // else it would round twice
    bool const apart = rounds_apart || finishes;
    bool const in_carry = Chain{args.chain.first, args.chain.last && !apart}.leaves_in(carry);
    if constexpr (narrow)
      if (in_carry && args.chain.first && args.beta != 0) return start_in_carry(apart);
    if (!multiply(false, in_carry)) return exact(given);
    return apart ? finish() : Status{};
  }

  /// beta C goes to the carry, rounded to its type.
  Status start_in_carry(bool apart) {
    given.args.left_terms = 0;
    Arguments<ops::Gemm> start = given;
    start.args.k = 0;
    start.args.chain.last = false;
    if (Status const status = exact(start); !status.ok()) return status;
    given.args.chain.first = false;
    if (!multiply(false, true)) return exact(given);
    return apart ? finish() : Status{};
  }

  /// Bias, activation and rounding of what stands in the carry, or in C.
  Status finish() {
    Arguments<ops::Gemm> rest = given;
    rest.args.k = rest.args.left_terms = 0;
    rest.args.chain = {false, true};
    return exact(rest);
  }

  /// The exact kernel, with these arguments.
  Status exact(Arguments<ops::Gemm> const& arguments) const {
    static CudaEntry const entry = [] {
      for (int i = 0; i < gemm_kernels.count; ++i)
        if (gemm_kernels.codelets[i].computation->element == dtype)
          return gemm_kernels.codelets[i].cuda;
      return CudaEntry{};
    }();
    return entry({call.buffers, &arguments, call.text}, stream);
  }

  bool multiply(bool fused, bool in_carry) {
    ops::Gemm::Args const& args = given.args;
    bool const wide = narrow && in_carry;
    T const alpha = static_cast<T>(args.alpha);
    T const beta = static_cast<T>(args.chain.factor(args.beta));
    Buffers<ops::Gemm> const buffers(call);
    ProductOperands x{};
    x.alpha = &alpha;
    x.beta = &beta;
    x.a = buffers.at<S>(Operand::a) + args.a_offset;
    x.b = buffers.at<S>(Operand::b) + args.b_offset;
    void* const at_out = out == nullptr ? nullptr : out + args.c_offset;
    void* const at_carry = carry == nullptr ? nullptr : carry + args.c_offset;
    x.d = in_carry ? at_carry : at_out;
    bool const from_carry = args.chain.first ? wide : carry != nullptr;
    x.c = beta == T(0) ? x.d : from_carry ? at_carry : at_out;
    x.bias = fused && bias != nullptr ? bias + args.bias_offset : nullptr;
    x.workspace = call.workspace;
    ProductShape const shape{
        .element = type_of(dtype),
        .result = wide ? CUDA_R_32F : type_of(dtype),
        .scale = std::same_as<T, double> ? CUDA_R_64F : CUDA_R_32F,
        .compute = compute_of(dtype),
        .epilogue = epilogue(fused),
        .m = args.m,
        .n = args.n,
        .k = args.k,
        .batch = args.batch,
        .lda = args.lda,
        .ldb = args.ldb,
        .ldc = args.ldc,
        .a_stride = args.batch == 1 ? 0 : args.a_stride,
        .b_stride = args.batch == 1 ? 0 : args.b_stride,
        .c_stride = args.batch == 1 ? 0 : args.c_stride,
        .trans_a = args.trans_a,
        .trans_b = args.trans_b,
        .align_a = alignment_of(x.a),
        .align_b = alignment_of(x.b),
        .align_c = alignment_of(x.c),
        .align_d = alignment_of(x.d),
        .align_bias = alignment_of(x.bias),
        .workspace = call.workspace == nullptr ? 0 : workspace_bytes,
    };
    return KeptProducts::here()->multiply(shape, x, static_cast<cudaStream_t>(stream));
  }

  cublasLtEpilogue_t epilogue(bool fused) const {
    if (!fused) return CUBLASLT_EPILOGUE_DEFAULT;
    if (given.args.activation == Activation::gelu_tanh)
      return bias != nullptr ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return CUBLASLT_EPILOGUE_BIAS;
  }
};

template <std::size_t... i> consteval auto fast(std::index_sequence<i...>) {
  return join(Kernels<1>{
      {Codelet{ops::Gemm::name, nullptr, &FastGemm<ops::Gemm::dtypes[i]>::enqueue, nullptr, 0,
               &computation_of<ops::Gemm, ops::Gemm::dtypes[i], ops::Gemm::dtypes[i], Mode::fast>,
               false, workspace_bytes}}}...);
}
constinit auto const kernels = fast(std::make_index_sequence<ops::Gemm::dtypes.size()>{});

}  // namespace

KernelList fast_kernels() {
  cublaslt().check();
  return cublaslt().missing().empty() ? KernelList(kernels) : KernelList{};
}
std::string fast_products() {
  fast_kernels();
  if (!cublaslt().missing().empty()) return concat("exact kernels: ", cublaslt().missing());
  return concat("cuBLASLt ", cublaslt().version());
}
std::shared_ptr<void const> keep_products() { return std::make_shared<KeptProducts>(); }

#else

KernelList fast_kernels() { return {}; }
std::string fast_products() { return "exact kernels: nntile_cuda was compiled without cublasLt.h"; }
std::shared_ptr<void const> keep_products() { return nullptr; }

#endif

}  // namespace nntile::kernels::cuda
