#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// State that outlives a runtime: whether it is alive, the handles that other threads than its
// driver have dropped, and the names that tasks may still refer to.
//
// Use by a runtime: a member LinkRef, before its DrivingThread, which notes the driver there;
// every driving call, having entered, checks any_dropped() and settles what was dropped
// (support/dropped.hh), but one that needs nothing of it may leave that to the next; when all tasks
// have ended it calls forget_names(); the first statement of the destructor is close().

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile::support {

/// Another thread is inside a driving call.
class DrivenElsewhere : public LifetimeError {
  using LifetimeError::LifetimeError;
};

/// A string that can stand in a list; null: none.
class NameText {
 public:
  NameText() = default;
  /// A copy, in one allocation. Throws std::bad_alloc.
  explicit NameText(std::string_view text) : node_(new char[sizeof(char*) + text.size() + 1]()) {
    text.copy(node_ + sizeof(char*), text.size());
  }
  NameText(NameText&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NameText& operator=(NameText other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NameText() { delete[] node_; }
  char const* c_str() const noexcept { return node_ != nullptr ? node_ + sizeof(char*) : nullptr; }

 private:
  template <class> friend class Link;
  char* node_ = nullptr;  // the next one's address, then the text
};

/// Shared by a runtime and the objects made on it. Every member may be called from any thread.
template <class Handle> class Link {
 public:
  Link() = default;
  Link(Link const&) = delete;
  Link& operator=(Link const&) = delete;
  ~Link() {
    take([](Handle const&, bool) {});
    forget_names();
  }

  bool alive() const noexcept { return alive_.load(std::memory_order_acquire); }
  /// The thread that drives the runtime.
  std::atomic<std::uintptr_t>& driver() noexcept { return driver_; }

  /// Holds the destructor of the runtime off until `unpin`; false if it has begun.
  bool pin() noexcept {
    pins_.fetch_add(1, std::memory_order_seq_cst);
    if (alive_.load(std::memory_order_seq_cst)) return true;
    unpin();
    return false;
  }
  void unpin() noexcept { pins_.fetch_sub(1, std::memory_order_seq_cst); }
  /// From now on the runtime is not alive, and no pin holds it. A child process does not wait for
  /// the threads of its parent.
  void close(bool waits = true) noexcept {
    alive_.store(false, std::memory_order_seq_cst);
    while (waits && pins_.load(std::memory_order_seq_cst) != 0) detail::yield_core();
  }

  /// Leaves a handle to be retired, or unlocked, to the driver. Without memory for that it stays as
  /// it is until the runtime ends.
  void drop(Handle const& handle, bool unlock) noexcept {
    if (auto* const dropped = new (std::nothrow) Dropped{handle, unlock, nullptr}) push(*dropped);
  }
  /// Keeps a name whose object has ended for the tasks before, which may fail and refer to it.
  void keep(NameText&& name) noexcept {
    if (name.node_ == nullptr) return;
    char* const node = std::exchange(name.node_, nullptr);
    char* next = names_.load(std::memory_order_relaxed);
    do {
      std::memcpy(node, &next, sizeof next);
    } while (!names_.compare_exchange_weak(next, node, std::memory_order_release,
                                           std::memory_order_relaxed));
  }
  /// Frees the kept names: all tasks that were submitted have ended.
  void forget_names() noexcept {
    for (char* node = names_.exchange(nullptr, std::memory_order_acquire); node != nullptr;) {
      char* next = nullptr;
      std::memcpy(&next, node, sizeof next);
      delete[] std::exchange(node, next);
    }
  }
  bool any_dropped() const noexcept { return dropped_.load(std::memory_order_relaxed) != nullptr; }
  /// Calls settle(handle, unlock) for all that were dropped, in the order of `drop`. If it throws,
  /// that handle and the later ones count as dropped again.
  template <class Settle> void take(Settle&& settle) {
    Taken taken{*this, dropped_.exchange(nullptr, std::memory_order_acquire)};
    while (taken.oldest != nullptr) {
      settle(taken.oldest->handle, taken.oldest->unlock);
      delete std::exchange(taken.oldest, taken.oldest->next);
    }
  }

 private:
  template <class> friend class LinkRef;
  struct Dropped {
    Handle handle;
    bool unlock;
    Dropped* next;
  };
  /// A list that was taken, in the order of `drop`. Gives back what is left of it.
  struct Taken {
    Link& link;
    Dropped* oldest = nullptr;

    Taken(Link& from, Dropped* newest) noexcept : link(from) {
      while (newest != nullptr) {
        Dropped* const next = std::exchange(newest->next, oldest);
        oldest = std::exchange(newest, next);
      }
    }
    Taken(Taken const&) = delete;
    Taken& operator=(Taken const&) = delete;
    ~Taken() {
      while (oldest != nullptr) link.push(*std::exchange(oldest, oldest->next));
    }
  };

  void push(Dropped& dropped) noexcept {
    dropped.next = dropped_.load(std::memory_order_relaxed);
    while (!dropped_.compare_exchange_weak(dropped.next, &dropped, std::memory_order_release,
                                           std::memory_order_relaxed)) {
    }
  }

  std::atomic<std::uint32_t> references_{1};
  std::atomic<std::uint32_t> pins_{0};
  std::atomic<bool> alive_{true};
  std::atomic<std::uintptr_t> driver_{0};
  std::atomic<Dropped*> dropped_{nullptr};
  std::atomic<char*> names_{nullptr};
};

/// A counted reference to a link, or none.
template <class Handle> class LinkRef {
 public:
  LinkRef() = default;
  /// The first reference to a new link. Throws std::bad_alloc.
  static LinkRef make() {
    LinkRef result;
    result.link_ = new Link<Handle>;
    return result;
  }
  LinkRef(LinkRef const& other) noexcept : link_(other.link_) {
    if (link_ != nullptr) link_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  LinkRef(LinkRef&& other) noexcept : link_(std::exchange(other.link_, nullptr)) {}
  LinkRef& operator=(LinkRef other) noexcept {
    std::swap(link_, other.link_);
    return *this;
  }
  ~LinkRef() {
    if (link_ != nullptr && link_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete link_;
  }
  Link<Handle>* operator->() const noexcept { return link_; }
  explicit operator bool() const noexcept { return link_ != nullptr; }

 private:
  Link<Handle>* link_ = nullptr;
};

}  // namespace nntile::support
