#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A lawful runtime that chooses the worst lawful order, and the same with one law broken.
// It runs tasks only inside waiting calls, the youngest ready one first, so that a missing order is
// found at once.

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/support/workspaces.hh"
#include "tests/testing/broken_links.hh"
#include "tests/testing/broken_state.hh"
#include "tests/testing/defect.hh"
#include "tests/testing/newest.hh"

namespace nntile::test {

/// One thread, and no promises about order but the law's.
class Broken {
 public:
  using Handle = broken::Handle;

  explicit Broken(Defect defect, RuntimeOptions const& options = {}) : defect_(defect) {
    bool const possible = options.workers.value_or(1) == 1 && !options.own_driver;
    if (!possible && !is(Defect::accepts_any_workers))
      throw ValueError("broken: one worker, and that is the driver");
  }
  Broken(Broken const&) = delete;
  ~Broken() {
    if (is(Defect::abandons_tasks)) ready_.clear();
    drain([&] { return tokens_ == 0 && ready_.empty(); });
    for (std::uint32_t b = 0; b < buffers_.size(); ++b) retire_now(b);
    if (is(Defect::frees_nothing_at_the_end)) blocks_.leak();
  }

  Handle allocate(std::size_t bytes, Place place, Lifetime lifetime) {
    if (is(Defect::allocates_nothing)) throw OutOfMemory("broken: no memory");
    check_place(place, Defect::takes_any_place);
    if (bytes == 0 && is(Defect::refuses_empty_buffers)) throw ValueError("broken: no bytes");
    Scope* const scope = innermost(lifetime);
    if (lifetime != Lifetime::persistent && scope == nullptr)
      throw LifetimeError("broken: no open scope");
    Buffer buffer;
    buffer.block = blocks_.take(bytes);
    buffer.bytes = {buffer.block.lines[0].bytes + (is(Defect::misaligns) ? 8 : 0), bytes};
    buffers_.push_back(std::move(buffer));
    if (scope != nullptr) scope->buffers.push_back(last());
    return last();
  }
  Handle adopt(std::span<std::byte> bytes, Place place, Release release) {
    check_place(place, Defect::adopts_at_any_place);
    Buffer buffer;
    buffer.bytes = buffer.adopted = bytes;
    buffer.release = release;
    buffer.written = true;
    if (is(Defect::copies_adopted_memory)) {
      buffer.block = blocks_.take(bytes.size());
      buffer.bytes = {buffer.block.lines[0].bytes, bytes.size()};
      std::copy(bytes.begin(), bytes.end(), buffer.bytes.begin());
    }
    buffers_.push_back(std::move(buffer));
    return last();
  }
  void retire(Handle handle) {
    Buffer& buffer = find(handle, Defect::retires_twice);
    if (buffer.locked && !is(Defect::ignores_locks))
      throw LifetimeError("broken: retired while locked");
    buffer.retired = true;
    bool const only_read = buffer.writer == 0 || tasks_[buffer.writer - 1].finished();
    if (buffer.users == 0 || (is(Defect::frees_under_reader) && only_read))
      retire_now(handle.number);
    if (is(Defect::frees_under_token) && only_tokens_hold(handle)) retire_now(handle.number);
    if (is(Defect::frees_under_unordered) && buffer.users == buffer.unordered)
      retire_now(handle.number);
  }

  void open_scope(Lifetime lifetime) {
    check_outside();
    if (lifetime == Lifetime::persistent) throw LifetimeError("broken: persistent is no scope");
    scopes_.push_back({lifetime, {}});
  }
  void close_scope(Lifetime lifetime) {
    Scope* scope = innermost(lifetime);
    if (scope == nullptr && is(Defect::closes_any_scope)) return;
    if (scope == nullptr) throw LifetimeError("broken: no such scope is open");
    if (scope != &scopes_.back() && !is(Defect::closes_around_scopes))
      throw LifetimeError("broken: another scope is open inside it");
    for (Handle const handle : scope->buffers)
      if (buffers_[handle.number].locked && !is(Defect::ignores_locks))
        throw LifetimeError("broken: a buffer of the scope is locked");
    if (is(Defect::closes_outer_scope))
      for (Scope& other : scopes_)
        if (other.lifetime == lifetime) std::swap(other.buffers, scope->buffers);
    std::vector<Handle> const buffers = scope->buffers;
    scopes_.erase(scopes_.begin() + (scope - scopes_.data()));
    for (Handle const handle : buffers)
      if (!buffers_[handle.number].retired && !is(Defect::keeps_handles_of_scopes)) retire(handle);
  }

