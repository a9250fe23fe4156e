// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Runs a few routines through every order in which they can touch what they share: one runs at a
// time, and may be interrupted before each operation of an atomic, mutex or condition from here.
// Memory orders are those of model/; here routines may loop without end.

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

namespace nntile::test {

/// Explores by running the program again and again, each time along another sequence of choices.
/// What a routine does next depends on what its operations have returned, so two points with equal
/// pasts of all routines and equal bytes of what they share have equal futures: the second is not
/// followed.
class Interleavings {
 public:
  /// Calls start(*this), which makes the shared state and calls `spawn` for each routine, and, at
  /// the end of each execution that met no known point, end(): all have returned or are blocked.
  template <class Start, class End> void explore(Start start, End end) {
    current = this;
    do {
      depth_ = count_ = 0;
      shared_ = {};
      start(*this);
      if (!run()) continue;
      ++ends_;
      end();
    } while (complete() && next_path());
  }

  /// All that the routines share: an object without pointers, in memory that was zero before.
  void share(std::span<std::byte const> bytes) { shared_ = bytes; }

  /// The body must own nothing: a routine whose future is known is left where it is.
  template <class Body> void spawn(Body body) {
    if (count_ == routines_.size()) routines_.push_back(std::make_unique<Routine>());
    Routine& routine = *routines_[count_++];
    routine.past = 0;
    routine.waits_at = nullptr;
    routine.held = nullptr;
    routine.blocked = routine.returned = false;
    routine.body = std::make_unique<BodyOf<Body>>(body);
    getcontext(&routine.context);
    routine.context.uc_stack.ss_sp = routine.stack.get();
    routine.context.uc_stack.ss_size = stack_bytes;
    routine.context.uc_link = nullptr;
    makecontext(&routine.context, &enter, 0);
  }

  /// Whether all was tried: more points than these are a sign of a count that runs away.
  bool complete() const { return known_.size() <= 1'000'000; }
  /// Points met, and executions that went on to their end.
  std::size_t points() const { return known_.size(); }
  std::size_t ends() const { return ends_; }

  // For routines and what they share.
  static inline Interleavings* current = nullptr;
  /// Replaces the routine's history by this number.
  void forget(std::uint64_t all_but) { routines_[self_]->past = all_but; }
  /// Which of the routines runs, by the order in which they were spawned.
  std::size_t routine() const { return self_; }
  /// Lets others run; returns when it is this one's turn again, which does not come while `held`.
  void point(bool const* held = nullptr) {
    if (self_ == nobody) return;
    Routine& self = *routines_[self_];
    mix(self.past, 0);  // it is further on than before
    self.held = held;
    ucontext_t* const next = choose_next();
    if (next != &self.context) swapcontext(&self.context, next);
  }
  /// Lets others run until one of them has called `wake` for that place, if `blocked`; false if it
  /// was not woken.
  bool wait_at(void const* place, bool blocked) {
    Routine& self = *routines_[self_];
    self.waits_at = place;
    self.blocked = blocked;
    point();
    return std::exchange(self.waits_at, nullptr) == nullptr;
  }
  /// Wakes all that wait there, or one of them: each in some execution.
  void wake(void const* place, bool all) {
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < count_; ++i) waiting += routines_[i]->waits_at == place ? 1u : 0u;
    std::size_t skip = all || waiting == 0 ? 0 : choose(waiting);
    for (std::size_t i = 0; i < count_ && waiting != 0; ++i) {
      if (routines_[i]->waits_at != place || skip-- != 0) continue;
      routines_[i]->waits_at = nullptr;
      routines_[i]->blocked = false;
      skip = 0;
      if (!all) return;
    }
  }
  /// Adds what an operation returned to the past of its routine.
  void saw(std::uint64_t value) {
    if (self_ != nobody) mix(routines_[self_]->past, value + 1);
  }
  /// As saw, of what is shared from this address on.
  void saw_from(void const* first) {
    auto const* const begin = static_cast<std::byte const*>(first);
    saw(hash_of({begin, shared_.data() + shared_.size()}));
  }

 private:
  struct Body {
    virtual ~Body() = default;
    virtual void run() = 0;
  };
  template <class F> struct BodyOf final : Body {
    explicit BodyOf(F f) : function(f) {}
    void run() override { function(); }
    F function;
  };
  static constexpr std::size_t stack_bytes = std::size_t{1} << 17;
  struct Routine {
    ucontext_t context;
    std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_bytes);
    std::unique_ptr<Body> body;
    std::uint64_t past = 0;
    void const* waits_at = nullptr;
    bool const* held = nullptr;
    bool blocked = false;
    bool returned = false;

