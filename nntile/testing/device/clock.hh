#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The virtual time of emulated devices: what a model says that their jobs take, and the host's.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/copy.hh"
#include "nntile/core/cost.hh"
#include "nntile/core/link_model.hh"
#include "nntile/core/machine_model.hh"
#include "nntile/runtime/device.hh"
#include "nntile/testing/device/memory.hh"

namespace nntile::testing {

class EmulatedClock;

/// A task whose run takes virtual time: its codelet, and what that runs.
struct TimedTask {
  static constexpr std::size_t head_bytes = 16;  // keeps arguments aligned

  Codelet codelet;
  EmulatedClock* clock = nullptr;
  Codelet const* inner = nullptr;
  double there = 0, here = 0;  // seconds, on a device and on the host
  std::vector<Access> accesses;

  /// The arguments of its codelet: this, and the task's own.
  std::vector<std::byte> arguments(std::span<std::byte const> own) const {
    std::vector<std::byte> all(head_bytes + own.size());
    TimedTask const* const self = this;
    std::memcpy(all.data(), &self, sizeof self);
    if (!own.empty()) std::memcpy(all.data() + head_bytes, own.data(), own.size());
    return all;
  }
};

/// Begin and end of jobs in virtual time, in seconds: a job begins when its stream, or one of the
/// host's workers, is free and all that it depends on through its buffers has ended, and takes what
/// the model says of its cost. So the times follow from the order of each stream alone; where
/// `orders`, what has ended is shown to the host in the order of virtual time, one end after the
/// other, so that it launches what follows in that order, too. Every member may be called from any
/// thread; of dependent jobs the earlier one runs first.
class EmulatedClock {
 public:
  EmulatedClock(MachineModel const& device, MachineModel const& on_host, LinkModel const& link,
                bool orders)
      : device_(device),
        host_(on_host),
        link_(link),
        orders_(orders),
        workers_(static_cast<std::size_t>(std::max(1, on_host.workers))) {}

  /// A task of a codelet with a CPU entry, which lives as long as this. On the host it ends when
  /// its virtual end is shown. Codelets that are not timed, but the copy between places, cost
  /// nothing there, and on a device update what they name.
  TimedTask const& timed(Codelet const& codelet, Cost const& cost,
                         std::span<Access const> accesses) {
    std::lock_guard const lock(mutex_);
    Key key{&codelet, cost.flops, cost.bytes, {accesses.begin(), accesses.end()}};
    auto const [at, fresh] = found_.try_emplace(key, nullptr);
    if (!fresh) return *at->second;
    TimedTask& timed = timed_.emplace_back();
    timed.codelet.name = codelet.name;
    timed.codelet.async = &run_on_host;
    timed.codelet.computation = codelet.computation;
    timed.clock = this;
    timed.inner = &codelet;
    timed.there = task_seconds(cost, device_);
    timed.here = task_seconds(cost, host_);
    timed.accesses = std::move(key.accesses);
    codelets_[&timed.codelet] = &timed;
    return *(at->second = &timed);
  }
  /// The job that a device runs: the inner codelet and its arguments.
  DeviceJob inner(DeviceJob const& job) const {
    TimedTask const* const timed = find(job.codelet);
    if (timed == nullptr) return job;
    return {*timed->inner, job.buffers,
            static_cast<std::byte const*>(job.arguments) + TimedTask::head_bytes, job.label};
  }
  bool knows(Codelet const& codelet) const { return find(codelet) != nullptr; }
  /// Runs a job on a stream that is free at `free`; when it ends. `link`: of a copy other than
  /// those of devices.
  double run(DeviceJob const& job, double free) { return run(job, free, link_); }
  double run(DeviceJob const& job, double free, LinkModel const& link) {
    std::lock_guard const lock(mutex_);
    auto const known = codelets_.find(&job.codelet);
    TimedTask const* const timed = known == codelets_.end() ? nullptr : known->second;
    bool const copies = &job.codelet == &copy_codelet;
    return run(job.buffers, free,
               copies             ? link_seconds(job, link)
               : timed != nullptr ? timed->there
                                  : 0,
               [&](std::size_t i) {
                 if (copies) return i == 0 ? Access::read : Access::write;
                 return timed != nullptr ? timed->accesses[i] : Access::update;
               });
  }
  /// A job or a mark was launched, and comes to `run` or `reach`.
  void launch() {
    std::lock_guard const lock(mutex_);
    ++coming_;
    ++changes_;
  }
  /// A job has run, or never will.
  void ran() {
    std::lock_guard const lock(mutex_);
    --coming_;
  }
  /// A stream has come to a mark at that time.
  void reach(double end) {
    std::lock_guard const lock(mutex_);
    --coming_;
    if (orders_) unseen_.insert(end);
  }
  /// Whether the host sees a mark of that time now: once for each, and not when it is first asked
  /// behind a launch, or behind the end before: so the host launches what that end made ready.
  bool shows(double end) {
    std::lock_guard const lock(mutex_);
    if (!orders_) return true;
    if (coming_ != 0 || (!unseen_.empty() && *unseen_.begin() < end)) return false;
    if (std::exchange(asked_, changes_) != changes_) return false;
    if (auto const at = unseen_.find(end); at != unseen_.end()) unseen_.erase(at);
    ++changes_;
    return true;
  }
  /// The host has seen a mark of that time, though it was not its turn.
  void see(double end) {
    std::lock_guard const lock(mutex_);
    if (auto const at = unseen_.find(end); at != unseen_.end()) unseen_.erase(at);
    ++changes_;
  }
  /// The latest end of a job.
  double now() const {
    std::lock_guard const lock(mutex_);
    return now_;
  }
  /// The host has waited for all jobs: what comes begins behind them. Returns `now`.
  double wait_all() {
    std::lock_guard const lock(mutex_);
    return floor_ = now_;
  }

