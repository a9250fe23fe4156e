// SPDX-License-Identifier: BSD-3-Clause
// References to tasks that are long gone, when their 31 bits come round again.

#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::test;
using namespace nntile::detail::ring;

namespace {

struct SweepingPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = 64;
    static constexpr std::uint64_t first_sequence = (std::uint64_t{1} << 32) - 3000;
    static constexpr std::uint64_t sweep_every = 1024;
  };
};

/// A ring without threads, whose tasks run when the test says so.
struct Stage {
  Machine<SweepingPolicy> machine{RuntimeOptions{1, false, false}};
  Driver<SweepingPolicy> driver{machine.root};
  Submitter<SweepingPolicy> submitter{machine.root, driver};

  DataHandle allocate() {
    return driver.reclaim().begin(
        [&] { return machine.table.add(sizeof(long), host, Lifetime::persistent); });
  }
  BufferUsers& users(DataHandle handle) {
    return driver.reclaim().users(machine.table.find(handle, ""));
  }
  void write(DataHandle handle) {
    static constexpr long value = 1;
    Use<DataHandle> const use[] = {{handle, Access::write}};
    (void)submitter.submit({&put_codelet, use, std::as_bytes(std::span(&value, 1)), {}, {}});
  }
  ReadyTask next() { return machine.scheduler.next(0); }
};

}  // namespace

TEST_CASE("a task waits for none that has its old producer's reference 2^31 tasks later",
          "[runtime][ring]") {
  Stage stage;
  DataHandle const old = stage.allocate(), other = stage.allocate();
  std::uint64_t const later = stage.machine.root.window.head() + 5000;
  // The writer and readers of 2^31 tasks before `later` go by the reference that `later` will have.
  stage.users(old).writer = reference_to(later);
  stage.users(old).readers.push_back(reference_to(later));
  while (stage.machine.root.window.head() != later) {
    stage.write(other);
    (void)stage.machine.run(0, stage.next());
  }
  stage.write(other);
  ReadyTask const first = stage.next();
  stage.write(old);
  ReadyTask const second = stage.next();
  REQUIRE(first != no_task);
  REQUIRE(second != no_task);
  (void)stage.machine.run(0, second);
  (void)stage.machine.run(0, first);
}