    bool able() const { return !blocked && !returned && (held == nullptr || !*held); }
  };
  struct Choice {
    std::size_t taken;
    std::size_t count;
  };
  static constexpr std::size_t nobody = ~std::size_t{0};

  static void enter() {
    Routine& routine = *current->routines_[current->self_];
    routine.body->run();
    routine.returned = true;
    setcontext(current->choose_next());
  }

  /// One of `count` numbers; every one in some execution.
  std::size_t choose(std::size_t count) {
    if (count == 1) return 0;
    if (depth_ == path_.size()) path_.push_back({0, count});
    return path_[depth_++].taken;
  }

  /// True if the execution came to its end, false if the rest is known.
  bool run() {
    known_end_ = false;
    swapcontext(&caller_, choose_next());
    return !known_end_;
  }

  /// Whose turn is next: a routine's, or the caller's if there is no more to see.
  ucontext_t* choose_next() {
    self_ = nobody;
    std::size_t turns[32], count = 0;
    for (std::size_t i = 0; i < count_; ++i)
      if (routines_[i]->able()) turns[count++] = i;
    if (count == 0) return &caller_;
    // Before that, it is on the way to the choice that differs from the last execution.
    if (depth_ == path_.size()) known_end_ = !known_.insert(key()).second || !complete();
    if (known_end_) return &caller_;
    self_ = turns[choose(count)];
    return &routines_[self_]->context;
  }

  static std::uint64_t hash_of(std::span<std::byte const> bytes) {
    std::uint64_t hash = 0, word;
    for (std::size_t i = 0; i + sizeof word <= bytes.size(); i += sizeof word) {
      std::memcpy(&word, bytes.data() + i, sizeof word);
      mix(hash, word);
    }
    return hash;
  }
  std::uint64_t key() const {
    std::uint64_t hash = hash_of(shared_);
    for (std::size_t i = 0; i < count_; ++i) {
      mix(hash, routines_[i]->past ^ reinterpret_cast<std::uintptr_t>(routines_[i]->waits_at) ^
                    (routines_[i]->blocked ? 2u : 0u) ^ (routines_[i]->returned ? 1u : 0u));
    }
    return hash;
  }
  /// Source: the finaliser of splitmix64.
  static void mix(std::uint64_t& hash, std::uint64_t value) {
    hash += value + 0x9e3779b97f4a7c15u;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    hash ^= hash >> 31;
  }

  bool next_path() {
    while (!path_.empty() && ++path_.back().taken == path_.back().count) path_.pop_back();
    return !path_.empty();
  }

  ucontext_t caller_;
  std::vector<std::unique_ptr<Routine>> routines_;
  std::size_t count_ = 0;  // of this execution
  std::size_t self_ = nobody;
  std::span<std::byte const> shared_;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::unordered_set<std::uint64_t> known_;
  std::size_t ends_ = 0;
  bool known_end_ = false;
};

/// As std::atomic, with the operations that are used; the weak exchange never fails spuriously.
template <class T> class StepAtomic {
 public:
  StepAtomic() : value_() {}
  StepAtomic(T value) : value_(value) {}
  StepAtomic(StepAtomic const&) = delete;
  StepAtomic& operator=(StepAtomic const&) = delete;

  T load(std::memory_order) const {
    Interleavings::current->point();
    return saw(value_);
  }
  void store(T value, std::memory_order) {
    Interleavings::current->point();
    value_ = value;
  }
  T fetch_add(T value, std::memory_order) {
    Interleavings::current->point();
    return saw(std::exchange(value_, static_cast<T>(value_ + value)));
  }
  T fetch_sub(T value, std::memory_order order) {
    return fetch_add(static_cast<T>(T{} - value), order);
  }
  T exchange(T value, std::memory_order) {
    Interleavings::current->point();
    return saw(std::exchange(value_, value));
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order) {
    Interleavings::current->point();
    bool const equal = value_ == expected;
    expected = saw(value_);
    if (equal) value_ = wanted;
    return equal;
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order order) {
    return compare_exchange_weak(expected, wanted, order);
  }

 private:
  static T saw(T value) {
    Interleavings::current->saw(static_cast<std::uint64_t>(value));
    return value;
  }
  T value_;
};

/// Guards the members behind it, which are all that its holders read besides atomics.
class StepMutex {
 public:
  void lock() {
    Interleavings::current->point(&held_);
    held_ = true;
    Interleavings::current->saw_from(this);
  }
  void unlock() { held_ = false; }

 private:
  bool held_ = false;
};

/// No spurious wake-ups; `notify_one` wakes each of the waiting routines in some execution. A limit
/// of time may pass at any moment.
class StepCondition {
 public:
  template <class Ready> void wait(detail::Lock<StepMutex>& lock, Ready ready) {
    while (!ready()) {
      lock.mutex().unlock();
      (void)Interleavings::current->wait_at(this, true);
      lock.mutex().lock();
    }
  }
  template <class Ready> bool wait_for(detail::Lock<StepMutex>& lock, std::int64_t, Ready ready) {
    while (!ready()) {
      lock.mutex().unlock();
      bool const woken = Interleavings::current->wait_at(this, false);
      lock.mutex().lock();
      if (!woken) return ready();
    }
    return true;
  }
  void notify_one() {
    Interleavings::current->point();
    Interleavings::current->wake(this, false);
  }
  void notify_all() {
    Interleavings::current->point();
    Interleavings::current->wake(this, true);
  }
};

}  // namespace nntile::test