  Event submit(Task<Handle> const& task) {
    if ((executing_ && is(Defect::drops_nested_tasks)) || is(Defect::drops_tasks)) return {};
    check_outside();
    bool const empty =
        task.codelet == nullptr || (task.codelet->cpu == nullptr && task.codelet->async == nullptr);
    if (empty && is(Defect::takes_empty_codelets)) return {};
    if (empty) throw ValueError("broken: no entry to run");
    check(task);
    {
      std::lock_guard const hold(mutex_);
      tasks_.emplace_back();  // which may move the deque's table of blocks
    }
    std::uint64_t const id = tasks_.size();
    Record& record = tasks_.back();
    record.codelet = task.codelet;
    record.uses.assign(task.uses.begin(), task.uses.end());
    record.arguments.resize(task.arguments.size() / sizeof(Line) + 1);
    std::size_t const most = is(Defect::truncates_arguments) ? 128 : task.arguments.size();
    for (std::size_t i = 0; i < std::min(most, task.arguments.size()); ++i)
      record.arguments[i / sizeof(Line)].bytes[i % sizeof(Line)] = task.arguments[i];
    if (!is(Defect::names_no_task))
      record.name = concat(task.codelet->name, " ", task.label.tensor ? task.label.tensor : "", "[",
                           task.label.tile, "]");
    for (auto const& use : record.uses) {
      ++buffers_[use.handle.number].users;
      buffers_[use.handle.number].unordered += use.access == Access::unordered;
    }
    links_.add(id, replaying_);
    if (record.missing == 0) ready_.push_back(id);
    given_ = id;
    return {this, id};
  }

  void wait(Event event) {
    check_outside();
    check_event(event, Defect::takes_foreign_events, Defect::waits_for_invented_events);
    if (event.sequence == 0 || event.runtime != this || event.sequence > given_) return;
    if (is(Defect::wait_returns_early)) return;
    Record& record = tasks_[event.sequence - 1];
    drain([&] { return record.finished(); });
    if (record.state == State::succeeded || record.reported) return;
    record.reported = is(Defect::throws_once);
    throw error_of(event.sequence);
  }
  bool done(Event event) {
    check_event(event, Defect::tells_of_foreign_events, Defect::tells_of_invented_events);
    if (event.sequence == 0 || event.runtime != this || is(Defect::done_says_yes)) return true;
    if (std::this_thread::get_id() == driver_ && !executing_) advance();
    std::lock_guard const hold(mutex_);
    return event.sequence <= given_ && tasks_[event.sequence - 1].finished();
  }
  void wait_all() {
    check_outside();
    for (auto const& buffer : buffers_)
      if (buffer.locked && !is(Defect::ignores_locks))
        throw LifetimeError("broken: wait_all while a handle is locked");
    drain([&] { return finished_ == tasks_.size(); });
    std::vector<std::uint64_t> failed;
    for (; first_unreported_ <= tasks_.size(); ++first_unreported_)
      if (tasks_[first_unreported_ - 1].state != State::succeeded)
        failed.push_back(first_unreported_);
    if (is(Defect::reporting_clears_marks))
      for (auto& buffer : buffers_) buffer.mark = 0;
    if (!failed.empty()) report(failed);
  }

  std::span<std::byte> lock(Handle handle, Access access) {
    Buffer& buffer = find(handle, Defect::locks_retired_handles);
    if (buffer.locked && !is(Defect::locks_twice)) throw LifetimeError("broken: locked twice");
    if (access > Access::accumulate && !is(Defect::locks_for_anything))
      throw ValueError("broken: a lock for what only tasks may do");
    if (reads(access) && !buffer.written) throw LifetimeError("broken: nothing was written yet");
    if (!is(Defect::lock_does_not_wait)) drain([&] { return buffer.users == 0; });
    if (buffer.mark != 0 && reads(access)) throw error_of(buffer.mark);
    buffer.locked = true;
    buffer.lock_access = access;
    return buffer.bytes;
  }
  void unlock(Handle handle) {
    Buffer& buffer = find(handle, Defect::unlocks_retired_handles);
    if (!buffer.locked && is(Defect::unlocks_retired_handles) && buffer.retired) return;
    if (!buffer.locked && !is(Defect::unlocks_anything)) throw LifetimeError("broken: not locked");
    buffer.locked = false;
    if (writes(buffer.lock_access)) buffer.written = true;
    if (buffer.lock_access == Access::write) buffer.mark = 0;
  }
  /// Ends the hang of `loses_a_wakeup`, for a watchdog that has seen it.
  static void wake_driver() {
    Newest<Broken>::visit([](Broken& self) {
      std::lock_guard const hold(self.mutex_);
      self.wake_.notify_all();
    });
  }

