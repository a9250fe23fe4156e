// SPDX-License-Identifier: BSD-3-Clause
// Finds kernels by name, and instruction sets of this CPU.
#include <atomic>
#include <cstddef>
#include <iterator>
#include <new>
#include <span>

#include "kernels/cpu/kernel.hh"
#include "kernels/cuda/lists.hh"
#include "kernels/join.hh"
#include "nntile/core/inplace_vector.hh"
#include "nntile/ops/kernel.hh"

// The lists of every instruction set that was built: `nntile::kernels::v3::gemm_kernels` and so on.
#define NNTILE_KERNELS(op) extern KernelList const op##_kernels;
#ifdef NNTILE_HAVE_PLAIN
namespace nntile::kernels::plain {
#include "kernel_list.inc"
}
#endif
#ifdef NNTILE_HAVE_V2
namespace nntile::kernels::v2 {
#include "kernel_list.inc"
}
#endif
#ifdef NNTILE_HAVE_V3
namespace nntile::kernels::v3 {
#include "kernel_list.inc"
}
#endif
#ifdef NNTILE_HAVE_V4
namespace nntile::kernels::v4 {
#include "kernel_list.inc"
}
#endif
#undef NNTILE_KERNELS
#define NNTILE_KERNELS(op) &op##_kernels,

namespace nntile::kernels {
namespace {

struct Table {
  KernelList const* const* lists = nullptr;
  std::size_t count = 0;
};

template <std::size_t n> Table table_of(KernelList const* const (&lists)[n]) { return {lists, n}; }

Table table(Isa isa) {
  switch (isa) {
#ifdef NNTILE_HAVE_PLAIN
    case Isa::plain: {
      using namespace plain;
      static constexpr KernelList const* lists[] = {
#include "kernel_list.inc"
      };
      return table_of(lists);
    }
#endif
#ifdef NNTILE_HAVE_V2
    case Isa::v2: {
      using namespace v2;
      static constexpr KernelList const* lists[] = {
#include "kernel_list.inc"
      };
      return table_of(lists);
    }
#endif
#ifdef NNTILE_HAVE_V3
    case Isa::v3: {
      using namespace v3;
      static constexpr KernelList const* lists[] = {
#include "kernel_list.inc"
      };
      return table_of(lists);
    }
#endif
#ifdef NNTILE_HAVE_V4
    case Isa::v4: {
      using namespace v4;
      static constexpr KernelList const* lists[] = {
#include "kernel_list.inc"
      };
      return table_of(lists);
    }
#endif
    default:
      return {};
  }
}

Codelet const* find_in(Table table, std::string_view op, DType element, DType second, Mode mode) {
  for (std::size_t l = 0; l < table.count; ++l)
    for (int i = 0; i < table.lists[l]->count; ++i) {
      Codelet const& codelet = table.lists[l]->codelets[i];
      Computation const& computation = *codelet.computation;
      if (computation.element == element && computation.second == second &&
          computation.mode == mode && op == computation.name)
        return &codelet;
    }
  return nullptr;
}

bool cpu_runs(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool const v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
  bool const v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
  bool const v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl");
  switch (isa) {
    case Isa::v2:
      return v2;
    case Isa::v3:
      return v3;
    case Isa::v4:
      return v4;
    default:
      return false;
  }
#else
  return isa == Isa::plain;
#endif
}

}  // namespace

namespace {

// Of a device's library, once it is in use.
struct DeviceKernels {
  std::span<KernelList const* const> lists;
  KernelList (*fast)();
};
std::atomic<DeviceKernels const*> device_kernels{nullptr};

}  // namespace

void join_device_kernels(std::span<KernelList const* const> lists, KernelList (*fast)()) noexcept {
  static DeviceKernels const kept{lists, fast};
  device_kernels.store(&kept, std::memory_order_release);
}

/// Kernels of a vendor, for fast mode; gemm_blas.cc, built once.
KernelList vendor_kernels() noexcept;

bool available(Isa isa) noexcept {
  if (isa == Isa::best) isa = best();
  return built(isa) && cpu_runs(isa);
}

bool built(Isa isa) noexcept { return table(isa).count > 0; }

Isa best() noexcept {
  for (Isa const isa : {Isa::v4, Isa::v3, Isa::v2})
    if (available(isa)) return isa;
  return Isa::plain;
}

Codelet const* find_on_cpu(std::string_view op, DType element) noexcept {
  return find_in(table(best()), op, element, element, Mode::exact);
}

Codelet const* find(std::string_view op, DType element, DType second, Mode mode, Isa isa) {
  inplace_vector<Codelet const*, 6> parts;
  auto const look_in = [&](Table table, Mode wanted) {
    if (auto const* found = find_in(table, op, element, second, wanted)) parts.push_back(found);
  };
  Table const own = table(isa == Isa::best ? best() : isa);
  if (mode == Mode::fast) {
    KernelList const vendor = vendor_kernels();
    KernelList const* const vendors[] = {&vendor};
    look_in(table_of(vendors), mode);
    look_in(own, mode);
  }
  look_in(own, Mode::exact);
  if (auto const* const device = device_kernels.load(std::memory_order_acquire)) {
    if (mode == Mode::fast && device->fast != nullptr) {
      KernelList const vendor = device->fast();
      KernelList const* const vendors[] = {&vendor};
      look_in(table_of(vendors), mode);
    }
    Table const own_of_device{device->lists.data(), device->lists.size()};
    if (mode == Mode::fast) look_in(own_of_device, mode);
    look_in(own_of_device, Mode::exact);
  }
  // Never destroyed, since tasks of any lifetime know its codelets; in place, so that the first use
  // cannot fail.
  alignas(Joined) static std::byte memory[sizeof(Joined)];
  static Joined& joined = *new (memory) Joined;
  return joined.join({parts.data(), parts.size()});
}

}  // namespace nntile::kernels
