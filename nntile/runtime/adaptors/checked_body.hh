#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The bodies that Check submits in place of a task's own: they look at every operand before and
// after. Those of asynchronous tasks are in checked_flight.hh.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/named_failure.hh"

namespace nntile::detail {

/// A buffer under watch. The sum is of its bytes as the last lawful writer left them.
struct WatchedBuffer {
  std::uint32_t number = 0;
  std::size_t bytes = 0;
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
  std::atomic<int> disjoint{0};           // writers of disjoint bytes
  std::atomic<std::uint64_t> version{0};  // writes that have ended
  std::atomic<std::uint64_t> sum{0};
  std::atomic<bool> summed{false};
  std::atomic<bool> unordered{false};  // some task may write it at any time
  bool is_summed() const {
    return summed.load(std::memory_order_relaxed) && !unordered.load(std::memory_order_relaxed);
  }
  // of the driving thread
  std::uint64_t issued = 0;  // writes that were submitted; version, where all is done
  bool written = false;
  bool read_only = false;
  bool retired = false;
  bool held = false;  // locked, for `locked`, at `view`
  Access locked = Access::read;
  std::span<std::byte> view;
};

/// FNV-1a over words, then over the bytes that are left.
inline std::uint64_t checksum(void const* data, std::size_t bytes) {
  auto const* const begin = static_cast<unsigned char const*>(data);
  std::uint64_t sum = 0xcbf29ce484222325u;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, begin + at, sizeof word);
    sum = (sum ^ word) * 0x100000001b3u;
    sum ^= sum >> 29;
  }
  for (; at < bytes; ++at) sum = (sum ^ begin[at]) * 0x100000001b3u;
  return sum;
}

/// Violations found, from any thread.
class Problems {
 public:
  void add(std::string const& text) {
    detail::Lock const hold(mutex_);
    if (texts_.size() < most_texts) texts_.push_back(text);
  }
  std::vector<std::string> texts() const {
    detail::Lock const hold(mutex_);
    return texts_;
  }

 private:
  static constexpr std::size_t most_texts = 100;
  mutable detail::Mutex mutex_;
  std::vector<std::string> texts_;
};

/// An operand of a checked task. `access` is the union over the operands that are the same buffer,
/// of which only the first has a buffer here.
struct VersionedUse : Use<WatchedBuffer*> {
  std::uint64_t version;  // counts writes submitted before the task
};

class CheckedFlights;

/// Header of a checked task's arguments; the uses follow, then the task's own arguments.
struct CheckedHeader {
  Problems* problems;
  CheckedFlights* flights;
  Codelet const* codelet;
  std::uint32_t use_count;
  std::uint32_t arguments_at;
};

inline CheckedHeader header_of(KernelCall const& call) {
  CheckedHeader header;
  std::memcpy(&header, call.arguments, sizeof header);
  return header;
}
/// The call that the task's own body is to get.
inline KernelCall own_call(KernelCall const& call) {
  KernelCall own = call;
  own.arguments = static_cast<std::byte const*>(call.arguments) + header_of(call).arguments_at;
  return own;
}

inline constexpr Status no_memory_to_check{"check: no memory to watch the task"};

/// One execution of a checked task.
class CheckedRun {
 public:
  explicit CheckedRun(KernelCall const& call) : call_(call), header_(header_of(call)) {
    auto const* const bytes = static_cast<std::byte const*>(call.arguments);
    uses_.resize(header_.use_count);
    if (!uses_.empty())
      std::memcpy(uses_.data(), bytes + sizeof header_, uses_.size() * sizeof(VersionedUse));
    buffers_.assign(call.buffers, call.buffers + uses_.size());
  }

