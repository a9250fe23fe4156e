// error: a device needs `int lanes\(\) const`
// error: a device needs `int lanes\(\) const`
// error: a device needs `Status launch\(Stream, DeviceJob const&, char\* text\) noexcept`
// SPDX-License-Identifier: BSD-3-Clause
// A device that lacks a member, or has it of another kind, fails where a runtime takes it.
#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/serial/serial.hh"

using namespace nntile;

struct Mine {
  static constexpr bool exists = true;
  int devices() const { return 1; }
#if NNTILE_FAIL != 1 && NNTILE_FAIL != 2
  int lanes() const { return 1; }
#endif
  void* allocate(std::size_t, Place) { return nullptr; }
  void free(void*, std::size_t, Place) noexcept {}
  bool runs(Codelet const&) const { return true; }
#if NNTILE_FAIL == 3
  void launch(Stream, DeviceJob const&, char*) noexcept {}
#else
  Status launch(Stream, DeviceJob const&, char*) noexcept { return {}; }
#endif
  std::uint64_t mark(Stream) noexcept { return 1; }
  StreamProgress query(Stream, std::uint64_t, char*) noexcept { return StreamProgress::ended; }
  void wait(Stream, Stream, std::uint64_t) noexcept {}
};
struct MyPolicy : RingPolicy {
  using Device = Mine;
};

#if NNTILE_FAIL == 2
static_assert(RequiredRingPolicy<MyPolicy>);
#elif NNTILE_FAIL == 3
static_assert(RequiredDevice<Mine>);
#else
static_assert(sizeof(BasicSerial<Mine>) > 0);
#endif
