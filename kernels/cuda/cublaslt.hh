#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// cuBLASLt, loaded where and when fast products are asked for: programs without them need no such
// library.

#include <cublasLt.h>
#include <dlfcn.h>

#include <initializer_list>
#include <string>
#include <type_traits>

#include "nntile/core/error.hh"

#define NNTILE_TEXT_OF(number) #number
#define NNTILE_CUBLASLT_OF(major) "libcublasLt.so." NNTILE_TEXT_OF(major)

namespace nntile::kernels::cuda {

/// The functions of the library. Stays loaded: its threads and tables would not survive more.
class CublasLt {
 public:
  /// The first of these libraries that is there.
  explicit CublasLt(std::initializer_list<char const*> names = {
                        NNTILE_CUBLASLT_OF(CUBLAS_VER_MAJOR), "libcublasLt.so"}) {
    void* library = nullptr;
    for (char const* const name : names) {
      if (library != nullptr) break;
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      // The first is the one that is wanted, the others say which is there instead.
      char const* const error = library == nullptr ? dlerror() : nullptr;
      if (missing_.empty() && error != nullptr) missing_ = error;
    }
    if (library == nullptr) return;
    missing_.clear();
    auto const find = [&](auto*& function, char const* name) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (function == nullptr && lacks_ == nullptr) lacks_ = name;
    };
    find(get_property, "cublasLtGetProperty");
    find(status_text, "cublasLtGetStatusString");
    find(create, "cublasLtCreate");
    find(destroy, "cublasLtDestroy");
    find(create_product, "cublasLtMatmulDescCreate");
    find(destroy_product, "cublasLtMatmulDescDestroy");
    find(set_product, "cublasLtMatmulDescSetAttribute");
    find(create_layout, "cublasLtMatrixLayoutCreate");
    find(destroy_layout, "cublasLtMatrixLayoutDestroy");
    find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    find(create_preference, "cublasLtMatmulPreferenceCreate");
    find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    find(choose, "cublasLtMatmulAlgoGetHeuristic");
    find(multiply, "cublasLtMatmul");
  }

  /// The reason that there is no library, in the loader's words; "" where there is one.
  std::string const& missing() const { return missing_; }
  std::string version() const {
    return concat(property(MAJOR_VERSION), ".", property(MINOR_VERSION), ".",
                  property(PATCH_LEVEL));
  }
  /// Throws DeviceError where the library is not one that this file was compiled for.
  void check() const {
    if (!missing_.empty()) return;
    if (property(MAJOR_VERSION) != CUBLAS_VER_MAJOR)
      throw DeviceError(
          concat("Cuda: nntile_cuda was compiled for cuBLASLt ", CUBLAS_VER_MAJOR, ".",
                 CUBLAS_VER_MINOR, ", and the library that this machine loads is ", version(),
                 ": install ", NNTILE_CUBLASLT_OF(CUBLAS_VER_MAJOR), ", or choose exact numerics"));
    if (lacks_ != nullptr)
      throw DeviceError(concat("Cuda: the cuBLASLt ", version(), " of this machine has no ", lacks_,
                               ": install another, or choose exact numerics"));
  }

  // clang-format off
  decltype(&cublasLtGetProperty) get_property = nullptr;
  decltype(&cublasLtGetStatusString) status_text = nullptr;
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmulDescCreate) create_product = nullptr;
  decltype(&cublasLtMatmulDescDestroy) destroy_product = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) set_product = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) create_layout = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmul) multiply = nullptr;
  // clang-format on

 private:
  int property(libraryPropertyType type) const {
    int value = 0;
    if (get_property != nullptr) (void)get_property(type, &value);
    return value;
  }

  std::string missing_;
  char const* lacks_ = nullptr;
};

/// That of the process, loaded at the first call.
inline CublasLt const& cublaslt() {
  static CublasLt const library;
  return library;
}

}  // namespace nntile::kernels::cuda
