#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The stream of a disk: a thread that reads and writes in order.

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <list>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/device_log.hh"
#include "nntile/runtime/disk/file.hh"

namespace nntile {

/// Copies from and to a disk that have ended well.
struct DiskTraffic {
  std::int64_t writes = 0, written = 0;  // copies, bytes
  std::int64_t reads = 0, read = 0;
  bool operator==(DiskTraffic const&) const = default;
};

namespace detail::on_disk {

/// A copy between the host and a file.
struct Copy {
  std::byte* host;
  std::size_t bytes;
  std::uint64_t at;
  bool writes;
};

/// Law: that of a Device's streams.
template <class File> class Stream {
 public:
  /// Throws DeviceError: the system gives no thread.
  explicit Stream(File& file, DeviceLog* log = nullptr) : file_(&file), log_(log) {
    sigset_t all, before;  // signals are for threads of the program
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool const runs = thread_.start([this] { run(); });
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!runs) throw DeviceError("disk: the system gives no thread to read and write in");
  }
  Stream(Stream const&) = delete;
  Stream& operator=(Stream const&) = delete;
  ~Stream() {
    {
      Lock guard(mutex_);
      over_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  /// `record` goes to the log, if there is one, with the copy's times.
  Status launch(Copy const& copy, std::optional<LoggedJob>&& record = {}) noexcept {
    Lock guard(mutex_);
    try {
      copies_.push_back({copy, std::move(record)});
    } catch (std::bad_alloc const&) {
      return {"no memory to queue a copy of the disk"};
    }
    changed_.notify_one();
    return {};
  }
  std::uint64_t mark() noexcept {
    Lock guard(mutex_);
    ++marks_;
    if (copies_.empty())
      reach(marks_);
    else
      copies_.back().mark = marks_;
    return marks_;
  }
  StreamProgress query(std::uint64_t mark, char* text) noexcept {
    Lock guard(mutex_);
    if (reached_ < mark) return StreamProgress::running;
    StreamProgress progress = StreamProgress::ended;
    for (auto at = failed_.begin(); at != failed_.end();) {
      if (at->mark != mark) {
        ++at;
        continue;
      }
      if (progress == StreamProgress::ended) std::memcpy(text, at->text, status_text_bytes);
      progress = StreamProgress::failed;
      at = failed_.erase(at);
    }
    return progress;
  }
  /// Counts since the last call.
  DiskTraffic take_traffic() noexcept {
    Lock guard(mutex_);
    return std::exchange(traffic_, {});
  }

 private:
  struct Queued {
    Copy copy;
    std::optional<LoggedJob> record = {};
    std::uint64_t mark = 0;  // the last one right behind it; 0: none
    char text[status_text_bytes] = {};
  };

  void run() noexcept {
    Lock guard(mutex_);
    for (;;) {
      changed_.wait(guard, [&] { return over_ || !copies_.empty(); });
      if (copies_.empty()) return;
      Queued& next = copies_.front();
      guard.unlock();
      if (next.record) next.record->begin = monotonic_ns();
      int const code = next.copy.writes
                           ? file_->write(next.copy.host, next.copy.bytes, next.copy.at)
                           : file_->read(next.copy.host, next.copy.bytes, next.copy.at);
      if (next.record) {
        next.record->end = monotonic_ns();
        log_->ran(std::move(*next.record));
      }
      if (code != 0) describe(next, code);
      guard.lock();
      end(code == 0);
    }
  }
  void describe(Queued& failed, int code) const noexcept {
    try {
      std::string const text =
          concat(failed.copy.writes ? "write " : "read ", failed.copy.bytes, " bytes at byte ",
                 failed.copy.at, " of ", file_->name(), ": ", reason_of(code));
      (void)std::snprintf(failed.text, status_text_bytes, "%s", text.c_str());
    } catch (std::bad_alloc const&) {
      (void)std::snprintf(failed.text, status_text_bytes, "a copy of the disk failed");
    }
  }
  /// The first copy has ended.
  void end(bool well) noexcept {
    Queued const& ended = copies_.front();
    std::uint64_t const mark = ended.mark;
    if (well) {
      auto const bytes = static_cast<std::int64_t>(ended.copy.bytes);
      (ended.copy.writes ? traffic_.writes : traffic_.reads) += 1;
      (ended.copy.writes ? traffic_.written : traffic_.read) += bytes;
      copies_.pop_front();
    } else {
      failed_.splice(failed_.end(), copies_, copies_.begin());
      failed_.back().mark = 0;
    }
    if (mark != 0) reach(mark);
  }
  /// Failures since the mark before are this one's.
  void reach(std::uint64_t mark) noexcept {
    reached_ = mark;
    for (Queued& failed : failed_)
      if (failed.mark == 0) failed.mark = mark;
  }

  File* file_;
  DeviceLog* const log_;  // null: none
  Mutex mutex_;
  Condition changed_;
  std::list<Queued> copies_;  // the first runs
  std::list<Queued> failed_;  // until their mark is seen; mark 0: it is not reached
  std::uint64_t marks_ = 0, reached_ = 0;
  DiskTraffic traffic_;
  bool over_ = false;
  Thread thread_;
};

}  // namespace detail::on_disk
}  // namespace nntile
