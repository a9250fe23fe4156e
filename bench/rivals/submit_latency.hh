#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Submission alone: the time of one call on the driver, usual ones and rare ones apart.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "bench/clock.hh"
#include "nntile/runtime/concept.hh"

namespace submit_bench {

/// Nanoseconds of a call, and cycles where that is said.
struct Latency {
  double median, p99, p999, max;  // of calls that did not wait for room
  double blocked_share;           // of those that did
  double cycles, cold_cycles;     // of a call in a row; with caches that held something else
};

/// Tasks that read two and update one of 4,096 handles, drawn by a fixed generator.
template <class R> class LatencyBench {
 public:
  LatencyBench(R& runtime, nntile::Codelet const& empty) : runtime_(runtime), empty_(empty) {
    for (auto& value : values_)
      handles_.push_back(runtime.adopt(std::as_writable_bytes(std::span(&value, 1)), {}, {}));
  }
  LatencyBench(LatencyBench const&) = delete;
  ~LatencyBench() {
    for (auto const& handle : handles_) runtime_.retire(handle);
  }

  Latency run() {
    Latency result = spread();
    double const ghz = nntile::bench::core_ghz();
    result.cycles = ghz * median_of(21, [this] { return a_call(2000); });
    result.cold_cycles = ghz * median_of(21, [this] {
                           evict();
                           return a_call(64);
                         });
    return result;
  }

 private:
  static constexpr int timed = 50'000;

  void submit() {
    std::size_t const a = draw(), b = draw(), c = draw();
    nntile::Use<typename R::Handle> const uses[] = {{handles_[a], nntile::Access::read},
                                                    {handles_[b], nntile::Access::read},
                                                    {handles_[c], nntile::Access::update}};
    runtime_.submit({&empty_, uses, {}, {}, {}});
  }
  /// Source of the constants: Numerical Recipes, 7.1.
  std::size_t draw() {
    state_ = state_ * 1664525u + 1013904223u;
    return state_ >> 20;
  }
  std::uint64_t blocked() const {
    if constexpr (requires { runtime_.stats().blocked; })
      return runtime_.stats().blocked;
    else
      return 0;
  }
  static double at(std::vector<double> const& sorted, double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
  }
  template <class F> static double median_of(int runs, F run) {
    std::vector<double> samples;
    for (int i = 0; i < runs; ++i) samples.push_back(run());
    std::sort(samples.begin(), samples.end());
    return at(samples, 0.5);
  }

  /// One call after another, timed on its own.
  Latency spread() {
    using nntile::bench::ticks;
    double const tick = nntile::bench::tick_ns();
    double const empty = tick * median_of(101, [] {
                           std::uint64_t const begin = ticks();
                           return static_cast<double>(ticks() - begin);
                         });
    std::vector<double> calls;
    std::uint64_t before = blocked();
    int waited = 0;
    for (int i = 0; i < timed; ++i) {
      std::uint64_t const begin = ticks();
      submit();
      std::uint64_t const end = ticks();
      std::uint64_t const now = blocked();
      if (now == before)
        calls.push_back(std::max(0.0, tick * static_cast<double>(end - begin) - empty));
      else
        ++waited;
      before = now;
    }
    runtime_.wait_all();
    if (calls.empty()) calls.push_back(0);
    std::sort(calls.begin(), calls.end());
    return {
        at(calls, .5), at(calls, .99), at(calls, .999), calls.back(), 1.0 * waited / timed, 0, 0};
  }
  /// Mean nanoseconds of `calls` calls in a row: few enough that none waits for room. Where the
  /// runtime can pause no task runs meanwhile, so that this is submission alone.
  double a_call(int calls) {
    if constexpr (nntile::PausingRuntime<R>) runtime_.pause();
    auto const begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) submit();
    std::chrono::duration<double, std::nano> const took = std::chrono::steady_clock::now() - begin;
    if constexpr (nntile::PausingRuntime<R>) runtime_.resume();
    runtime_.wait_all();
    return took.count() / calls;
  }
  /// Fills every cache with other data.
  void evict() {
    for (std::size_t i = 0; i < other_.size(); i += 8) ++other_[i];
  }

  R& runtime_;
  nntile::Codelet const& empty_;
  std::vector<std::uint64_t> values_ = std::vector<std::uint64_t>(4096);
  std::vector<typename R::Handle> handles_;
  std::vector<std::uint64_t> other_ = std::vector<std::uint64_t>(std::size_t{12} << 20);  // 96 MiB
  std::uint32_t state_ = 1;
};

}  // namespace submit_bench
