// SPDX-License-Identifier: BSD-3-Clause
// A policy of your own for the ring: sizes and a trace, chosen at compile time, tried by the
// battery and measured beside the default.
#include <array>
#include <atomic>
#include <cstdio>
#include <nntile/nntile.hh>
#include <nntile/runtime/ring/nest.hh>
#include <nntile/testing/bench.hh>
#include <nntile/testing/conformance.hh>

using namespace nntile;

struct SmallPolicy : RingPolicy {
  struct Sizes : RingSizes {
    static constexpr std::uint32_t window = 512;  // how far a submitter runs ahead
    static constexpr std::int64_t spin_ns = 5'000;
  };
  struct Trace : RingNoTrace {
    using RingNoTrace::RingNoTrace;
    std::array<std::atomic<long>, 8> bodies{};  // by worker
    void begin(int worker, std::uint64_t, Codelet const&) {
      bodies[static_cast<std::size_t>(worker) % bodies.size()].fetch_add(1,
                                                                         std::memory_order_relaxed);
    }
  };
};
using SmallRing = BasicRing<SmallPolicy>;

int main() {
  Ring ring({.workers = 2});
  SmallRing small({.workers = 2});
  std::printf("%s", testing::to_string(testing::bench_submit(ring, "ring", {.runs = 5})).c_str());
  std::printf("%s", testing::to_string(testing::bench_submit(small, "small", {.runs = 5})).c_str());
  long bodies = 0;
  for (auto const& of : small.trace().bodies) bodies += of.load();
  std::printf("%ld bodies traced\n", bodies);

  auto const make = [](RuntimeOptions const& options) { return SmallRing(options); };
  auto const report = testing::conformance(make, {.max_workers = 2, .rounds = 1});
  std::printf("%s", to_string(report).c_str());
  return report.passed() && bodies == 3 * 6 * 20'000 ? 0 : 1;
}
