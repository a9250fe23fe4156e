#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A log of devices: what their streams ran and when, what was copied, and what places held.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/copy.hh"
#include "nntile/core/place.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"

namespace nntile {

/// One job of a stream. Times are CLOCK_MONOTONIC, in ns.
struct LoggedJob {
  Stream stream;
  char const* codelet = nullptr;  // its name
  std::string tensor;             // of the task's label; "": it has none
  std::int64_t tile = -1;
  std::int64_t begin = 0, end = 0;
  std::optional<std::int64_t> copied;  // bytes, of a copy, and between which places
  Place from = {}, to = {};
};

/// Bytes that are allocated at a place from a time on.
struct LoggedBytes {
  std::int64_t time;
  Place place;
  std::int64_t bytes;
};

/// Devices whose options name one write into it; it outlives them. Every member may be called from
/// any thread. A record for which memory lacks is dropped and counted.
class DeviceLog {
 public:
  /// A job that is about to be launched; `place_of(pointer)` is asked of a copy's two buffers.
  template <class PlaceOf>
  static LoggedJob record(Stream stream, DeviceJob const& job, PlaceOf place_of) {
    LoggedJob record;
    record.stream = stream;
    record.codelet = job.codelet.name;
    record.tile = job.label.tile;
    if (job.label.tensor != nullptr) record.tensor = job.label.tensor;
    if (&job.codelet != &copy_codelet) return record;
    std::memcpy(&record.copied.emplace(), job.arguments, sizeof *record.copied);
    record.from = place_of(job.buffers[0]);
    record.to = place_of(job.buffers[1]);
    return record;
  }
  /// A job has run.
  void ran(LoggedJob&& job) noexcept {
    nntile::detail::Lock const guard(mutex_);
    keep(jobs_, std::move(job));
  }
  /// Memory was allocated at a place, or freed: a change below 0.
  void changed(Place place, std::int64_t bytes) noexcept {
    std::int64_t const now = nntile::detail::monotonic_ns();
    nntile::detail::Lock const guard(mutex_);
    std::size_t at = 0;
    while (at < held_.size() && held_[at].place != place) ++at;
    if (at == held_.size() && !keep(held_, {now, place, 0})) return;
    held_[at].bytes += bytes;
    keep(memory_, {now, place, held_[at].bytes});
  }

  /// Jobs in the order in which their ends were seen.
  std::vector<LoggedJob> jobs() const {
    nntile::detail::Lock const guard(mutex_);
    return jobs_;
  }
  /// Behind each allocation and each free.
  std::vector<LoggedBytes> memory() const {
    nntile::detail::Lock const guard(mutex_);
    return memory_;
  }
  std::uint64_t dropped() const {
    nntile::detail::Lock const guard(mutex_);
    return dropped_;
  }
  /// Forgets what has run, and what places held before now.
  void clear() {
    nntile::detail::Lock const guard(mutex_);
    jobs_.clear();
    memory_ = held_;
    for (LoggedBytes& held : memory_) held.time = nntile::detail::monotonic_ns();
    dropped_ = 0;
  }

 private:
  template <class Record> bool keep(std::vector<Record>& list, Record&& record) noexcept {
    try {
      list.push_back(std::move(record));
      return true;
    } catch (std::bad_alloc const&) {
      ++dropped_;
      return false;
    }
  }

  mutable nntile::detail::Mutex mutex_;
  std::vector<LoggedJob> jobs_;
  std::vector<LoggedBytes> memory_, held_;  // `held_`: of each place now
  std::uint64_t dropped_ = 0;
};

}  // namespace nntile
