#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks that submit and have not ended, as a tree.

#include <cstdint>

#include "nntile/core/threads.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

template <class Policy> struct Domain;
template <class Policy> struct Pending;

/// A task that submits, from the start of its body to the end of its last task.
template <class Policy> struct Family {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

  explicit Family(typename Policy::Mutex& of_all) : mutex(of_all) {}
  Family(Family const&) = delete;
  Family& operator=(Family const&) = delete;
  virtual ~Family() = default;
  /// Settles the task and gives the domain back. By the thread that has counted `live` to 0.
  virtual void close() noexcept = 0;
  /// Makes room for more of its tasks without waiting for one; false where there is none. By the
  /// body.
  virtual bool grow() noexcept = 0;

  /// The body, and each of its tasks; one that may end after its slot counts twice.
  Atomic<std::uint32_t> live{0};
  Pending<Policy>* outer = nullptr;
  typename Policy::template Plain<Domain<Policy>*> inner = nullptr;  // the body submits there

  /// Those of its tasks that submit, in a list, for bodies that wait. Under the
  /// mutex: a thread that holds it knows that none of them closes.
  typename Policy::Mutex& mutex;  // one for all of a machine
  Family* above = nullptr;
  typename Policy::template Plain<Family*> first = nullptr;
  typename Policy::template Plain<Family*> next = nullptr;
  typename Policy::template Plain<Family*> previous = nullptr;

  void attach(Family* to) {
    above = to;
    if (to == nullptr) return;
    Lock guard(mutex);
    next = to->first;
    previous = nullptr;
    if (Family* const second = next) second->previous = this;
    to->first = this;
  }
  void detach() {
    if (above == nullptr) return;
    Lock guard(mutex);
    Family* const before = previous;
    Family* const behind = next;
    if (behind != nullptr) behind->previous = before;
    if (before != nullptr)
      before->next = behind;
    else
      above->first = behind;
  }

  /// Calls found(domain) for the domains where the slots of this one and of all below are, each
  /// before those below it, until one returns true; then true. Needs no stack.
  template <class Found> bool each_below(Found found) {
    Family* at = this;
    Lock guard(mutex);
    for (;;) {
      Domain<Policy>& own = *at->inner;
      Domain<Policy>* const more = own.more.load(std::memory_order_seq_cst);
      bool const ends = found(own) || (more != nullptr && found(*more));
      Family* const below = ends ? nullptr : static_cast<Family*>(at->first);
      if (below != nullptr) {
        at = below;
        continue;
      }
      Family* beside = nullptr;
      while (beside == nullptr) {
        Family* const left = at;
        bool const top = left == this;
        beside = ends || top ? nullptr : static_cast<Family*>(left->next);
        at = left->above;
        if (top) return ends;
      }
      at = beside;
    }
  }
};

}  // namespace nntile::detail::ring
