// SPDX-License-Identifier: BSD-3-Clause
// What a buffer of the ring's heap costs, without a task: allocation, retirement, scopes; beside
// malloc.

#include <cstdlib>
#include <vector>

#include "bench/clock.hh"
#include "bench/harness.hh"
#include "nntile/runtime/ring/ring.hh"

namespace {

using namespace nntile;
using Samples = std::vector<double>;

constexpr std::size_t buffers = 1000, bytes = 64;
constexpr auto step = Lifetime::step;

/// Cycles of one of `count` repetitions.
class Stopwatch {
 public:
  explicit Stopwatch(double ghz) : ghz_(ghz) {}
  template <class Work> double cycles(std::size_t count, Work work) const {
    auto const begin = std::chrono::steady_clock::now();
    work();
    std::chrono::duration<double, std::nano> const took = std::chrono::steady_clock::now() - begin;
    return took.count() * ghz_ / static_cast<double>(count);
  }

 private:
  double ghz_;
};

struct Times {
  Samples allocate, retire, pair, open_and_close, close;
};

class Bench {
 public:
  Bench() : ring_({.workers = 1}, heap()) { handles_.resize(buffers); }

  /// Whether allocations lie one behind the other, and no memory came from the system.
  bool check() {
    ring_.open_scope(step);
    std::byte const* before = nullptr;
    bool good = true;
    for (DataHandle& handle : handles_) {
      handle = ring_.allocate(bytes, host, step);
      std::byte const* const at = ring_.lock(handle, Access::write).data();
      ring_.unlock(handle);
      good = good && (before == nullptr || at == before + bytes);
      before = at;
    }
    ring_.close_scope(step);
    return good && ring_.stats().step.growths == 0;
  }

  void round(Stopwatch const& watch, Times& times) {
    ring_.open_scope(step);
    times.allocate.push_back(watch.cycles(buffers, [&] {
      for (DataHandle& handle : handles_) handle = ring_.allocate(bytes, host, step);
    }));
    times.retire.push_back(watch.cycles(buffers, [&] {
      for (DataHandle const& handle : handles_) ring_.retire(handle);
    }));
    times.pair.push_back(watch.cycles(buffers, [&] {
      for (std::size_t i = 0; i < buffers; ++i) ring_.retire(ring_.allocate(bytes, host, step));
    }));
    for (DataHandle& handle : handles_) handle = ring_.allocate(bytes, host, step);
    times.close.push_back(watch.cycles(buffers, [&] { ring_.close_scope(step); }));
    times.open_and_close.push_back(watch.cycles(buffers, [&] {
      for (std::size_t i = 0; i < buffers; ++i) {
        ring_.open_scope(step);
        ring_.close_scope(step);
      }
    }));
  }

 private:
  static RingCapacities heap() {
    RingCapacities options;
    options.step = {4 * buffers * bytes, OnFull::fail};
    options.records = 4 * buffers;
    return options;
  }

  Ring ring_;
  std::vector<DataHandle> handles_;
};

/// The same of the system's allocator.
void round_of_malloc(Stopwatch const& watch, Times& times) {
  static std::vector<void*> pointers(buffers);
  times.allocate.push_back(watch.cycles(buffers, [&] {
    for (void*& pointer : pointers) pointer = std::aligned_alloc(64, bytes);
  }));
  times.retire.push_back(watch.cycles(buffers, [&] {
    for (void* const pointer : pointers) std::free(pointer);
  }));
  times.pair.push_back(watch.cycles(buffers, [&] {
    for (void*& pointer : pointers) {
      pointer = std::aligned_alloc(64, bytes);
      asm volatile("" : : "r"(pointer) : "memory");  // so that the pair stays
      std::free(pointer);
    }
  }));
}

}  // namespace

int main(int argc, char** argv) {
  bench::Records records(
      "alloc",
      bench::parse(argc, argv,
                   "Core cycles of one call of the ring's memory, without tasks: allocate, 1,000 "
                   "buffers of 64 bytes in an open scope; retire, of them; pair, both in turn; "
                   "close, of a scope with 1,000 buffers, by the buffer; scope, opened and closed "
                   "empty. malloc: aligned_alloc and free."));
  Bench bench;
  if (!bench.check()) {
    std::fprintf(stderr, "wrong: the heap's buffers do not lie one behind the other\n");
    return 1;
  }
  int const rounds = records.options().quick ? 101 : 1001;
  Stopwatch const watch(bench::core_ghz());
  Times ours, system;
  for (int round = -1; round < rounds; ++round) {
    if (round == 0) ours = system = {};  // the first warms up
    bench.round(watch, ours);
    round_of_malloc(watch, system);
  }
  records.add("allocate", "ring", "cycles", "cycles", ours.allocate);
  records.add("retire", "ring", "cycles", "cycles", ours.retire);
  records.add("pair", "ring", "cycles", "cycles", ours.pair);
  records.add("close", "ring", "cycles", "cycles", ours.close);
  records.add("scope", "ring", "cycles", "cycles", ours.open_and_close);
  records.add("allocate", "malloc", "cycles", "cycles", system.allocate);
  records.add("retire", "malloc", "cycles", "cycles", system.retire);
  records.add("pair", "malloc", "cycles", "cycles", system.pair);
  records.add_ratio("pair", "ring", "times_malloc", system.pair, ours.pair);
  return 0;
}
