#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The virtual time of emulated devices: what a model says that their jobs take.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/copy.hh"
#include "nntile/core/cost.hh"
#include "nntile/core/link_model.hh"
#include "nntile/core/machine_model.hh"
#include "nntile/runtime/device.hh"

namespace nntile::testing {

/// When jobs begin and end in virtual time, in seconds: a job begins when its stream is free and
/// all that it depends on through its buffers has ended, and takes what the model says of its cost.
/// So the times follow from the order of each stream alone; where `orders`, what has ended is shown
/// to the host in the order of virtual time, so that it launches what follows in that order, too.
/// Every member may be called from any thread; of dependent jobs the earlier one runs first.
class EmulatedClock {
 public:
  EmulatedClock(MachineModel const& device, LinkModel const& link, bool orders)
      : device_(device), link_(link), orders_(orders) {}

  /// The same codelet, with a cost and accesses by which its jobs are timed; it lives as long as
  /// this. Other codelets but the copy cost nothing, and update what they name.
  Codelet const& priced(Codelet const& codelet, Cost const& cost,
                        std::span<Access const> accesses) {
    std::lock_guard const lock(mutex_);
    Key key{&codelet, cost.flops, cost.bytes, {accesses.begin(), accesses.end()}};
    auto const [at, fresh] = found_.try_emplace(key, nullptr);
    if (fresh) {
      codelets_.push_back(codelet);
      at->second = &codelets_.back();
      jobs_[at->second] = {task_seconds(cost, device_), std::move(key.accesses)};
    }
    return *at->second;
  }
  /// Runs a job on a stream that is free at `free`; when it ends.
  double run(DeviceJob const& job, double free) {
    std::lock_guard const lock(mutex_);
    auto const known = jobs_.find(&job.codelet);
    bool const copies = &job.codelet == &copy_codelet, priced = known != jobs_.end();
    auto const access_of = [&](std::size_t i) {
      if (copies) return i == 0 ? Access::read : Access::write;
      return priced && i < known->second.accesses.size() ? known->second.accesses[i]
                                                         : Access::update;
    };
    double begin = std::max(free, floor_);
    for (std::size_t i = 0; i < job.buffers.size(); ++i) {
      Times const& times = times_[job.buffers[i]];
      begin = std::max(begin, times.written);
      if (writes(access_of(i))) begin = std::max(begin, times.used);
    }
    double const end = begin + (copies ? link_seconds(job) : priced ? known->second.seconds : 0);
    for (std::size_t i = 0; i < job.buffers.size(); ++i) {
      Times& times = times_[job.buffers[i]];
      times.used = std::max(times.used, end);
      if (writes(access_of(i))) times.written = end;
    }
    now_ = std::max(now_, end);
    return end;
  }
  /// A job or a mark was launched, and comes to `run` or `reach`.
  void launch() {
    std::lock_guard const lock(mutex_);
    ++coming_;
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
  /// Whether the host sees a mark of that time now: once for each.
  bool shows(double end) {
    std::lock_guard const lock(mutex_);
    if (!orders_) return true;
    if (coming_ != 0 || (!unseen_.empty() && *unseen_.begin() < end)) return false;
    if (auto const at = unseen_.find(end); at != unseen_.end()) unseen_.erase(at);
    return true;
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
  struct Priced {
    double seconds = 0;
    std::vector<Access> accesses;
  };
  struct Times {
    double written = 0, used = 0;  // the ends of its last writer, and of its last user
  };
  double link_seconds(DeviceJob const& job) const noexcept {
    std::int64_t bytes;
    std::memcpy(&bytes, job.arguments, sizeof bytes);
    return link_.latency + static_cast<double>(bytes) / link_.bandwidth;
  }

  MachineModel const device_;
  LinkModel const link_;
  mutable std::mutex mutex_;
  std::deque<Codelet> codelets_;
  std::map<Key, Codelet const*> found_;
  std::map<Codelet const*, Priced> jobs_;
  std::map<void const*, Times> times_;
  double now_ = 0, floor_ = 0;
  bool const orders_;
  int coming_ = 0;
  std::multiset<double> unseen_;
};

}  // namespace nntile::testing
