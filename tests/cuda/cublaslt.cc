// SPDX-License-Identifier: BSD-3-Clause
#include "tests/cuda/cublaslt.hh"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <variant>

#include "nntile/core/dtype.hh"
#include "nntile/core/error.hh"

namespace nntile::test::cublaslt {
namespace {

struct Handle {};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d
};
struct Object {
  std::variant<Handle, Product, Layout, Preference> value;
  bool live = true;
};
/// What an algorithm was chosen for.
struct Choice {
  Product product;
  Layout a, b, c, d;
  Preference preference;
  std::size_t workspace;
};

struct State {
  Library library;
  std::map<void const*, std::unique_ptr<Object>> objects;
  std::vector<Choice> choices;
  std::vector<Call> calls;
  std::vector<std::string> errors;
};
State& state() {
  static State the;
  return the;
}

/// Held by each call, so that any thread may make it.
std::mutex& gate() {
  static std::mutex the;
  return the;
}

template <class... Words> cublasStatus_t wrong(Words const&... words) {
  state().errors.push_back(concat(words...));
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <class Kind, class Opaque> cublasStatus_t make(Opaque* at, Kind value) {
  auto object = std::make_unique<Object>(Object{value});
  *at = reinterpret_cast<Opaque>(object.get());
  state().objects[object.get()] = std::move(object);
  return CUBLAS_STATUS_SUCCESS;
}
/// The object behind a pointer; null, and an error, where there is none of its kind, or no more.
template <class Kind> Kind* find(void const* opaque, char const* call) {
  auto const at = state().objects.find(opaque);
  if (at == state().objects.end()) return wrong(call, ": never made"), nullptr;
  if (!at->second->live) return wrong(call, ": used after its end"), nullptr;
  Kind* const value = std::get_if<Kind>(&at->second->value);
  if (value == nullptr) wrong(call, ": of another kind");
  return value;
}
template <class Kind> cublasStatus_t end(void const* opaque, char const* call) {
  if (find<Kind>(opaque, call) == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  state().objects[opaque]->live = false;
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t assign(T& target, void const* value, std::size_t bytes, char const* call) {
  if (value == nullptr || bytes != sizeof target) return wrong(call, ": ", bytes, " bytes");
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

std::size_t bytes_of(cudaDataType_t type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}
double load(void const* from, cudaDataType_t type, std::int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<double const*>(from)[i];
    case CUDA_R_32F:
      return static_cast<float const*>(from)[i];
    case CUDA_R_16F:
      return static_cast<double>(static_cast<float>(static_cast<fp16_t const*>(from)[i]));
    default:
      return static_cast<double>(static_cast<float>(static_cast<bf16_t const*>(from)[i]));
  }
}
void store(void* to, cudaDataType_t type, std::int64_t i, double value) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(to)[i] = value;
      return;
    case CUDA_R_32F:
      static_cast<float*>(to)[i] = static_cast<float>(value);
      return;
    case CUDA_R_16F:
      static_cast<fp16_t*>(to)[i] = fp16_t(static_cast<float>(value));
      return;
    default:
      static_cast<bf16_t*>(to)[i] = bf16_t(static_cast<float>(value));
  }
}

/// An operand as the tensor cores take it.
double rounded(double value, cublasComputeType_t compute) {
  auto const single = static_cast<float>(value);
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32: {
      std::uint32_t bits;
      std::memcpy(&bits, &single, sizeof bits);
      bits = (bits + 0x1000u) & ~0x1fffu;
      float result;
      std::memcpy(&result, &bits, sizeof bits);
      return result;
    }
    case CUBLAS_COMPUTE_32F_FAST_16F:
      return static_cast<double>(static_cast<float>(fp16_t(single)));
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return static_cast<double>(static_cast<float>(bf16_t(single)));
    default:
      return value;
  }
}

/// The library takes the alignment of a bias from the pointer that an algorithm is chosen with.
std::uintptr_t alignment_of(void const* pointer) {
  auto const address = reinterpret_cast<std::uintptr_t>(pointer) | 16;
  return address & (~address + 1);
}

std::int64_t inner_of(Product const& product, Layout const& a) {
  return product.trans_a == CUBLAS_OP_T ? a.rows : a.columns;
}
bool has_bias(Product const& product) { return (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }
bool has_gelu(Product const& product) { return (product.epilogue & CUBLASLT_EPILOGUE_GELU) != 0; }

/// Why these do not fit together; "" where they do.
std::string misfit(Product const& product, Layout const& a, Layout const& b, Layout const& c,
                   Layout const& d) {
  bool const ta = product.trans_a == CUBLAS_OP_T, tb = product.trans_b == CUBLAS_OP_T;
  if ((ta ? a.columns : a.rows) != d.rows) return "rows of A";
  if ((tb ? b.rows : b.columns) != d.columns) return "columns of B";
  if ((ta ? a.rows : a.columns) != (tb ? b.columns : b.rows)) return "the inner extents";
  if (!(c == d)) return "C and D";
  for (Layout const* const each : {&a, &b, &c, &d}) {
    if (each->rows < 1 || each->columns < 1 || each->ld < each->rows) return "a leading dimension";
    if (each->batch != d.batch || each->batch < 1) return "the batches";
  }
  if (d.batch > 1 && d.stride < d.ld * (d.columns - 1) + d.rows) return "the batches of D overlap";
  if (a.type != b.type) return "types of A and B";
  bool const is_wide = a.type == CUDA_R_64F;
  bool const is_single = a.type == CUDA_R_32F;
  if (d.type != a.type && (is_wide || d.type != CUDA_R_32F)) return "the type of D";
  if ((product.scale == CUDA_R_64F) != is_wide) return "the type of the factors";
  if ((product.compute == CUBLAS_COMPUTE_64F) != is_wide) return "the type of sums";
  if (product.compute != CUBLAS_COMPUTE_32F && product.compute != CUBLAS_COMPUTE_64F && !is_single)
    return "a reduced format of what is not fp32";
  int const known = CUBLASLT_EPILOGUE_BIAS | CUBLASLT_EPILOGUE_GELU;
  if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT && (product.epilogue & ~known) != 0)
    return "the epilogue";
  if (has_bias(product) != (product.bias != nullptr)) return "a bias without an epilogue, or none";
  return {};
}

/// Whether C is neither D nor apart from it: it would be read after parts of D are written.
bool overlaps(Call const& x) {
  std::size_t const bytes =
      bytes_of(x.d.type) * static_cast<std::size_t>((x.d.batch - 1) * x.d.stride +
                                                    (x.d.columns - 1) * x.d.ld + x.d.rows);
  auto const c = reinterpret_cast<std::uintptr_t>(x.at_c),
             d = reinterpret_cast<std::uintptr_t>(x.at_d);
  return c != d && c < d + bytes && d < c + bytes;
}

void interpret(Call const& x) {
  bool const ta = x.product.trans_a == CUBLAS_OP_T, tb = x.product.trans_b == CUBLAS_OP_T;
  std::int64_t const inner = inner_of(x.product, x.a);
  for (std::int32_t batch = 0; batch < x.d.batch; ++batch)
    for (std::int64_t j = 0; j < x.d.columns; ++j)
      for (std::int64_t i = 0; i < x.d.rows; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < inner; ++k) {
          std::int64_t const in_a = batch * x.a.stride + (ta ? k + i * x.a.ld : i + k * x.a.ld);
          std::int64_t const in_b = batch * x.b.stride + (tb ? j + k * x.b.ld : k + j * x.b.ld);
          sum += rounded(load(x.at_a, x.a.type, in_a), x.product.compute) *
                 rounded(load(x.at_b, x.b.type, in_b), x.product.compute);
        }
        std::int64_t const at = batch * x.d.stride + i + j * x.d.ld;
        double value = x.alpha * sum;
        if (x.beta != 0) value += x.beta * load(x.at_c, x.c.type, at);
        if (has_bias(x.product)) value += load(x.product.bias, x.d.type, i);
        if (has_gelu(x.product)) {
          double const u = 0.7978845608028654 * (value + 0.044715 * value * value * value);
          value = value / 2 * (1 + std::tanh(u));
        }
        store(x.at_d, x.d.type, at, value);
      }
}

}  // namespace

