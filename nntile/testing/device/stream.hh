#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A stream of an emulated device: a thread that runs its jobs in order.

#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/random.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/testing/device/clock.hh"
#include "nntile/testing/device/copies.hh"
#include "nntile/testing/device/memory.hh"

namespace nntile::testing {

/// The calls of a device, and its jobs, which a test can make fail.
enum class EmulatedCall : std::uint8_t { none, allocate, launch, mark, query, job };
inline constexpr int emulated_calls = 6;

/// The call that fails: the `at`-th of its kind, from 1. One that lasts loses the devices; a query
/// that fails always does.
struct EmulatedFault {
  EmulatedCall call = EmulatedCall::none;
  int at = 0;
  bool lasts = false;
};

/// State that all streams of some devices share: their memory, their clock, what they have copied,
/// their log, the fault, and whether they are lost.
class EmulatedMachine {
 public:
  EmulatedMachine(EmulatedMemory& its_memory, EmulatedClock& its_clock, EmulatedFault const& fault,
                  DeviceLog* its_log)
      : memory(its_memory), clock(its_clock), log(its_log), fault_(fault) {}

  EmulatedMemory& memory;
  EmulatedClock& clock;
  EmulatedCopies copies;
  DeviceLog* const log;  // null: none

  /// Whether this call is the one that fails.
  bool fails(EmulatedCall call) {
    if (call != fault_.call || ++calls_ != fault_.at) return false;
    if (fault_.lasts || call == EmulatedCall::query) lose("it was told to fail");
    return true;
  }
  /// Loses the devices for good.
  void lose(std::string const& why) {
    std::lock_guard const lock(mutex_);
    if (why_.empty()) why_ = "the devices are lost: " + why;
    lost_.store(true, std::memory_order_release);
  }
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// The reason that they are lost; constant from then on.
  char const* why() const noexcept { return why_.c_str(); }
  /// The reason that a call failed.
  char const* failure() const noexcept { return lost() ? why() : "the device was told to fail"; }

 private:
  EmulatedFault const fault_;
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  std::atomic<bool> lost_{false};
  std::string why_;
};

/// Delays by seed: none of 0.
class EmulatedDelays {
 public:
  EmulatedDelays(std::uint64_t seed, std::int64_t longest_ns)
      : state_(mix_bits(seed)), longest_ns_(seed == 0 ? 0 : longest_ns) {}
  /// Sleeps before every second job or so.
  void sleep() noexcept {
    if (longest_ns_ == 0 || draw() % 2 == 0) return;
    nntile::detail::sleep_ns(
        static_cast<std::int64_t>(draw() % static_cast<std::uint64_t>(longest_ns_)));
  }
  /// Whether what has happened is not seen yet.
  bool unseen() noexcept { return longest_ns_ != 0 && draw() % 4 == 0; }

 private:
  std::uint64_t draw() noexcept { return state_ = mix_bits(state_); }

  std::uint64_t state_;
  std::int64_t const longest_ns_;
};

/// Jobs that run one at a time in the order of their launch. `query` and all else may be called by
/// several threads.
class EmulatedStream {
 public:
  EmulatedStream(EmulatedMachine& machine, Stream name, std::uint64_t seed,
                 std::int64_t longest_delay_ns)
      : machine_(machine),
        name_(name),
        delays_(seed, longest_delay_ns),
        sight_(seed, longest_delay_ns),
        workspace_(max_workspace_bytes),
        thread_([this] { run(); }) {}
  EmulatedStream(EmulatedStream const&) = delete;
  EmulatedStream& operator=(EmulatedStream const&) = delete;
  ~EmulatedStream() { end(); }
  /// Runs what was launched, and ends its thread.
  void end() {
    if (!thread_.joinable()) return;
    push(nullptr);
    thread_.join();
  }

