// SPDX-License-Identifier: BSD-3-Clause
// What a buffer of the ring costs, without a task: allocation, retirement, scopes, beside malloc;
// the note of its last use, and its look-up by handle and by address.

#include <cstdlib>
#include <vector>

#include "bench/clock.hh"
#include "bench/harness.hh"
#include "nntile/runtime/regions.hh"
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

/// Buffers side by side, so few that caches hold all that is known of them.
constexpr std::uint32_t few = 64;
constexpr std::size_t looks = 4096, line_bytes = 64;
struct alignas(64) Memory {
  std::byte bytes[few][line_bytes];
};

struct LookTimes {
  Samples tracker, datum, map, map_latency, region_at, region_at_latency;
};

/// What submission and the PTO calls do with a buffer that there is.
class Looks {
 public:
  Looks() : ring_({.workers = 1}) {
    for (auto& line : memory_.bytes) {
      handles_.push_back(table_.adopt(std::span<std::byte>(line), host, Release{}));
      buffers_.push_back(&table_[handles_.back().index]);
      support::Regions(table_).remember_whole(*buffers_.back());
      of_ring_.push_back(ring_.adopt(std::span<std::byte>(line)));
      (void)ring_.region_at(line, {0, sizeof line, {}});
    }
  }

  /// Whether each buffer is found by its address.
  bool check() {
    bool good = true;
    for (std::uint32_t i = 0; i < few; ++i) {
      good = good && by_map(i) == handles_[i].index && by_ring(i) == of_ring_[i].index;
      support::BufferTable::commit({buffers_[i], Access::read}, support::Ticket{i});
      good = good && buffers_[i]->last_use == support::Ticket{i};
    }
    return good;
  }

  void round(Stopwatch const& watch, LookTimes& times) {
    support::Buffer* const* const used = buffers_.data();
    times.tracker.push_back(watch.cycles(looks, [&] {
      for (std::uint32_t i = 0; i < looks; ++i)
        support::BufferTable::commit({used[i % few], Access::read}, support::Ticket{i});
    }));
    times.datum.push_back(independent(
        watch, [this](std::uint32_t i) { return table_.find(handles_[i], "bench").index; }));
    auto const map = [this](std::uint32_t i) { return by_map(i); };
    auto const ring = [this](std::uint32_t i) { return by_ring(i); };
    times.map.push_back(independent(watch, map));
    times.map_latency.push_back(dependent(watch, handles_, map));
    times.region_at.push_back(independent(watch, ring));
    times.region_at_latency.push_back(dependent(watch, of_ring_, ring));
  }

 private:
  std::uint32_t by_map(std::uint32_t i) {
    return support::Regions(table_).find_at_once(memory_.bytes[i], line_bytes).index;
  }
  std::uint32_t by_ring(std::uint32_t i) {
    return ring_.region_at(memory_.bytes[i], {0, line_bytes, {}}).index;
  }
  template <class Look> double independent(Stopwatch const& watch, Look look) {
    return watch.cycles(looks, [&] {
      std::uint32_t sum = 0;
      for (std::uint32_t i = 0; i < looks; ++i) sum += look(i % few);
      asm volatile("" : : "r"(sum));
    });
  }
  /// Each address is computed of the index that was found before: indices of buffers that were made
  /// one after the other count up. That takes three additions and shifts of the time.
  template <class Look>
  double dependent(Stopwatch const& watch, std::vector<DataHandle> const& handles, Look look) {
    std::uint32_t const first = handles[0].index;
    return watch.cycles(looks, [&] {
      std::uint32_t index = first;
      for (std::uint32_t i = 0; i < looks; ++i) index = look((index + 1 - first) % few);
      asm volatile("" : : "r"(index));
    });
  }

  Memory memory_;
  Ring ring_;
  support::Failures failures_;
  support::BufferTable table_{failures_};
  std::vector<DataHandle> handles_, of_ring_;
  std::vector<support::Buffer*> buffers_;
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
      bench::parse(
          argc, argv,
          "Core cycles of one call of the ring's memory, without tasks: allocate, 1,000 "
          "buffers of 64 bytes in an open scope; retire, of them; pair, both in turn; "
          "close, of a scope with 1,000 buffers, by the buffer; scope, opened and closed "
          "empty. malloc: aligned_alloc and free. tracker: the note of a task that a buffer "
          "is its operand; datum: its record by its handle; map: its handle by its address, "
          "of 64 buffers; region_at: the same as a call of the ring; latency: each address "
          "follows from the handle before."));
  Bench bench;
  if (!bench.check()) {
    std::fprintf(stderr, "wrong: the heap's buffers do not lie one behind the other\n");
    return 1;
  }
  Looks looks_at_buffers;
  if (!looks_at_buffers.check()) {
    std::fprintf(stderr, "wrong: a buffer is not found by its address\n");
    return 1;
  }
  int const rounds = records.options().quick ? 101 : 1001;
  Stopwatch const watch(bench::core_ghz());
  Times ours, system;
  LookTimes looked;
  for (int round = -1; round < rounds; ++round) {
    if (round == 0) ours = system = {}, looked = {};  // the first warms up
    bench.round(watch, ours);
    round_of_malloc(watch, system);
    looks_at_buffers.round(watch, looked);
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
  records.add("tracker", "ring", "cycles", "cycles", looked.tracker);
  records.add("datum", "ring", "cycles", "cycles", looked.datum);
  records.add("map", "ring", "cycles", "cycles", looked.map);
  records.add("map", "ring", "latency_cycles", "cycles", looked.map_latency);
  records.add("region_at", "ring", "cycles", "cycles", looked.region_at);
  records.add("region_at", "ring", "latency_cycles", "cycles", looked.region_at_latency);
  return 0;
}