void reset(Library const& library) {
  state() = State{};
  state().library = library;
}
std::vector<Call> const& calls() { return state().calls; }
int choices() { return static_cast<int>(state().choices.size()); }
std::vector<std::string> const& errors() { return state().errors; }
int live_objects() {
  auto const& all = state().objects;
  return static_cast<int>(
      std::count_if(all.begin(), all.end(), [](auto const& each) { return each.second->live; }));
}

}  // namespace nntile::test::cublaslt

using namespace nntile::test::cublaslt;

extern "C" {

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  *value = state().library.version[type];
  return CUBLAS_STATUS_SUCCESS;
}
char const* cublasLtGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the function failed to launch on the GPU"
                                                  : "another failure";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  std::lock_guard const lock(gate());
  if (state().library.create != CUBLAS_STATUS_SUCCESS) return state().library.create;
  return make(handle, Handle{});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  std::lock_guard const lock(gate());
  return end<Handle>(handle, "destroy");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  std::lock_guard const lock(gate());
  return make(product, Product{compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  std::lock_guard const lock(gate());
  return end<Product>(product, "a product");
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void const* value, std::size_t bytes) {
  std::lock_guard const lock(gate());
  char const* const call = "an attribute of a product";
  Product* const product = find<Product>(opaque, call);
  if (product == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return assign(product->trans_a, value, bytes, call);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return assign(product->trans_b, value, bytes, call);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return assign(product->epilogue, value, bytes, call);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return assign(product->bias, value, bytes, call);
    default:
      return wrong(call, ": ", static_cast<int>(attribute), " is not known");
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  std::lock_guard const lock(gate());
  return make(layout, Layout{type, static_cast<std::int64_t>(rows),
                             static_cast<std::int64_t>(columns), ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  std::lock_guard const lock(gate());
  return end<Layout>(layout, "a layout");
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void const* value, std::size_t bytes) {
  std::lock_guard const lock(gate());
  char const* const call = "an attribute of a layout";
  Layout* const layout = find<Layout>(opaque, call);
  if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return assign(layout->batch, value, bytes, call);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return assign(layout->stride, value, bytes, call);
    default:
      return wrong(call, ": ", static_cast<int>(attribute), " is not known");
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  std::lock_guard const lock(gate());
  return make(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  std::lock_guard const lock(gate());
  return end<Preference>(preference, "a preference");
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value, std::size_t bytes) {
  std::lock_guard const lock(gate());
  char const* const call = "an attribute of a preference";
  Preference* const preference = find<Preference>(opaque, call);
  if (preference == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  int const operand = attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
  if (operand >= 0 && operand < 4)
    return assign(preference->alignment[operand], value, bytes, call);
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
    return assign(preference->workspace, value, bytes, call);
  return wrong(call, ": ", static_cast<int>(attribute), " is not known");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
  std::lock_guard const lock(gate());
  char const* const call = "a choice";
  *found = 0;
  auto const* const of = find<Product>(product, call);
  Layout const* const layouts[] = {find<Layout>(a, call), find<Layout>(b, call),
                                   find<Layout>(c, call), find<Layout>(d, call)};
  auto const* const limits = find<Preference>(preference, call);
  if (find<Handle>(handle, call) == nullptr || of == nullptr || limits == nullptr || wanted != 1 ||
      std::find(std::begin(layouts), std::end(layouts), nullptr) != std::end(layouts))
    return CUBLAS_STATUS_INVALID_VALUE;
  Choice choice{*of,
                *layouts[0],
                *layouts[1],
                *layouts[2],
                *layouts[3],
                *limits,
                std::min<std::size_t>(limits->workspace, 4096)};
  if (std::string const why = misfit(choice.product, choice.a, choice.b, choice.c, choice.d);
      !why.empty())
    return wrong(call, ": ", why);
  Library const& library = state().library;
  bool const fits = choice.d.rows >= library.least_rows &&
                    inner_of(choice.product, choice.a) >= library.least_terms;
  if (!library.multiplies || !fits || (of->epilogue != CUBLASLT_EPILOGUE_DEFAULT && !library.fuses))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *results = {};
  results->algo.data[0] = state().choices.size() + 1;
  results->workspaceSize = choice.workspace;
  results->state = CUBLAS_STATUS_SUCCESS;
  state().choices.push_back(choice);
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                              void const* alpha, void const* at_a, cublasLtMatrixLayout_t a,
                              void const* at_b, cublasLtMatrixLayout_t b, void const* beta,
                              void const* at_c, cublasLtMatrixLayout_t c, void* at_d,
                              cublasLtMatrixLayout_t d, cublasLtMatmulAlgo_t const* algorithm,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  std::lock_guard const lock(gate());
  char const* const call = "a product";
  auto const* const of = find<Product>(product, call);
  Layout const* const layouts[] = {find<Layout>(a, call), find<Layout>(b, call),
                                   find<Layout>(c, call), find<Layout>(d, call)};
  if (find<Handle>(handle, call) == nullptr || of == nullptr ||
      std::find(std::begin(layouts), std::end(layouts), nullptr) != std::end(layouts))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (state().library.multiply != CUBLAS_STATUS_SUCCESS) return state().library.multiply;
  Call const x{*of,
               *layouts[0],
               *layouts[1],
               *layouts[2],
               *layouts[3],
               load(alpha, of->scale, 0),
               load(beta, of->scale, 0),
               at_a,
               at_b,
               at_c,
               at_d,
               workspace,
               workspace_bytes,
               stream,
               handle};
  if (std::string const why = misfit(x.product, x.a, x.b, x.c, x.d); !why.empty())
    return wrong(call, ": ", why);
  std::uint64_t const number = algorithm == nullptr ? 0 : algorithm->data[0];
  if (number == 0 || number > state().choices.size()) return wrong(call, ": no algorithm");
  Choice const& choice = state().choices[number - 1];
  if (!(choice.a == x.a && choice.b == x.b && choice.c == x.c && choice.d == x.d) ||
      choice.product.trans_a != x.product.trans_a || choice.product.trans_b != x.product.trans_b ||
      choice.product.epilogue != x.product.epilogue || choice.product.compute != x.product.compute)
    return wrong(call, ": an algorithm for another shape");
  void const* const pointers[] = {at_a, at_b, at_c, at_d};
  for (int i = 0; i < 4; ++i) {
    auto const address = reinterpret_cast<std::uintptr_t>(pointers[i]);
    if (address == 0 || address % choice.preference.alignment[i] != 0)
      return wrong(call, ": operand ", i, " is not aligned as was said");
    if (address % bytes_of(layouts[i]->type) != 0) return wrong(call, ": operand ", i, " is odd");
  }
  if (overlaps(x)) return wrong(call, ": C overlaps D");
  if (alignment_of(x.product.bias) < alignment_of(choice.product.bias))
    return wrong(call, ": the bias is less aligned than the one that was chosen with");
  if (workspace_bytes < choice.workspace || (workspace == nullptr && workspace_bytes != 0) ||
      reinterpret_cast<std::uintptr_t>(workspace) % 256 != 0)
    return wrong(call, ": the workspace");
  state().calls.push_back(x);
  if (!state().library.computes) return CUBLAS_STATUS_SUCCESS;
  if (workspace != nullptr) std::memset(workspace, 0xff, choice.workspace);
  interpret(x);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
