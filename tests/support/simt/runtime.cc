// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/runtime.hh"

#include <string>

#include "kernels/cpu/kernel.hh"
#include "kernels/cuda/launch.hh"
#include "nntile/core/computation.hh"
#include "tests/support/simt/memory.hh"

#define NNTILE_KERNELS(op) extern KernelList const op##_kernels;
namespace nntile::kernels::cuda {
#include "cuda_kernel_list.inc"
}
#undef NNTILE_KERNELS
#define NNTILE_KERNELS(op) &kernels::cuda::op##_kernels,

namespace nntile::test {
namespace {

thread_local std::span<Codelet const> instead;

template <class Fits> Codelet const* find(Fits fits) {
  for (Codelet const& codelet : instead)
    if (fits(*codelet.computation)) return &codelet;
  static constexpr kernels::KernelList const* lists[] = {
#include "cuda_kernel_list.inc"
  };
  for (kernels::KernelList const* const list : lists)
    for (int i = 0; i < list->count; ++i)
      if (fits(*list->codelets[i].computation)) return &list->codelets[i];
  return nullptr;
}

/// Memory for a task of the calling thread; null for none.
void* workspace(std::size_t bytes) {
  struct alignas(256) Part {
    std::byte bytes[256];
  };
  static thread_local std::vector<Part> parts;
  if (parts.size() * sizeof(Part) < bytes) parts.resize((bytes + sizeof(Part) - 1) / sizeof(Part));
  return bytes == 0 ? nullptr : parts.data();
}

}  // namespace

void run_instead(std::span<Codelet const> codelets) { instead = codelets; }

Codelet const* on_device(Codelet const& codelet) {
  return find([&](Computation const& each) { return &each == codelet.computation; });
}

Codelet const* on_device(std::string_view op, DType element, DType second) {
  return find([&](Computation const& each) {
    return each.name == op && each.element == element && each.second == second &&
           each.mode == Mode::exact;
  });
}

Status Simt::run(KernelCall const& call) noexcept {
  Inner inner;
  std::memcpy(&inner, call.arguments, sizeof inner);
  auto const* const arguments = static_cast<std::byte const*>(call.arguments) + sizeof inner;
  std::vector<simt::Operand> operands;
  std::vector<std::size_t> places;
  std::vector<void*> buffers(call.buffers, call.buffers + inner.count);
  for (std::size_t u = 0; u < inner.count; ++u) {
    if (inner.uses[u].bytes == unknown || buffers[u] == nullptr) continue;
    operands.push_back(
        {static_cast<std::byte*>(buffers[u]), inner.uses[u].bytes, inner.uses[u].written});
    places.push_back(u);
  }
  simt::Fenced const memory(operands, simt::aligned());
  for (std::size_t o = 0; o < places.size(); ++o) buffers[places[o]] = memory.at(o);
  Status const status = inner.device->cuda(
      {buffers.data(), arguments, call.text, workspace(inner.device->device_workspace)}, nullptr);
  std::string const wrong = memory.copy_back();
  if (!status.ok() || wrong.empty()) return status;
  call.text[wrong.copy(call.text, status_text_bytes - 1)] = '\0';
  return {call.text};
}

}  // namespace nntile::test
