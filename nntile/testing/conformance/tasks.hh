#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The one computation of the battery's tasks, and the ways in which a task can end.

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/testing/conformance/activity.hh"
#include "nntile/testing/conformance/journal.hh"

namespace nntile::testing {

/// The end of a task: within its entry, or asynchronously in one of four ways.
enum class Finish : std::uint8_t {
  returns,      // a CPU entry
  early,        // the token is completed before the entry returns
  outside,      // by a thread that the runtime does not know
  polled,       // by a poll
  polled_here,  // by a poll that only the driving thread may call
  void_token    // the entry fails and the token is void; of failing tasks only
};

class Outside;

/// An operand in the arguments of its task.
struct OperandNote {
  Guard* guard;  // null: an earlier operand is the same buffer and guards it
  std::uint32_t words;
  Access access;
  Access guarded;  // the union of the accesses to this buffer
};

inline constexpr std::size_t max_operands = 40;

/// Parts of a buffer that a task may write alone: every 16th word.
inline constexpr std::uint32_t disjoint_parts = 16;

/// The number of pauses that stands for a sleep long enough for every other worker to overtake.
inline constexpr std::uint8_t nap = 255;

/// The arguments of a task. Only the operands in use are submitted.
struct Note {
  Journal* journal = nullptr;
  Outside* outside = nullptr;
  std::uint64_t salt = 0;
  std::uint32_t task = 0;
  std::uint8_t operand_count = 0;
  Finish finish = Finish::returns;
  bool fails = false;
  std::uint8_t pauses = 0;
  std::uint8_t part = 0;  // that it writes of a buffer whose other parts are others'
  std::array<OperandNote, max_operands> operands{};

  std::span<OperandNote const> used() const { return {operands.data(), operand_count}; }
  std::span<std::byte const> bytes() const {
    auto const* const end = reinterpret_cast<std::byte const*>(&operands[operand_count]);
    auto const* const begin = reinterpret_cast<std::byte const*>(this);
    return {begin, static_cast<std::size_t>(end - begin)};
  }
};

/// Reads the arguments of a call; what was not submitted stays at its default.
inline Note note_of(void const* arguments) {
  Note note;
  std::memcpy(static_cast<void*>(&note), arguments, offsetof(Note, operands));
  std::memcpy(static_cast<void*>(&note), arguments, note.bytes().size());
  return note;
}

/// A hash of all that the task may look at.
inline std::uint64_t hash_inputs(Note const& note, void* const* buffers) {
  std::uint64_t hash = note.salt;
  for (std::size_t i = 0; i < note.operand_count; ++i) {
    OperandNote const& operand = note.operands[i];
    if (operand.access != Access::read && operand.access != Access::update) continue;
    auto const* const words = static_cast<std::uint64_t const*>(buffers[i]);
    for (std::uint32_t w = 0; w < operand.words; ++w) hash = mix(hash, words[w]);
  }
  return hash;
}

/// The effect of a task on its buffers: every written word depends on every word read and on the
/// place of each. What it accesses in no order it leaves alone.
inline void write_outputs(Note const& note, void* const* buffers, std::uint64_t hash) {
  for (std::size_t i = 0; i < note.operand_count; ++i) {
    OperandNote const& operand = note.operands[i];
    if (!writes(operand.access) || operand.access == Access::unordered) continue;
    bool const in_part = operand.access == Access::write_disjoint;
    auto* const words = static_cast<std::uint64_t*>(buffers[i]);
    for (std::uint32_t w = in_part ? note.part : 0; w < operand.words;
         w += in_part ? disjoint_parts : 1) {
      std::uint64_t const value = mix(hash, i * 4096 + w);
      words[w] = operand.access == Access::accumulate ? words[w] + value : value;
    }
  }
}

inline constexpr char failure_text[] = "asked to fail";

/// A task between its first and its last instruction.
class Running {
 public:
  Running(Note const& note, void* const* buffers)
      : note_(note), buffers_(buffers, buffers + note.operand_count) {
    Journal& journal = *note_.journal;
    journal.ran(note_.task);
    for (auto const& operand : note_.used())
      if (operand.guard != nullptr) journal.enter(*operand.guard, operand.guarded, note_.task);
    hash_ = hash_inputs(note_, buffers_.data());
  }
  Note const& note() const { return note_; }
  void pause() const {
    if (note_.pauses == nap)
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    else
      for (int i = 0; i < note_.pauses; ++i) std::this_thread::yield();
  }

