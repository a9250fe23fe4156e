#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A domain beside the root into which the driving thread submits.

#include <cstdint>

#include "nntile/runtime/ring/submission.hh"

namespace nntile::test {

/// A domain out of the machine's pool. Driving thread only, as are the root's calls.
///
/// Law: its tasks are ordered among themselves by their buffers, as the root's are. Across domains
/// nothing is: where two have tasks on one buffer, the later is submitted after a wait for the
/// earlier, and no buffer is retired. (A task that submits is ordered as a whole by its own edges.)
/// It records and replays nothing.
template <class Policy> class ChildDomain {
 public:
  static constexpr std::uint32_t least_slots = 8;

  /// Opens a domain with a window of `slots`, a power of two. Throws OutOfMemory, std::bad_alloc.
  explicit ChildDomain(detail::ring::Machine<Policy>& machine, std::uint32_t slots = least_slots)
      : machine_(machine), submission_(machine.domains.take(slots)) {}
  ChildDomain(ChildDomain const&) = delete;
  ChildDomain& operator=(ChildDomain const&) = delete;
  /// Waits for its tasks.
  ~ChildDomain() {
    submission_.wait_for_everything();
    machine_.domains.give_back(submission_.domain);
  }

  std::uint32_t number() const { return submission_.domain.number; }
  detail::ring::Domain<Policy>& domain() { return submission_.domain; }

  /// Submits a task and returns its sequence, a packed event name. Throws what the root's does.
  std::uint64_t submit(Task<DataHandle> const& task) {
    for (Use<DataHandle> const& use : task.uses) submission_.driver.reclaim().prepare(use.handle);
    return submission_.submitter.submit(task);
  }
  bool done(std::uint64_t sequence) {
    return submission_.over(sequence) || submission_.done(sequence);
  }
  /// Throws TaskError if that task failed or was cancelled.
  void wait(std::uint64_t sequence) {
    submission_.wait(sequence);
    machine_.failures.throw_if_failed(sequence);
  }
  /// Throws TaskError for the oldest failure here that was not reported, and forgets those here.
  void wait_all() {
    submission_.wait_for_everything();
    machine_.failures.report(
        detail::ring::EventName{number(), 0}.pack(),
        detail::ring::EventName{number(), detail::ring::EventName::sequences - 1}.pack());
  }

 private:
  detail::ring::Machine<Policy>& machine_;
  detail::ring::Submission<Policy> submission_;
};

}  // namespace nntile::test
