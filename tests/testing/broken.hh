#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A lawful runtime that chooses the worst lawful order, and the same with one law broken.
// It runs tasks only when somebody waits, the youngest that is ready first: what an order leaves
// open is hit at once.

#include <algorithm>
#include <cfenv>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::test {

enum class Defect {
  none,
  drops_write_after_read,
  reorders_two_writers,
  skips_read_after_write,
  sees_first_operand_only,
  loses_mark,
  keeps_mark_after_write,
  runs_cancelled_tasks,
  reports_youngest_failure,
  frees_under_reader,
  releases_twice,
  never_releases,
  reads_unwritten,
  half_refuses,
  lock_does_not_wait,
  wait_returns_early,
  done_says_yes,
  forgets_completion_status,
  ignores_locks,
  leaks_rounding_mode,
};

/// One thread, no promises about order but the law's.
class Broken {
 public:
  struct Handle {
    std::uint32_t number = 0;
  };

  explicit Broken(Defect defect, RuntimeOptions const& options = {}) : defect_(defect) {
    if (options.workers.value_or(1) != 1) throw ValueError("broken: one worker only");
    if (options.own_driver) throw ValueError("broken: the driver executes");
  }
  Broken(Broken const&) = delete;
  ~Broken() {
    drain([&] { return finished_ == tasks_.size(); });
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) retire_now(b);
  }

  Handle allocate(std::size_t bytes, Place, Lifetime lifetime) {
    if (lifetime != Lifetime::persistent) throw LifetimeError("broken: no scopes");
    Buffer buffer;
    // A block freed a moment ago comes back first, as from any allocator.
    auto const found =
        std::find_if(free_.begin(), free_.end(), [&](auto& block) { return block.bytes == bytes; });
    if (found != free_.end()) {
      buffer.block = std::move(*found);
      free_.erase(found);
    } else {
      buffer.block = {std::make_unique<Line[]>(bytes / sizeof(Line) + 1), bytes};
    }
    buffer.bytes = {buffer.block.lines[0].bytes, bytes};
    return add(std::move(buffer));
  }
  Handle adopt(std::span<std::byte> bytes, Place, Release release) {
    Buffer buffer;
    buffer.bytes = bytes;
    buffer.release = release;
    buffer.written = true;
    return add(std::move(buffer));
  }
  void retire(Handle handle) {
    Buffer& buffer = buffers_[handle.number];
    if (buffer.locked) throw LifetimeError("broken: retired while locked");
    buffer.retired = true;
    bool const only_read = buffer.writer == 0 || tasks_[buffer.writer - 1].finished();
    if (buffer.users == 0 || (defect_ == Defect::frees_under_reader && only_read))
      retire_now(handle.number);
  }

  Event submit(Task<Handle> const& task) {
    if (executing_) throw LifetimeError("broken: a task may not submit");
    check(task);
    tasks_.emplace_back();
    std::uint64_t const id = tasks_.size();
    Record& record = tasks_.back();
    record.codelet = task.codelet;
    record.uses.assign(task.uses.begin(), task.uses.end());
    record.attributes.resize(task.attributes.size() / sizeof(Line) + 1);
    if (!task.attributes.empty())
      std::memcpy(record.attributes[0].bytes, task.attributes.data(), task.attributes.size());
    record.name = concat(task.codelet->name, " ", task.label.tensor ? task.label.tensor : "", "[",
                         task.label.tile, "]");
    for (std::size_t u = 0; u < record.uses.size(); ++u) {
      if (defect_ == Defect::sees_first_operand_only && u > 0)
        ++buffers_[record.uses[u].handle.number].users;
      else
        link(id, record.uses[u]);
    }
    if (record.missing == 0) ready_.push_back(id);
    return {this, id};
  }

  void wait(Event event) {
    if (event.sequence == 0 || defect_ == Defect::wait_returns_early) return;
    drain([&] { return tasks_[event.sequence - 1].finished(); });
    Record const& record = tasks_[event.sequence - 1];
    if (record.state != State::succeeded && !record.reported) throw error_of(event.sequence);
  }
  bool done(Event event) {
    if (event.sequence == 0 || defect_ == Defect::done_says_yes) return true;
    if (std::this_thread::get_id() == driver_ && !executing_) advance();
    std::lock_guard const hold(mutex_);
    return tasks_[event.sequence - 1].finished();
  }
  void wait_all() {
    for (auto const& buffer : buffers_)
      if (buffer.locked && defect_ != Defect::ignores_locks)
        throw LifetimeError("broken: wait_all while a handle is locked");
    drain([&] { return finished_ == tasks_.size(); });
    std::vector<std::uint64_t> failed;
    for (std::uint64_t id = first_unreported_; id <= tasks_.size(); ++id)
      if (tasks_[id - 1].state != State::succeeded) failed.push_back(id);
    first_unreported_ = tasks_.size() + 1;
    if (failed.empty()) return;
    if (defect_ == Defect::reports_youngest_failure) std::reverse(failed.begin(), failed.end());
    TaskError const error = error_of(failed.front());
    for (auto const id : failed) tasks_[id - 1].reported = true;
    throw TaskError(
        concat(error.what(), "; ", failed.size() - 1, " other tasks failed or were cancelled"),
        error.sequence(), error.cancelled());
  }

  std::span<std::byte> lock(Handle handle, Access access) {
    Buffer& buffer = buffers_[handle.number];
    if (buffer.locked) throw LifetimeError("broken: locked twice");
    if (reads(access) && !buffer.written) throw LifetimeError("broken: nothing was written yet");
    if (defect_ != Defect::lock_does_not_wait)
      drain([&] { return buffers_[handle.number].users == 0; });
    if (buffer.mark != 0 && reads(access)) throw error_of(buffer.mark);
    buffer.locked = true;
    buffer.lock_access = access;
    return buffer.bytes;
  }
  void unlock(Handle handle) {
    Buffer& buffer = buffers_[handle.number];
    buffer.locked = false;
    if (writes(buffer.lock_access)) buffer.written = true;
    if (buffer.lock_access == Access::write) buffer.mark = 0;
  }
  Workers workers() const { return {}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct Block {
    std::unique_ptr<Line[]> lines;
    std::size_t bytes = 0;
  };
  struct Buffer {
    Block block;
    std::span<std::byte> bytes;
    Release release;
    std::uint64_t writer = 0;            // the last submitted
    std::vector<std::uint64_t> readers;  // submitted after it
    std::uint64_t mark = 0;              // the task that left it
    int users = 0;                       // unfinished uses
    bool written = false;
    bool retired = false;
    bool gone = false;
    bool locked = false;
    Access lock_access = Access::read;
  };
  enum class State : std::uint8_t { queued, pending, succeeded, failed, cancelled };
  struct Record {
    Codelet const* codelet = nullptr;
    std::vector<Use<Handle>> uses;
    std::vector<Line> attributes;
    std::vector<std::uint64_t> successors;
    std::string name;
    std::string cause;
    std::size_t missing = 0;
    State state = State::queued;
    bool reported = false;
    bool finished() const { return state > State::pending; }
  };
  struct Poll {
    Completion::Poll function;
    void* state;
    Completion token;
  };
  struct Ending {
    std::uint64_t id;
    bool failed;
    std::string cause;
  };

  Handle add(Buffer buffer) {
    buffers_.push_back(std::move(buffer));
    return {static_cast<std::uint32_t>(buffers_.size() - 1)};
  }

  void check(Task<Handle> const& task) {
    for (auto const& use : task.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      if (buffer.locked && defect_ != Defect::ignores_locks)
        throw LifetimeError("broken: a task names a locked handle");
      if (defect_ == Defect::half_refuses && use.access == Access::write) buffer.written = true;
      if (reads(use.access) && !buffer.written && defect_ != Defect::reads_unwritten)
        throw LifetimeError(
            concat("broken: ", task.codelet->name, " reads what nobody has written"));
    }
    for (auto const& use : task.uses)
      if (writes(use.access)) buffers_[use.handle.number].written = true;
  }

  void link(std::uint64_t id, Use<Handle> const& use) {
    Buffer& buffer = buffers_[use.handle.number];
    ++buffer.users;
    bool const skips_writer =
        (defect_ == Defect::skips_read_after_write && use.access == Access::read) ||
        (defect_ == Defect::reorders_two_writers && use.access == Access::write);
    if (!skips_writer) follow(id, buffer.writer);
    if (!writes(use.access)) {
      buffer.readers.push_back(id);
      return;
    }
    if (defect_ != Defect::drops_write_after_read)
      for (std::uint64_t const reader : buffer.readers) follow(id, reader);
    buffer.readers.clear();
    buffer.writer = id;
  }
  void follow(std::uint64_t id, std::uint64_t earlier) {
    if (earlier == 0 || earlier == id || tasks_[earlier - 1].finished()) return;
    tasks_[earlier - 1].successors.push_back(id);
    ++tasks_[id - 1].missing;
  }

  /// Does one thing: ends a task that completed outside, polls, or runs the youngest ready task.
  /// False: nothing to do.
  bool advance() {
    if (end_completed()) return true;
    if (poll()) return true;
    if (ready_.empty()) return false;
    auto const youngest = std::max_element(ready_.begin(), ready_.end());
    std::uint64_t const id = *youngest;
    *youngest = ready_.back();
    ready_.pop_back();
    run(id);
    return true;
  }
  template <class Condition> void drain(Condition finished) {
    while (!finished()) {
      if (advance()) continue;
      std::unique_lock lock(mutex_);
      if (polls_.empty()) wake_.wait(lock, [&] { return !endings_.empty() || !polls_.empty(); });
    }
  }
  bool end_completed() {
    std::unique_lock lock(mutex_);
    if (endings_.empty()) return false;
    Ending const ending = endings_.back();
    endings_.pop_back();
    lock.unlock();
    end(ending.id, ending.failed ? State::failed : State::succeeded, ending.cause);
    return true;
  }
  bool poll() {
    std::vector<Poll> polls;
    {
      std::lock_guard const hold(mutex_);
      polls.swap(polls_);
    }
    bool any = false;
    for (Poll const& poll : polls) {
      if (poll.function(poll.state, poll.token)) {
        any = true;
      } else {
        std::lock_guard const hold(mutex_);
        polls_.push_back(poll);
      }
    }
    return any;
  }

  void run(std::uint64_t id) {
    std::vector<void*> pointers;
    bool cancelled = false;
    for (auto const& use : tasks_[id - 1].uses) {
      Buffer& buffer = buffers_[use.handle.number];
      pointers.push_back(buffer.bytes.data());
      bool const looks = use.access == Access::read || use.access == Access::update;
      cancelled = cancelled || (looks && buffer.mark != 0);
    }
    if (cancelled && defect_ != Defect::runs_cancelled_tasks)
      return end(id, State::cancelled, "a failed input");
    char text[status_text_bytes] = "";
    KernelCall const call{pointers.data(), tasks_[id - 1].attributes[0].bytes, text};
    {
      std::lock_guard const hold(mutex_);
      tasks_[id - 1].state = State::pending;
    }
    Codelet const& codelet = *tasks_[id - 1].codelet;
    std::fenv_t environment;
    std::fegetenv(&environment);
    if (defect_ != Defect::leaks_rounding_mode) std::fesetenv(FE_DFL_ENV);
    executing_ = true;
    Status const status =
        codelet.cpu != nullptr
            ? codelet.cpu(call)
            : codelet.async(call, {this, id, &Broken::complete, &Broken::add_poll});
    executing_ = false;
    std::fesetenv(&environment);
    if (codelet.cpu != nullptr || !status.ok())
      end(id, status.ok() ? State::succeeded : State::failed, status.ok() ? "" : status.error);
  }

  void end(std::uint64_t id, State state, std::string cause) {
    Record& record = tasks_[id - 1];
    {
      std::lock_guard const hold(mutex_);
      record.state = state;
      record.cause = std::move(cause);
    }
    ++finished_;
    bool const marks =
        state == State::failed || (state == State::cancelled && defect_ != Defect::loses_mark);
    for (auto const& use : record.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      if (writes(use.access) && marks) buffer.mark = id;
      if (use.access == Access::write && !marks && defect_ != Defect::keeps_mark_after_write)
        buffer.mark = 0;
    }
    for (auto const& use : record.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      if (--buffer.users == 0 && buffer.retired) retire_now(use.handle.number);
    }
    for (std::uint64_t const successor : record.successors)
      if (--tasks_[successor - 1].missing == 0) ready_.push_back(successor);
    record.uses = {};
    record.attributes = {};
    record.successors = {};
  }

  void retire_now(std::uint32_t number) {
    Buffer& buffer = buffers_[number];
    if (buffer.gone) return;
    buffer.gone = true;
    if (buffer.block.lines != nullptr) {
      std::memset(buffer.bytes.data(), 0xdd, buffer.bytes.size());
      free_.push_back(std::move(buffer.block));
    } else if (defect_ != Defect::never_releases) {
      buffer.release();
      if (defect_ == Defect::releases_twice) buffer.release();
    }
  }

  TaskError error_of(std::uint64_t id) const {
    Record const& record = tasks_[id - 1];
    return {concat(record.name, ": ", record.cause), id, record.state == State::cancelled};
  }

  static void complete(void* owner, std::uint64_t id, Status status) noexcept {
    auto& self = *static_cast<Broken*>(owner);
    std::lock_guard const hold(self.mutex_);
    bool const failed = !status.ok() && self.defect_ != Defect::forgets_completion_status;
    self.endings_.push_back({id, failed, failed ? status.error : ""});
    self.wake_.notify_all();
  }
  static void add_poll(void* owner, std::uint64_t id, Completion::Poll poll, void* state, bool) {
    auto& self = *static_cast<Broken*>(owner);
    std::lock_guard const hold(self.mutex_);
    self.polls_.push_back({poll, state, {owner, id, &Broken::complete, &Broken::add_poll}});
  }

  Defect const defect_;
  std::thread::id const driver_ = std::this_thread::get_id();
  std::vector<Buffer> buffers_;
  std::vector<Block> free_;
  std::vector<Record> tasks_;  // task of sequence n at n - 1
  std::vector<std::uint64_t> ready_;
  std::size_t finished_ = 0;
  std::uint64_t first_unreported_ = 1;
  bool executing_ = false;
  std::mutex mutex_;  // guards states, endings and polls, which other threads see
  std::condition_variable wake_;
  std::vector<Ending> endings_;
  std::vector<Poll> polls_;
};
static_assert(Runtime<Broken>);

}  // namespace nntile::test
