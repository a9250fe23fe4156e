#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Lists the kernels of a file, and reads the call of an entry.

#include <string_view>
#include <utility>

#include "nntile/core/codelet.hh"
#include "nntile/core/computation.hh"
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

/// The codelets of one file, or none; all name their computation. Runtimes know them by address:
/// lists are constants of the objects that define them.
struct KernelList {
  Codelet const* codelets = nullptr;
  int count = 0;
};

/// The CPU's own exact entry for an op of one dtype, or null. A body may look for it, as for
/// nothing else: no entries are joined, so none is allocated.
Codelet const* find_on_cpu(std::string_view op, DType element) noexcept;

/// An array of kernels that can be joined while compiling. One place is spare, so that there may be
/// none.
template <int n> struct Kernels {
  Codelet codelets[n + 1] = {};
  constexpr operator KernelList() const { return {codelets, n}; }
};

template <int... counts> consteval auto join(Kernels<counts> const&... lists) {
  Kernels<(0 + ... + counts)> result;
  int at = 0;
  auto const add = [&](Codelet const* list, int count) {
    for (int i = 0; i < count; ++i) result.codelets[at++] = list[i];
  };
  (add(lists.codelets, counts), ...);
  return result;
}

/// One entry for one set of element types.
template <class Op, DType element, DType second = element, Mode mode = Mode::exact>
consteval Kernels<1> kernel(CpuEntry entry, std::size_t workspace = 0) {
  return {{Codelet{Op::name, entry, nullptr, nullptr, workspace,
                   &computation_of<Op, element, second, mode>}}};
}

/// Body::run with Body::workspace bytes, if it says that it needs some; Body::enqueue of a device.
template <class Op, class Body, DType element, DType second = element>
consteval Kernels<1> body_kernel() {
  if constexpr (requires { &Body::enqueue; }) {
    return {{Codelet{Op::name, nullptr, &Body::enqueue, nullptr, 0,
                     &computation_of<Op, element, second, Mode::exact>}}};
  } else {
    std::size_t workspace = 0;
    if constexpr (requires { Body::workspace; }) workspace = Body::workspace;
    return kernel<Op, element, second>(&Body::run, workspace);
  }
}

/// Body<T> for each of the op's dtypes, or Body<T, Second> for each of its types.
template <class Op, template <class...> class Body> consteval auto op_kernels() {
  if constexpr (requires { Op::types; })
    return []<std::size_t... i>(std::index_sequence<i...>) {
      return join(
          body_kernel<Op, Body<stored_t<Op::types[i].element>, stored_t<Op::types[i].second>>,
                      Op::types[i].element, Op::types[i].second>()...);
    }(std::make_index_sequence<std::size(Op::types)>{});
  else
    return []<std::size_t... i>(std::index_sequence<i...>) {
      return join(body_kernel<Op, Body<stored_t<Op::dtypes[i]>>, Op::dtypes[i]>()...);
    }(std::make_index_sequence<std::size(Op::dtypes)>{});
}

namespace NNTILE_ISA {

/// Failure of a kernel that needs a workspace and was lent none.
inline constexpr char const* no_workspace =
    "called without a workspace: KernelCall::workspace must hold Codelet::workspace bytes";

}  // namespace NNTILE_ISA
}  // namespace nntile::kernels

/// Exports the constant list `kernels` of file <op>.cc, in namespace nntile::kernels::NNTILE_ISA:
///   namespace { constinit auto const kernels = join(op_kernels<Op, Kernel>(), ...); }
///   NNTILE_KERNEL_LIST(softmax, kernels)
#define NNTILE_KERNEL_LIST(op, list)                       \
  extern ::nntile::kernels::KernelList const op##_kernels; \
  constinit ::nntile::kernels::KernelList const op##_kernels = list;