 private:
  struct Key {
    Codelet const* codelet;
    std::int64_t flops, bytes;
    std::vector<Access> accesses;
    auto operator<=>(Key const&) const = default;
  };
  struct Times {
    double written = 0, used = 0;  // the ends of its last writer, and of its last user
  };
  struct End {
    EmulatedClock* clock;
    double seconds = 0;
    explicit End(EmulatedClock* its_clock) : clock(its_clock) {}
  };

  TimedTask const* find(Codelet const& codelet) const {
    std::lock_guard const lock(mutex_);
    auto const known = codelets_.find(&codelet);
    return known == codelets_.end() ? nullptr : known->second;
  }
  template <class AccessOf>
  double run(std::span<void* const> buffers, double free, double seconds, AccessOf access_of) {
    double begin = std::max(free, floor_);
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Times const& times = times_[buffers[i]];
      begin = std::max(begin, times.written);
      if (writes(access_of(i))) begin = std::max(begin, times.used);
    }
    double const end = begin + seconds;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Times& times = times_[buffers[i]];
      times.used = std::max(times.used, end);
      if (writes(access_of(i))) times.written = end;
    }
    now_ = std::max(now_, end);
    return end;
  }
  /// Of a timed task on the host: the worker that has been free for longest runs it.
  static Status run_on_host(KernelCall const& call, Completion token) noexcept;
  double run_on_host(TimedTask const& timed, void* const* buffers);
  static bool show_end(void* state, Completion token) {
    std::unique_ptr<End> end(static_cast<End*>(state));
    if (end->clock->shows(end->seconds)) return token.complete(), true;
    (void)end.release();  // it is asked for again
    return false;
  }
  static double link_seconds(DeviceJob const& job, LinkModel const& link) noexcept {
    std::int64_t bytes;
    std::memcpy(&bytes, job.arguments, sizeof bytes);
    return link.latency + static_cast<double>(bytes) / link.bandwidth;
  }

  MachineModel const device_, host_;
  LinkModel const link_;
  mutable std::mutex mutex_;
  std::deque<TimedTask> timed_;
  std::map<Key, TimedTask const*> found_;
  std::map<Codelet const*, TimedTask const*> codelets_;
  std::map<void const*, Times> times_;
  double now_ = 0, floor_ = 0;
  bool const orders_;
  std::vector<double> workers_;  // of the host: when each is free
  int coming_ = 0;
  std::uint64_t changes_ = 1, asked_ = 0;
  std::multiset<double> unseen_;
};

inline double EmulatedClock::run_on_host(TimedTask const& timed, void* const* buffers) {
  std::lock_guard const lock(mutex_);
  double& worker = *std::min_element(workers_.begin(), workers_.end());
  worker = run({buffers, timed.accesses.size()}, worker, timed.here,
               [&](std::size_t i) { return timed.accesses[i]; });
  if (orders_) unseen_.insert(worker);
  return worker;
}
inline Status EmulatedClock::run_on_host(KernelCall const& call, Completion token) noexcept {
  TimedTask const* timed;
  std::memcpy(&timed, call.arguments, sizeof timed);
  auto const* const own = static_cast<std::byte const*>(call.arguments) + TimedTask::head_bytes;
  try {
    EmulatedBytes const workspace(timed->inner->workspace);
    Status const status = timed->inner->cpu({.buffers = call.buffers,
                                             .arguments = own,
                                             .text = call.text,
                                             .workspace = workspace.get()});
    if (!status.ok()) return status;
    auto end = std::make_unique<End>(timed->clock);
    end->seconds = timed->clock->run_on_host(*timed, call.buffers);
    token.poll(&show_end, end.get());
    (void)end.release();
    return {};
  } catch (std::exception const&) {
    return {"no memory for a task on the host"};
  }
}

}  // namespace nntile::testing
