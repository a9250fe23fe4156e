#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// How a file of kernels lists them, and how an entry reads its call.

#include "nntile/core/codelet.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/macros.hh"
#include "nntile/core/numerics.hh"
#include "nntile/core/shape.hh"
#include "nntile/ops/arguments.hh"

// The build says which instruction set a file is compiled for; tools that read a file alone do not.
#ifndef NNTILE_ISA
#define NNTILE_ISA plain
#endif

namespace nntile::kernels {

/// One kernel. Its codelet is known by address: lists are constants of the objects that define
/// them.
struct Kernel {
  Codelet codelet;
  DType element = DType::fp32;
  DType source = DType::fp32;  // what a cast reads; `element` otherwise
  Mode mode = Mode::exact;
};

/// The kernels of one file, or none.
struct KernelList {
  Kernel const* kernels = nullptr;
  int count = 0;
};

/// An array of kernels that can be joined while compiling. One place is spare, so that there may be
/// none.
template <int n> struct Kernels {
  Kernel kernels[n + 1] = {};
  constexpr operator KernelList() const { return {kernels, n}; }
};

template <int... counts> consteval auto join(Kernels<counts> const&... lists) {
  Kernels<(0 + ... + counts)> result;
  int at = 0;
  auto const add = [&](Kernel const* list, int count) {
    for (int i = 0; i < count; ++i) result.kernels[at++] = list[i];
  };
  (add(lists.kernels, counts), ...);
  return result;
}

/// One entry for one dtype.
template <class Op>
consteval Kernels<1> kernel(CpuEntry entry, DType element, DType source, Mode mode = Mode::exact,
                            std::size_t workspace = 0) {
  Kernels<1> result;
  result.kernels[0] = {Codelet{Op::name, entry, nullptr, nullptr, workspace}, element, source,
                       mode};
  return result;
}
template <class Op> consteval Kernels<1> kernel(CpuEntry entry, DType element) {
  return kernel<Op>(entry, element, element);
}

/// Body::run with Body::workspace bytes, if it says that it needs some.
template <class Op, class Body> consteval Kernels<1> body_kernel(DType element) {
  std::size_t workspace = 0;
  if constexpr (requires { Body::workspace; }) workspace = Body::workspace;
  return kernel<Op>(&Body::run, element, element, Mode::exact, workspace);
}

/// Body<T> for every float dtype; the fp32_fast tags are float under another name.
template <class Op, template <class> class Body> consteval Kernels<7> float_kernels() {
  return join(body_kernel<Op, Body<double>>(DType::fp64), body_kernel<Op, Body<float>>(DType::fp32),
              body_kernel<Op, Body<bf16_t>>(DType::bf16),
              body_kernel<Op, Body<fp16_t>>(DType::fp16),
              body_kernel<Op, Body<float>>(DType::fp32_fast_tf32),
              body_kernel<Op, Body<float>>(DType::fp32_fast_fp16),
              body_kernel<Op, Body<float>>(DType::fp32_fast_bf16));
}

namespace NNTILE_ISA {

/// What a kernel that needs a workspace says where it was lent none.
inline constexpr char const* no_workspace =
    "called without a workspace: KernelCall::workspace must hold Codelet::workspace bytes";

}  // namespace NNTILE_ISA
}  // namespace nntile::kernels

/// Exports the constant list `kernels` of file <op>.cc, in namespace nntile::kernels::NNTILE_ISA:
///   namespace { constinit auto const kernels = join(float_kernels<Op, Kernel>(), ...); }
///   NNTILE_KERNEL_LIST(softmax, kernels)
#define NNTILE_KERNEL_LIST(op, list)                       \
  extern ::nntile::kernels::KernelList const op##_kernels; \
  constinit ::nntile::kernels::KernelList const op##_kernels = list;