  /// Writes what the task writes; garbage where it fails.
  Status end() {
    Journal& journal = *note_.journal;
    if (hash_inputs(note_, buffers_.data()) != hash_)
      journal.complain(concat("the inputs of task ", note_.task, " changed while it ran"));
    write_outputs(note_, buffers_.data(), note_.fails ? ~hash_ : hash_);
    for (auto const& operand : note_.used())
      if (operand.guard != nullptr) journal.leave(*operand.guard, operand.guarded, note_.task);
    return note_.fails ? Status{failure_text} : Status{};
  }

 private:
  Note note_;
  std::vector<void*> buffers_;
  std::uint64_t hash_ = 0;
};

/// A thread of the test that ends asynchronous tasks some time after they began. Declare it
/// before the runtime, and a `Hold` after it: tokens are kept while a Hold lives.
class Outside {
 public:
  Outside() : thread_([this] { loop(); }) {}
  Outside(Outside const&) = delete;
  ~Outside() {
    {
      std::lock_guard const hold(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void take(std::unique_ptr<Running> running, Completion token) {
    {
      std::lock_guard const hold(mutex_);
      waiting_.push_back({std::move(running), token});
    }
    wake_.notify_all();
  }

  class Hold {
   public:
    explicit Hold(Outside& outside) : outside_(outside) { outside_.count_holds(1); }
    Hold(Hold const&) = delete;
    ~Hold() { outside_.count_holds(-1); }

   private:
    Outside& outside_;
  };

 private:
  struct Entry {
    std::unique_ptr<Running> running;
    Completion token;
  };

  void count_holds(int change) {
    {
      std::lock_guard const hold(mutex_);
      holds_ += change;
    }
    wake_.notify_all();
  }

  static Status end(Running& running) {
    detail::ActiveStep const step;
    running.pause();
    return running.end();
  }
  void loop() {
    Random random(1);
    for (std::unique_lock lock(mutex_);;) {
      wake_.wait(lock, [&] { return stop_ || (!waiting_.empty() && holds_ == 0); });
      if (waiting_.empty()) return;
      std::swap(waiting_[random.below(waiting_.size())], waiting_.back());
      Entry entry = std::move(waiting_.back());
      waiting_.pop_back();
      lock.unlock();
      Status const status = end(*entry.running);
      entry.running.reset();
      entry.token.complete(status);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<Entry> waiting_;
  int holds_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

namespace detail {

/// A polled task: done at the third look, and not to be looked at after it.
struct Polled {
  Running running;
  std::thread::id driver;  // the only one to poll it, or no thread at all
  std::atomic<bool> polling{false};
  int looks = 0;

  static bool poll(void* state, Completion token) {
    ActiveStep const step;
    auto* const polled = static_cast<Polled*>(state);
    Note const& note = polled->running.note();
    Journal& journal = *note.journal;
    if (polled->polling.exchange(true))
      journal.complain(
          concat("the poll of task ", note.task, " was called by two threads at once"));
    if (polled->driver != std::thread::id() && polled->driver != std::this_thread::get_id())
      journal.complain(
          concat("the driver-only poll of task ", note.task, " ran on another thread"));
    int const look = ++polled->looks;
    polled->polling = false;
    if (look < 3) return false;
    if (look == 3)
      token.complete(polled->running.end());
    else
      journal.complain(concat("the poll of task ", note.task, " was called after it had said yes"));
    return true;
  }
};

inline Status run_mix(KernelCall const& call) noexcept {
  ActiveStep const step;
  Running running(note_of(call.arguments), call.buffers);
  running.pause();
  return running.end();
}

/// Starts the same computation, to be ended as the note says.
inline Status start_mix(KernelCall const& call, Completion token) noexcept {
  ActiveStep const step;
  auto running = std::make_unique<Running>(note_of(call.arguments), call.buffers);
  Note const& note = running->note();
  switch (note.finish) {
    case Finish::outside:
      note.outside->take(std::move(running), token);
      break;
    case Finish::polled:
    case Finish::polled_here: {
      bool const here = note.finish == Finish::polled_here;
      auto const driver = here ? note.journal->driver() : std::thread::id();
      std::shared_ptr<Polled> const polled(new Polled{std::move(*running), driver});
      polled->running.note().journal->keep(polled);
      token.poll(Polled::poll, polled.get(), here);
      break;
    }
    case Finish::void_token:
      return running->end();
    case Finish::early:
    case Finish::returns:
      token.complete(running->end());
  }
  return {};
}

}  // namespace detail

inline constexpr Codelet mix_codelet{"mix", detail::run_mix, nullptr, nullptr};
inline constexpr Codelet late_mix_codelet{"late_mix", nullptr, nullptr, detail::start_mix};

}  // namespace nntile::testing