  Status launch(DeviceJob const& job) {
    if (machine_.lost() || machine_.fails(EmulatedCall::launch)) return {machine_.failure()};
    machine_.clock.launch();
    push([this, job] {
      run(job);
      machine_.clock.ran();
    });
    return {};
  }
  std::uint64_t mark() {
    std::uint64_t const number = ++marks_;
    machine_.clock.launch();
    push([this, number, fails = machine_.fails(EmulatedCall::mark)] {
      if (fails) fail(machine_.failure());
      machine_.clock.reach(free_);
      std::lock_guard const lock(mutex_);
      ends_[number] = free_;
      if (!failure_.empty()) failures_[number] = std::exchange(failure_, {});
      reached_ = number;
      changed_.notify_all();
    });
    return number;
  }
  std::uint64_t marks() const noexcept { return marks_; }
  StreamProgress query(std::uint64_t mark, char* text) {
    std::lock_guard const lock(mutex_);
    bool const ended = reached_ >= mark;
    if (!ended || sight_.unseen()) return StreamProgress::running;
    if (auto const end = ends_.find(mark); end != ends_.end()) {
      if (!machine_.clock.shows(end->second)) return StreamProgress::running;
      ends_.erase(end);
    }
    auto const failure = failures_.find(mark);
    bool const lost = machine_.fails(EmulatedCall::query) || machine_.lost();
    if (failure == failures_.end() && !lost) return StreamProgress::ended;
    std::strncpy(text, lost ? machine_.why() : failure->second.c_str(), status_text_bytes - 1);
    text[status_text_bytes - 1] = 0;
    if (failure != failures_.end()) failures_.erase(failure);
    return StreamProgress::failed;
  }
  /// Jobs behind this one begin behind that mark of the other stream.
  void wait(EmulatedStream& other, std::uint64_t mark) {
    push([&other, mark] {
      std::unique_lock lock(other.mutex_);
      other.changed_.wait(lock, [&] { return other.reached_ >= mark; });
    });
  }

 private:
  void push(std::function<void()> job) {
    std::lock_guard const lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }
  void run() {
    for (;;) {
      std::function<void()> job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !jobs_.empty(); });
        job = std::move(jobs_.front());
        jobs_.pop_front();
      }
      if (!job) return;
      delays_.sleep();
      job();
    }
  }
  void run(DeviceJob const& job) {
    if (machine_.lost() || machine_.fails(EmulatedCall::job)) return fail(machine_.failure());
    std::vector<void*> bytes;
    for (void* const pointer : job.buffers) bytes.push_back(machine_.memory.use(pointer));
    bool freed = false;
    for (std::size_t i = 0; i < bytes.size(); ++i) freed |= bytes[i] == nullptr && job.buffers[i];
    if (freed) {
      machine_.lose(std::string(job.codelet.name) + " used memory that was freed");
      fail(machine_.why());
    } else {
      std::fesetenv(FE_DFL_ENV);
      char text[status_text_bytes] = {};
      DeviceJob const what = machine_.clock.inner(job);
      std::int64_t const begin = machine_.log == nullptr ? 0 : nntile::detail::monotonic_ns();
      Status const status = what.codelet.cpu({.buffers = bytes.data(),
                                              .arguments = what.arguments,
                                              .text = text,
                                              .workspace = workspace_.get()});
      if (machine_.log != nullptr) log(what, begin);
      text[status_text_bytes - 1] = 0;
      if (!status.ok()) fail(status.error);
      if (status.ok() && &what.codelet == &copy_codelet) count_copy(what);
      free_ = machine_.clock.run(job, free_);
    }
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (bytes[i] != nullptr) machine_.memory.release(job.buffers[i]);
  }
  Place place_of(void const* pointer) const {
    return machine_.memory.contains(pointer) ? machine_.memory.place_of(pointer) : host;
  }
  void count_copy(DeviceJob const& job) {
    std::int64_t bytes;
    std::memcpy(&bytes, job.arguments, sizeof bytes);
    machine_.copies.count(place_of(job.buffers[0]), place_of(job.buffers[1]), bytes);
  }
  void log(DeviceJob const& job, std::int64_t begin) {
    LoggedJob record =
        DeviceLog::record(name_, job, [this](void const* pointer) { return place_of(pointer); });
    record.begin = begin;
    record.end = nntile::detail::monotonic_ns();
    machine_.log->ran(std::move(record));
  }
  void fail(char const* why) {
    std::lock_guard const lock(mutex_);
    if (failure_.empty()) failure_ = why;
  }

  EmulatedMachine& machine_;
  Stream const name_;
  EmulatedDelays delays_;  // of jobs; the thread's
  EmulatedDelays sight_;   // of what `query` sees
  EmulatedBytes workspace_;
  double free_ = 0;  // in virtual time; the thread's
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::atomic<std::uint64_t> marks_{0};
  std::uint64_t reached_ = 0;
  std::string failure_;                            // of a job behind the last mark
  std::map<std::uint64_t, std::string> failures_;  // of marks that were reached, until seen
  std::map<std::uint64_t, double> ends_;           // in virtual time, likewise
  std::thread thread_;
};

}  // namespace nntile::testing
