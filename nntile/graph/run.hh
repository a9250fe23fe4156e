#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// GraphRun: one run of a compiled graph, to be waited for; GraphStats.

#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/graph/plan.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/runtime_ref.hh"

namespace nntile {

namespace detail {

/// Throws the TaskError of the first task that failed or was cancelled, once all have ended.
template <Runtime R> void wait_for(R& runtime, std::span<Event const> events) {
  std::exception_ptr first;
  for (Event const event : events) {
    try {
      runtime.wait(event);
    } catch (TaskError const&) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace detail

/// Figures of a compiled graph.
struct GraphStats {
  std::size_t tasks = 0;                  // of a run
  std::uint64_t runs = 0;                 // submitted, to the last phase
  std::uint64_t bytes_bound = 0;          // to its inputs, by any graph of the store
  std::vector<MemoryReport> memory = {};  // by location
};

/// One run, in flight or over; a copyable value, valid while the runtime lives, whatever becomes of
/// the graph.
template <Runtime R> class GraphRun {
 public:
  GraphRun(R& runtime, std::shared_ptr<DynamicArray<Event> const> events)
      : runtime_(runtime), events_(std::move(events)) {}

  /// Waits for this run alone. Throws TaskError for its first failed or cancelled task.
  void wait() const {
    R& runtime = runtime_.get("run");  // first: after a move there are no events
    detail::wait_for(runtime, std::span<Event const>(*events_));
  }
  /// Also once the runtime has ended, which waits for all. Throws LifetimeError after a move.
  bool is_complete() const {
    if (events_ == nullptr) (void)runtime_.get("run");
    for (Event const event : *events_)
      if (runtime_.alive() && !runtime_.get("run").done(event)) return false;
    return true;
  }

 private:
  RuntimeRef<R> runtime_;
  std::shared_ptr<DynamicArray<Event> const> events_;
};

}  // namespace nntile
