#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A trace that keeps all: which thread ran what and when, the edges, the steps of submissions, and
// what heaps and scopes held.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <vector>

#include "nntile/core/call_site.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile {

/// One run of a body. Times are CLOCK_MONOTONIC, in ns; `end` is 0 while it runs.
struct TracedBody {
  std::uint64_t sequence;  // the event's; that of a replayed task is its replay's plus its position
  Codelet const* codelet;
  std::int64_t begin;
  std::int64_t end;
  int worker;
};

/// One submitted task. `ended[step]` is when a step ended; steps follow one another from `begin`.
struct TracedSubmission {
  std::uint64_t sequence;
  Codelet const* codelet;  // null for a replay
  std::int64_t begin;
  std::int64_t ended[submit_steps];
  std::uint32_t in_window;  // slots in use, the task's included
};

/// `to` waits for `from`: sequences, or joins by `traced_join`.
struct TracedEdge {
  std::uint64_t from;
  std::uint64_t to;
};

/// Bytes that a heap held at a time, from its oldest buffer with memory to its newest.
struct TracedHeap {
  std::int64_t time;
  Lifetime lifetime;
  std::size_t used;
};

/// One scope. `closed` is 0 while it is open.
struct TracedScope {
  CallSite site;
  Lifetime lifetime;
  std::int64_t opened, closed;
  std::uint64_t buffers;  // allocated in it, and not in a scope of its lifetime inside it
  std::size_t bytes;      // of these
  std::size_t before;     // used of its heap when it was opened,
  std::size_t peak;       // and at most while it was open
};

/// `BasicRing<RingTracePolicy>` keeps one. Read it behind `wait_all`. Cost: about 0.2 us and 150
/// bytes a task, 24 an allocation; a record for which memory lacks is dropped and counted.
class RingTrace {
 public:
  static constexpr bool sees_edges = true;
  static constexpr bool sees_heaps = true;

  explicit RingTrace(int workers) : lanes_(static_cast<std::size_t>(workers)) {}

  std::vector<TracedSubmission> const& submissions() const { return submissions_; }
  std::vector<TracedEdge> const& edges() const { return edges_; }
  std::uint64_t dropped() const { return dropped_; }
  /// Behind each allocation from a heap, and each opening and closing of a scope.
  std::vector<TracedHeap> const& heaps() const { return heaps_; }
  /// In the order in which they were opened.
  std::vector<TracedScope> const& scopes() const { return scopes_; }
  /// Bodies that a worker ran, in the order in which they began.
  std::span<TracedBody const> bodies(int worker) const {
    return lanes_[static_cast<std::size_t>(worker)].bodies;
  }
  int workers() const { return static_cast<int>(lanes_.size()); }

  /// Forgets all records. No task may be running, no scope open.
  void clear() {
    for (Lane& lane : lanes_) lane.bodies.clear();
    submissions_.clear();
    edges_.clear();
    heaps_.clear();
    scopes_.clear();
    open_.clear();
    dropped_ = 0;
  }

  void begin(int worker, std::uint64_t sequence, Codelet const& codelet) {
    auto& bodies = lanes_[static_cast<std::size_t>(worker)].bodies;
    keep(bodies, TracedBody{sequence, &codelet, detail::monotonic_ns(), 0, worker});
  }
  void end(int worker, std::uint64_t sequence) {
    std::int64_t const now = detail::monotonic_ns();
    auto& bodies = lanes_[static_cast<std::size_t>(worker)].bodies;
    for (std::size_t i = bodies.size(); i-- > 0;)  // a body may run others meanwhile
      if (bodies[i].sequence == sequence) {
        bodies[i].end = now;
        return;
      }
  }
  void edge(std::uint64_t from, std::uint64_t to) {
    detail::Lock const guard(mutex_);
    keep(edges_, TracedEdge{from, to});
  }

  void open_scope(Lifetime lifetime, CallSite site, std::size_t used) {
    std::int64_t const now = sample(lifetime, used);
    if (keep(scopes_, TracedScope{site, lifetime, now, 0, 0, 0, used, used}))
      keep(open_, scopes_.size() - 1);
  }
  void close_scope(Lifetime lifetime, std::size_t used) {
    std::int64_t const now = sample(lifetime, used);
    TracedScope* const scope = innermost(lifetime);
    if (scope == nullptr) return;
    scope->closed = now;
    std::size_t const peak = scope->peak;
    std::erase(open_, static_cast<std::size_t>(scope - scopes_.data()));
    if (TracedScope* const outer = innermost(lifetime)) outer->peak = std::max(outer->peak, peak);
  }
  void allocated(Lifetime lifetime, std::size_t bytes, std::size_t used) {
    sample(lifetime, used);
    TracedScope* const scope = innermost(lifetime);
    if (scope == nullptr) return;
    ++scope->buffers;
    scope->bytes += bytes;
    scope->peak = std::max(scope->peak, used);
  }

  class Submission {
   public:
    explicit Submission(RingTrace& trace) : trace_(trace) {
      record_.begin = detail::monotonic_ns();
    }
    void reached(SubmitStep step) {
      record_.ended[static_cast<int>(step)] = detail::monotonic_ns();
    }
    void ended(std::uint64_t sequence, Codelet const* codelet, std::uint64_t in_window) {
      reached(SubmitStep::publish);
      record_.sequence = sequence;
      record_.codelet = codelet;
      record_.in_window = static_cast<std::uint32_t>(in_window);
      detail::Lock const guard(trace_.mutex_);
      trace_.keep(trace_.submissions_, record_);
    }

   private:
    RingTrace& trace_;
    TracedSubmission record_{};
  };

 private:
  struct alignas(detail::ring::apart) Lane {
    std::vector<TracedBody> bodies;
  };

  std::int64_t sample(Lifetime lifetime, std::size_t used) {
    std::int64_t const now = detail::monotonic_ns();
    keep(heaps_, TracedHeap{now, lifetime, used});
    return now;
  }
  /// The innermost open scope of a lifetime; null where none was kept.
  TracedScope* innermost(Lifetime lifetime) {
    for (std::size_t i = open_.size(); i-- > 0;)
      if (scopes_[open_[i]].lifetime == lifetime) return &scopes_[open_[i]];
    return nullptr;
  }

  template <class Record> bool keep(std::vector<Record>& list, Record const& record) {
    try {
      list.push_back(record);
      return true;
    } catch (std::bad_alloc const&) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
  }

  std::vector<Lane> lanes_;
  detail::Mutex mutex_;  // of what several submitters write
  std::vector<TracedSubmission> submissions_;
  std::vector<TracedEdge> edges_;
  std::vector<TracedHeap> heaps_;
  std::vector<TracedScope> scopes_;
  std::vector<std::size_t> open_;  // of these
  std::atomic<std::uint64_t> dropped_{0};
};

/// The default policy with a trace: `BasicRing<RingTracePolicy> ring; ... ring.trace()`.
struct RingTracePolicy : RingPolicy {
  using Trace = RingTrace;
};

}  // namespace nntile