  Workers workers() const { return {}; }
  std::size_t workspace_bytes() const { return max_workspace_bytes; }

 protected:
  bool is(Defect defect) const { return defect_ == defect; }
  bool is_written(Handle handle) const { return buffers_[handle.number].written; }
  void check_handle(Handle handle) { (void)find(handle, Defect::replays_retired_handles); }

  bool replaying_ = false;  // the task being submitted belongs to a replay

 private:
  using Blocks = broken::Blocks;
  using Buffer = broken::Buffer;
  using Ending = broken::Ending;
  using Line = broken::Line;
  using Poll = broken::Poll;
  using Record = broken::Record;
  using Scope = broken::Scope;
  using State = broken::State;

  Handle last() const { return {static_cast<std::uint32_t>(buffers_.size() - 1), this}; }

  /// With the defect, a retired handle is taken, too.
  Buffer& find(Handle handle, Defect lenient) {
    check_outside();
    bool const foreign = handle.owner != this && !is(Defect::takes_foreign_handles);
    if (foreign || handle.number >= buffers_.size())
      throw LifetimeError("broken: the handle of another runtime");
    Buffer& buffer = buffers_[handle.number];
    if (buffer.retired && !is(lenient)) throw LifetimeError("broken: a retired handle");
    return buffer;
  }
  void check_event(Event event, Defect takes_foreign, Defect takes_invented) const {
    bool const foreign = event.runtime != this && event.runtime != nullptr;
    if (foreign && !is(takes_foreign)) throw LifetimeError("broken: the event of another runtime");
    if (!foreign && event.sequence > given_ && !is(takes_invented))
      throw LifetimeError("broken: an event that was never given");
  }
  void check_outside() const {
    if (executing_) throw LifetimeError("broken: a task, poll or release may not drive");
  }
  void check_place(Place place, Defect lenient) const {
    check_outside();
    if (place != host && !is(lenient)) throw ValueError("broken: no such place");
  }

  bool only_tokens_hold(Handle handle) const {
    return std::none_of(tasks_.begin(), tasks_.end(), [&](Record const& task) {
      return task.state == State::queued &&
             std::any_of(task.uses.begin(), task.uses.end(),
                         [&](auto const& use) { return use.handle.number == handle.number; });
    });
  }

  Scope* innermost(Lifetime lifetime) {
    for (std::size_t i = scopes_.size(); i-- > 0;)
      if (scopes_[i].lifetime == lifetime) return &scopes_[i];
    return nullptr;
  }

  void check(Task<Handle> const& task) {
    for (auto const& use : task.uses) {
      Buffer& buffer = find(use.handle, Defect::takes_retired_handles);
      bool const lenient = is(Defect::ignores_locks) ||
                           (is(Defect::ignores_locks_unordered) && use.access == Access::unordered);
      if (buffer.locked && !lenient) throw LifetimeError("broken: a task names a locked handle");
      bool own = false;  // written by this very task
      for (auto const& other : task.uses)
        own |= other.handle.number == use.handle.number && other.access == Access::write;
      if (is(Defect::half_refuses) && use.access == Access::write) buffer.written = true;
      bool const enough =
          buffer.written || is(Defect::reads_unwritten) || (own && is(Defect::counts_own_write));
      bool const refused = reads(use.access) || (is(Defect::refuses_parts_of_unwritten) &&
                                                 use.access == Access::write_disjoint);
      if (refused && !enough)
        throw LifetimeError(concat("broken: ", task.codelet->name, " reads an unwritten buffer"));
    }
    for (auto const& use : task.uses)
      if (writes(use.access)) buffers_[use.handle.number].written = true;
  }