  void enter() noexcept {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].handle == nullptr) continue;
      WatchedBuffer& buffer = *uses_[i].handle;
      Access const access = uses_[i].access;
      if (access == Access::unordered) continue;
      users(buffer, access).fetch_add(1);
      bool const own = writes(access) && access != Access::write_disjoint;
      int const writers = buffer.writers.load() - (own ? 1 : 0);
      int const disjoint = access == Access::write_disjoint ? 0 : buffer.disjoint.load();
      int const readers = access == Access::read ? 0 : buffer.readers.load();
      if (writers + disjoint + readers != 0)
        complain("entered to ", name_of(access), " operand ", i, ", buffer ", buffer.number,
                 ", while ", writers, " writers, ", disjoint, " writers of disjoint bytes and ",
                 readers, " readers were using it");
      if (!call_.marked) compare_version(i);  // writers before it may have been cancelled
      if (access == Access::write_disjoint) buffer.summed.store(false, std::memory_order_relaxed);
      compare(i, "before the task, though no task or lock that names it wrote");
    }
  }

  /// The task's status, or what was found.
  Status leave(Status status, char* text) noexcept {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (uses_[i].handle == nullptr) continue;
      WatchedBuffer& buffer = *uses_[i].handle;
      if (uses_[i].access == Access::unordered) continue;
      if (uses_[i].access == Access::write_disjoint) {
        buffer.version.fetch_add(1);
        buffer.disjoint.fetch_sub(1);
      } else if (writes(uses_[i].access)) {
        if (uses_[i].access == Access::accumulate)
          buffer.version.fetch_add(1);
        else
          buffer.version.store(uses_[i].version + 1);
        buffer.sum.store(checksum(buffers_[i], buffer.bytes), std::memory_order_relaxed);
        buffer.summed.store(true, std::memory_order_relaxed);
        buffer.writers.fetch_sub(1);
      } else {
        compare(i, "during the task, which may only read it");
        buffer.readers.fetch_sub(1);
      }
    }
    if (status.ok() && no_words_) status = no_memory_to_check;
    if (status.ok() && !problem_.empty()) status = {problem_.c_str()};
    return status.ok() ? status : named_failure(*header_.codelet, status, text);
  }

 private:
  static std::atomic<int>& users(WatchedBuffer& buffer, Access access) {
    return access == Access::read             ? buffer.readers
           : access == Access::write_disjoint ? buffer.disjoint
                                              : buffer.writers;
  }
  /// Amid writers of disjoint bytes, and once some task is in no order, there is no telling.
  void compare(std::size_t i, char const* when) {
    WatchedBuffer const& buffer = *uses_[i].handle;
    bool const looks = reads(uses_[i].access) && buffer.is_summed();
    if (looks && checksum(buffers_[i], buffer.bytes) != buffer.sum.load(std::memory_order_relaxed))
      complain("operand ", i, ", buffer ", buffer.number, ", changed ", when);
  }
  /// A task that reads or updates has successful writers before it; before others some may have
  /// been cancelled. Never may a later one have come first, of those that are not in one group.
  void compare_version(std::size_t i) {
    std::uint64_t const expected = uses_[i].version;
    std::uint64_t const seen = uses_[i].handle->version.load();
    bool const exact = uses_[i].access == Access::read || uses_[i].access == Access::update;
    bool const late = seen > expected && (exact || uses_[i].access == Access::write);
    if (late || (exact && seen < expected))
      complain("operand ", i, ", buffer ", uses_[i].handle->number, ", to ",
               name_of(uses_[i].access), " after ", expected, " writes, had seen ", seen);
  }
  template <class... Words> void complain(Words const&... words) noexcept {
    try {
      std::string text = concat(words...);
      header_.problems->add(concat(name_of_task(header_.codelet), ": ", text));
      if (problem_.empty()) problem_ = std::move(text);
    } catch (std::bad_alloc const&) {
      no_words_ = true;
    }
  }

  KernelCall call_;
  CheckedHeader header_;
  std::vector<VersionedUse> uses_;
  std::vector<void*> buffers_;
  std::string problem_;
  bool no_words_ = false;  // no memory for those of a problem
};

inline Status run_checked(KernelCall const& call) noexcept try {
  CheckedRun run(call);
  run.enter();
  return run.leave(header_of(call).codelet->cpu(own_call(call)), call.text);
} catch (std::bad_alloc const&) {
  return no_memory_to_check;
}

}  // namespace nntile::detail