  /// Does one thing: ends a task that completed outside, polls, or runs the youngest ready task.
  /// False: there was nothing to do.
  bool advance() {
    if (end_completed() || poll()) return true;
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
      if (!polls_.empty()) continue;
      auto const changed = [&] { return !endings_.empty() || !polls_.empty(); };
      sleeping_ = true;
      wake_.wait(lock, changed);
      sleeping_ = false;
    }
  }
  bool end_completed() {
    std::unique_lock lock(mutex_);
    if (endings_.empty()) return false;
    Ending const ending = endings_.back();
    endings_.pop_back();
    lock.unlock();
    --tokens_;
    if (!tasks_[ending.id - 1].finished())
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
      bool ended = true;
      try {
        broken::Executing const executing(executing_, !is(Defect::drives_in_polls));
        ended = poll.function(poll.state, poll.token);
      } catch (std::exception const& error) {
        ended = !is(Defect::polls_past_exceptions);
        if (ended) complete(this, poll.token.id, {error.what()});
      }
      if (ended && is(Defect::polls_after_the_end)) (void)poll.function(poll.state, poll.token);
      any |= ended;
      std::lock_guard const hold(mutex_);
      if (!ended) polls_.push_back(poll);
    }
    return any;
  }

  void run(std::uint64_t id) {
    Record& record = tasks_[id - 1];
    std::vector<void*> pointers;
    bool cancelled = false;
    std::string cause;
    for (auto const& use : record.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      pointers.push_back(buffer.bytes.data());
      bool const looks = use.access == Access::read || use.access == Access::update ||
                         (use.access == Access::unordered && is(Defect::unordered_meets_marks));
      if (!looks || buffer.mark == 0) continue;
      cancelled = true;
      cause = tasks_[buffer.mark - 1].cause;
    }
    bool const tells = record.codelet->runs_on_marks && !is(Defect::runs_nothing_on_marks);
    if (cancelled && !tells && !is(Defect::runs_cancelled_tasks))
      return end(id, State::cancelled, concat("a failed input: ", cause));
    {
      std::lock_guard const hold(mutex_);
      record.state = State::pending;
    }
    record.on_mark = cancelled && tells && !is(Defect::succeeds_on_marks);
    char text[status_text_bytes] = "";
    if (cancelled) std::strncpy(text, cause.c_str(), sizeof text - 1);
    Status const status =
        execute(id, {pointers.data(), record.arguments[0].bytes, text,
                     is(Defect::lends_no_workspace) ? nullptr : workspaces_[0], cancelled});
    bool const here = record.codelet->cpu != nullptr;
    if (!here && !status.ok()) --tokens_;
    if (here || !status.ok() || is(Defect::ends_at_return))
      end(id, status.ok() ? State::succeeded : State::failed, status.ok() ? "" : status.error);
  }
  Status execute(std::uint64_t id, KernelCall const& call) {
    Codelet const& codelet = *tasks_[id - 1].codelet;
    std::fenv_t environment;
    std::fegetenv(&environment);
    if (!is(Defect::leaks_rounding_mode)) std::fesetenv(FE_DFL_ENV);
    broken::Executing const executing(executing_);
    if (codelet.cpu == nullptr) ++tokens_;
    Status const status =
        codelet.cpu != nullptr ? codelet.cpu(call) : codelet.async(call, token(id));
    std::fesetenv(&environment);
    return status;
  }

  void end(std::uint64_t id, State state, std::string cause) {
    Record& record = tasks_[id - 1];
    bool const elsewhere = cause.starts_with(cancelled_mark) && !is(Defect::keeps_cancelled_mark);
    if (elsewhere) cause.erase(0, 1);
    if (elsewhere || record.on_mark) state = State::cancelled;
    {
      std::lock_guard const hold(mutex_);
      record.state = state;
      record.cause = std::move(cause);
    }
    ++finished_;
    bool const marks =
        state == State::failed || (state == State::cancelled && !is(Defect::loses_mark));
    for (auto const& use : record.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      bool const clears =
          (use.access == Access::write && !is(Defect::keeps_mark_after_write)) ||
          (use.access == Access::accumulate && is(Defect::accumulate_clears_mark)) ||
          (use.access == Access::write_disjoint && is(Defect::disjoint_write_clears_mark));
      bool const leaves = writes(use.access) &&
                          (use.access != Access::unordered || is(Defect::unordered_leaves_marks));
      if (leaves && marks) buffer.mark = id;
      if (clears && state == State::succeeded) buffer.mark = 0;
    }
    for (auto const& use : record.uses) {
      Buffer& buffer = buffers_[use.handle.number];
      buffer.unordered -= use.access == Access::unordered;
      if (--buffer.users == 0 && buffer.retired) retire_now(use.handle.number);
    }
    for (std::uint64_t const successor : record.successors)
      if (--tasks_[successor - 1].missing == 0) ready_.push_back(successor);
    record.uses = {};
    record.arguments = {};
    record.successors = {};
  }

  void retire_now(std::uint32_t number) {
    Buffer& buffer = buffers_[number];
    if (buffer.gone) return;
    buffer.gone = true;
    if (buffer.adopted.data() != nullptr)
      std::copy(buffer.bytes.begin(), buffer.bytes.end(), buffer.adopted.begin());
    else if (!is(Defect::frees_nothing))
      std::fill_n(buffer.bytes.begin(), std::min<std::size_t>(buffer.bytes.size(), 65536),
                  std::byte{0xdd});
    if (buffer.block.lines != nullptr) {
      blocks_.give_back(std::move(buffer.block));
      if (is(Defect::frees_nothing)) blocks_.leak();
    }
    if (is(Defect::never_releases)) return;
    broken::Executing const executing(executing_, !is(Defect::drives_in_releases));
    buffer.release();
    if (is(Defect::releases_twice)) buffer.release();
  }

  TaskError error_of(std::uint64_t id) const {
    Record const& record = tasks_[id - 1];
    return {concat(record.name, ": ", record.cause), id, record.state == State::cancelled};
  }
  [[noreturn]] void report(std::vector<std::uint64_t> const& failed) {
    for (auto const id : failed) tasks_[id - 1].reported = true;
    TaskError const error =
        error_of(is(Defect::reports_youngest_failure) ? failed.back() : failed.front());
    std::string const others = is(Defect::counts_no_failures) ? "" : concat(failed.size() - 1);
    throw TaskError(concat(error.what(), "; ", others, " other tasks failed or were cancelled"),
                    error.sequence(), error.cancelled());
  }

  Completion token(std::uint64_t id) { return {this, id, &Broken::complete, &Broken::add_poll}; }
  static void complete(void* owner, std::uint64_t id, Status status) noexcept {
    auto& self = *static_cast<Broken*>(owner);
    std::lock_guard const hold(self.mutex_);
    bool const failed = !status.ok() && !self.is(Defect::forgets_completion_status);
    self.endings_.push_back({id, failed, failed ? status.error : ""});
    if (self.is(Defect::loses_a_wakeup) && self.sleeping_ && ++self.wakeups_ == 50) return;
    self.wake_.notify_all();
  }
  static void add_poll(void* owner, std::uint64_t id, Completion::Poll poll, void* state, bool) {
    auto& self = *static_cast<Broken*>(owner);
    std::lock_guard const hold(self.mutex_);
    self.polls_.push_back({poll, state, self.token(id)});
  }

  support::Workspaces workspaces_{1};
  Defect const defect_;
  std::thread::id const driver_ = std::this_thread::get_id();
  std::deque<Buffer> buffers_;
  Blocks blocks_;
  std::vector<Scope> scopes_;
  std::deque<Record> tasks_;  // the task of sequence n at n - 1
  broken::Links links_{defect_, buffers_, tasks_};
  std::atomic<std::uint64_t> given_{0};
  std::vector<std::uint64_t> ready_;
  std::size_t finished_ = 0;
  std::size_t tokens_ = 0;
  std::uint64_t first_unreported_ = 1;
  bool executing_ = false;
  std::mutex mutex_;  // guards the number of tasks, states, endings and polls, for other threads
  std::condition_variable wake_;
  std::vector<Ending> endings_;
  std::vector<Poll> polls_;
  bool sleeping_ = false;  // the driver, until the next ending
  int wakeups_ = 0;
  Newest<Broken> newest_{*this};
};
static_assert(Runtime<Broken> && ScopedRuntime<Broken>);

}  // namespace nntile::test
