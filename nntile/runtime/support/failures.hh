#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The failure log: failed and cancelled tasks, and the marks that carry failure along the data.
//
// A runtime holds one `Failures`, passes it to `BufferTable` and to `run_body` (run_body.hh), which
// together call everything about marks, and itself calls
//   throw_if_failed(sequence)   in `wait`, after the task has ended
//   report()                    in `wait_all`, after every task has ended
//   check_lock(buffer, access)  in `lock`, after the handle's tasks
// A mark is an index into the log, kept in the buffer. Marks are set before the failing task's end
// is published, and a task that could see one starts after that, so relaxed loads suffice:
// `any_marked` is all that a run without failures pays.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/event_name.hh"
#include "nntile/runtime/support/parts.hh"

namespace nntile::support {

/// "gelu of tensor 'h1', tile 3 (task 12)", leaving out what the label lacks. `sequence` 0: not
/// submitted yet.
inline std::string task_name(Codelet const* codelet, TaskLabel const& label,
                             std::uint64_t sequence) {
  std::string text = codelet != nullptr && codelet->name != nullptr ? codelet->name : "task";
  if (label.tensor != nullptr) text += concat(" of tensor '", label.tensor, "'");
  if (label.tile >= 0)
    text += concat(label.tensor != nullptr ? ", tile " : " of tile ", label.tile);
  EventName const name = EventName::unpack(sequence);
  if (name.domain != root_domain)
    text += concat(" (task ", name.sequence, " of domain ", name.domain, ")");
  else if (sequence != 0)
    text += concat(" (task ", sequence, ")");
  return text;
}

/// The failure log of one runtime. Every member may be called from any thread.
class Failures {
 public:
  Failures() : failures_(1) {
    failures_[0].text = "a task failed, and there was no memory to record which";
  }
  Failures(Failures const&) = delete;
  Failures& operator=(Failures const&) = delete;

  /// Whether some buffer carries a mark. Cost: one relaxed load of a word that only failures write.
  bool any_marked() const noexcept { return marked_.load(std::memory_order_relaxed) != 0; }

  /// Records that the task failed, or was cancelled elsewhere, and marks what it writes.
  void fail(TaskBody const& task, char const* cause) noexcept {
    bool const cancelled = cause[0] == cancelled_mark;
    detail::Lock guard(mutex_);
    std::uint32_t const failure = add_failure(task, cause + (cancelled ? 1 : 0), cancelled);
    add_range(task.sequence, failure, task.codelet, cancelled);
    mark_outputs(task, failure);
    collect(failure);
  }

  /// If a buffer that the task reads or updates is marked: records the task as cancelled, marks
  /// what it writes, true. Other accesses look at no mark: which of the tasks that they are not
  /// ordered with came earlier may depend on timing. `text`, if any, gets the cause.
  bool cancel_if_marked(TaskBody const& task, char* text = nullptr) noexcept {
    detail::Lock guard(mutex_);
    std::uint32_t cause = none;
    for (Use<Buffer*> const& use : task.uses) {
      if (use.access != Access::read && use.access != Access::update) continue;
      std::uint32_t const mark = mark_of(*use.handle);
      if (mark == 0) continue;
      if (cause == none || failures_[mark - 1].sequence < failures_[cause].sequence)
        cause = mark - 1;
    }
    if (cause == none) return false;
    if (text != nullptr) {
      std::strncpy(text, failures_[cause].text.c_str(), status_text_bytes - 1);
      text[status_text_bytes - 1] = 0;
    }
    add_range(task.sequence, cause, task.codelet, true);
    mark_outputs(task, cause);
    return true;
  }

  /// Whether a buffer that the task reads or updates is marked.
  bool meets_mark(TaskBody const& task) const noexcept {
    detail::Lock guard(mutex_);
    for (Use<Buffer*> const& use : task.uses)
      if ((use.access == Access::read || use.access == Access::update) && mark_of(*use.handle) != 0)
        return true;
    return false;
  }

  /// Clears the marks of what the task has written completely.
  void succeed(TaskBody const& task) noexcept {
    for (Use<Buffer*> const& use : task.uses)
      if (use.access == Access::write) rewritten(*use.handle);
  }
  /// Clears the marks of a buffer, or of the bytes of a region.
  void rewritten(Buffer& buffer) noexcept {
    if (buffer.is_part()) [[unlikely]]
      return clear_part(buffer);
    clear(buffer);
  }

  /// Clears the buffer's mark, if any: it was rewritten, or is no more. Not of a region.
  void clear(Buffer& buffer) noexcept {
    if (buffer.mark.load(std::memory_order_relaxed) != 0) [[unlikely]]
      clear_marked(buffer);
  }
  [[gnu::noinline]] void clear_marked(Buffer& buffer) noexcept {
    detail::Lock guard(mutex_);
    if (Part const* const part = part_of(buffer))
      part->division->calls->drop_marks(*this, *part->division);
    drop_mark(buffer);
  }

  /// Marks a buffer as another one is, if it is.
  void pass(Buffer const& from, Buffer& to) noexcept {
    if (from.mark.load(std::memory_order_relaxed) == 0) return;
    detail::Lock guard(mutex_);
    std::uint32_t const failure = from.mark.load(std::memory_order_relaxed) - 1;
    if (to.is_part()) return mark_part(to, failure, false);
    set_mark(to, failure);
  }

  /// Throws TaskError if that task failed or was cancelled and has not been reported, or may have:
  /// it lies between two such tasks that there was no memory to record.
  void throw_if_failed(std::uint64_t sequence) const {
    if (unreported_.load(std::memory_order_relaxed) == 0) return;
    detail::Lock guard(mutex_);
    std::size_t const at = first_range_after(sequence);
    if (at > 0 && ranges_[at - 1].last >= sequence)
      throw TaskError(text_of(ranges_[at - 1], sequence), sequence, ranges_[at - 1].cancelled);
    if (lost_.meets(sequence, sequence)) throw TaskError(failures_[0].text, sequence, false);
  }

  /// Throws TaskError for the oldest failed or cancelled task that was not reported, counting the
  /// others; forgets all. Marks stay.
  void report() {
    if (unreported_.load(std::memory_order_relaxed) == 0) return;
    detail::Lock guard(mutex_);
    TaskError const error =
        take(0, ranges_.size(), lost_.count + repeated_failed_, repeated_cancelled_);
    lost_ = {};
    repeated_failed_ = repeated_cancelled_ = 0;
    throw error;
  }
  /// The same, for tasks that are alone in their sequences, from `first` to `last`. Throws also,
  /// and forgets nothing, where one may be among those that there was no memory to record.
  void report(std::uint64_t first, std::uint64_t last) {
    if (unreported_.load(std::memory_order_relaxed) == 0) return;
    detail::Lock guard(mutex_);
    std::size_t const begin = first_range_after(first - 1), end = first_range_after(last);
    if (begin != end) throw take(begin, end, 0, 0);
    if (lost_.meets(first, last)) throw TaskError(failures_[0].text, first, false);
  }
  /// The text of what that throws; "" if nothing.
  std::string reported(std::uint64_t first, std::uint64_t last) noexcept {
    try {
      return text_of_report(first, last);
    } catch (...) {
      return "no memory";  // for the text; this one needs none
    }
  }

  /// Throws the TaskError of a marked buffer that is to be read or updated.
  void check_lock(Buffer const& buffer, Access access) const {
    if (access == Access::write || !any_marked()) return;
    detail::Lock guard(mutex_);
    std::uint32_t const mark = mark_of(buffer);
    if (mark == 0) return;
    Failure const& cause = failures_[mark - 1];
    throw TaskError(
        concat("lock for ", name_of(access), ": the buffer was not computed, because ", cause.text),
        cause.sequence, false);
  }

  /// Tasks that failed or were cancelled since the last report.
  std::uint64_t unreported() const noexcept { return unreported_.load(std::memory_order_relaxed); }

 private:
  friend class DivisionCalls;
  static constexpr std::uint32_t none = UINT32_MAX;
  /// Beyond this many, neighbouring ranges are joined although the codelets differ.
  static constexpr std::size_t many_ranges = 1024;

  struct Failure {
    std::string text;
    std::uint64_t sequence = 0;
    std::uint64_t references = 0;  // marks and ranges
  };
  /// Consecutive tasks that failed or were cancelled for one failure; sorted, disjoint.
  struct Range {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    Codelet const* codelet = nullptr;
    std::uint32_t failure = 0;
    bool cancelled = false;
  };
  /// Tasks that failed or were cancelled, and that there was no memory to record.
  struct Lost {
    std::uint64_t count = 0;
    std::uint64_t first = UINT64_MAX;
    std::uint64_t last = 0;

    void add(std::uint64_t sequence) noexcept {
      ++count;
      if (sequence < first) first = sequence;
      if (sequence > last) last = sequence;
    }
    bool meets(std::uint64_t from, std::uint64_t to) const noexcept {
      return first <= to && from <= last;
    }
  };

  std::string text_of_report(std::uint64_t first, std::uint64_t last) {
    try {
      report(first, last);
      return {};
    } catch (std::exception const& error) {
      return error.what();
    }
  }

  /// The error for the ranges [begin, end), which it forgets, and for `failed` and `cancelled`
  /// tasks of no range. Changes nothing where there is no memory for its text.
  TaskError take(std::size_t begin, std::size_t end, std::uint64_t failed,
                 std::uint64_t cancelled) {
    auto const from = ranges_.begin() + static_cast<std::ptrdiff_t>(begin);
    auto const to = ranges_.begin() + static_cast<std::ptrdiff_t>(end);
    for (auto range = from; range != to; ++range)
      (range->cancelled ? cancelled : failed) += range->last - range->first + 1;
    std::uint64_t const count = failed + cancelled;
    Range const oldest = from == to ? Range{} : *from;
    --(oldest.cancelled ? cancelled : failed);
    std::string text = text_of(oldest, oldest.first);
    if (failed + cancelled != 0)
      text += concat("; of the other tasks ", failed, " failed and ", cancelled, " were cancelled");
    TaskError const error(text, oldest.first, oldest.cancelled);
    unreported_.fetch_sub(count, std::memory_order_relaxed);
    for (auto range = from; range != to; ++range) drop(range->failure);
    ranges_.erase(from, to);
    return error;
  }

  std::uint32_t add_failure(TaskBody const& task, char const* cause, bool elsewhere) noexcept {
    try {
      std::string text = elsewhere ? std::string(cause)
                                   : concat(task_name(task.codelet, task.label, task.sequence),
                                            " failed: ", cause);
      if (free_.empty()) {
        failures_.emplace_back();
        if (free_.capacity() < failures_.size())
          free_.reserve(2 * failures_.size());  // dropping never allocates
        free_.push_back(static_cast<std::uint32_t>(failures_.size() - 1));
      }
      std::uint32_t const failure = free_.back();
      free_.pop_back();
      failures_[failure] = {static_cast<std::string&&>(text), task.sequence, 0};
      return failure;
    } catch (std::bad_alloc const&) {
      return 0;
    }
  }

  void add_range(std::uint64_t sequence, std::uint32_t failure, Codelet const* codelet,
                 bool cancelled) noexcept {
    unreported_.fetch_add(1, std::memory_order_relaxed);
    std::size_t const at = first_range_after(sequence);
    if (at > 0 && ranges_[at - 1].last >= sequence) {
      repeat(at - 1, sequence, failure, codelet, cancelled);
      return;
    }
    auto const joins = [&](Range const& range) {
      return cancelled && range.cancelled && range.failure == failure &&
             (range.codelet == codelet || ranges_.size() > many_ranges);
    };
    bool const left = at > 0 && ranges_[at - 1].last + 1 == sequence && joins(ranges_[at - 1]);
    bool const right =
        at < ranges_.size() && ranges_[at].first == sequence + 1 && joins(ranges_[at]);
    if (left && right) {
      join(ranges_[at - 1].codelet, ranges_[at].codelet);
      ranges_[at - 1].last = ranges_[at].last;
      ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(at));
      --failures_[failure].references;
    }
    if (left && !right) ranges_[at - 1].last = sequence;
    if (right && !left) ranges_[at].first = sequence;
    if (left) join(ranges_[at - 1].codelet, codelet);
    if (right && !left) join(ranges_[at].codelet, codelet);
    if (left || right) return;
    try {
      ranges_.insert(ranges_.begin() + static_cast<std::ptrdiff_t>(at),
                     {sequence, sequence, codelet, failure, cancelled});
      ++failures_[failure].references;
    } catch (std::bad_alloc const&) {
      lost_.add(sequence);
    }
  }

  /// Another task of one sequence, as the tasks of a replay are: it is counted, and the sequence
  /// counts as failed if any of them failed. Ranges stay disjoint.
  void repeat(std::size_t holder, std::uint64_t sequence, std::uint32_t failure,
              Codelet const* codelet, bool cancelled) noexcept {
    bool const replaces = !cancelled && ranges_[holder].cancelled;
    ++(replaces || cancelled ? repeated_cancelled_ : repeated_failed_);
    if (!replaces) return;
    Range const range = ranges_[holder];
    Range const parts[] = {{range.first, sequence - 1, range.codelet, range.failure, true},
                           {sequence, sequence, codelet, failure, false},
                           {sequence + 1, range.last, range.codelet, range.failure, true}};
    try {
      ranges_.reserve(ranges_.size() + 2);
    } catch (std::bad_alloc const&) {
      return;  // it stays a cancelled one, which is reported as well
    }
    auto position = ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(holder));
    --failures_[range.failure].references;  // collected below, when its parts have theirs
    for (Range const& part : parts) {
      if (part.first > part.last || (&part == &parts[0] && range.first == sequence)) continue;
      position = ranges_.insert(position, part) + 1;
      ++failures_[part.failure].references;
    }
    collect(range.failure);
  }

  static void join(Codelet const*& codelet, Codelet const* other) noexcept {
    if (codelet != other) codelet = nullptr;
  }

  /// Position of the first range that begins after the sequence.
  std::size_t first_range_after(std::uint64_t sequence) const noexcept {
    std::size_t low = 0, high = ranges_.size();
    if (high != 0 && ranges_.back().first <= sequence) return high;  // the usual case
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      (ranges_[middle].first <= sequence ? low : high) =
          ranges_[middle].first <= sequence ? middle + 1 : middle;
    }
    return low;
  }

  void mark_outputs(TaskBody const& task, std::uint32_t failure) noexcept {
    for (Use<Buffer*> const& use : task.uses) {
      if (!writes(use.access) || use.access == Access::unordered) continue;
      bool const keep_older =
          use.access == Access::accumulate || use.access == Access::write_disjoint;
      if (use.handle->is_part()) {
        mark_part(*use.handle, failure, keep_older);
        continue;
      }
      std::uint32_t const old = use.handle->mark.load(std::memory_order_relaxed);
      // Of several tasks that may be reordered, the oldest failure wins, whatever the timing.
      if (old != 0 && keep_older && failures_[old - 1].sequence <= failures_[failure].sequence)
        continue;
      set_mark(*use.handle, failure);
    }
  }
  void set_mark(Buffer& buffer, std::uint32_t failure) noexcept {
    std::uint32_t const old = buffer.mark.load(std::memory_order_relaxed);
    ++failures_[failure].references;
    if (old == 0) marked_.fetch_add(1, std::memory_order_relaxed);
    buffer.mark.store(failure + 1, std::memory_order_relaxed);
    if (old != 0) drop(old - 1);
  }

  void drop_mark(Buffer& buffer) noexcept {
    std::uint32_t const mark = buffer.mark.exchange(0, std::memory_order_relaxed);
    if (mark == 0) return;
    marked_.fetch_sub(1, std::memory_order_relaxed);
    drop(mark - 1);
  }

  /// The mark of a buffer, or that of the bytes of a part.
  std::uint32_t mark_of(Buffer const& buffer) const noexcept {
    Part const* const part = part_of(buffer);
    if (part == nullptr) return buffer.mark.load(std::memory_order_relaxed);
    return part->division->calls->mark_of(*this, *part);
  }
  [[gnu::noinline]] void mark_part(Buffer& buffer, std::uint32_t failure,
                                   bool keep_older) noexcept {
    Part const& part = *part_of(buffer);
    part.division->calls->mark(*this, part, failure, keep_older);
  }
  [[gnu::noinline]] void clear_part(Buffer& buffer) noexcept {
    if (!any_marked()) return;
    detail::Lock guard(mutex_);
    Part const& part = *part_of(buffer);
    part.division->calls->clear(*this, part);
  }

  void drop(std::uint32_t failure) noexcept {
    --failures_[failure].references;
    collect(failure);
  }
  void collect(std::uint32_t failure) noexcept {
    if (failure != 0 && failures_[failure].references == 0) free_.push_back(failure);
  }

  std::string text_of(Range const& range, std::uint64_t sequence) const {
    std::string const& cause = failures_[range.failure].text;
    return range.cancelled
               ? concat(task_name(range.codelet, {}, sequence), " was cancelled: ", cause)
               : cause;
  }

  alignas(64) std::atomic<std::uint64_t> marked_{0};  // buffers that carry a mark
  alignas(64) mutable detail::Mutex mutex_;
  std::atomic<std::uint64_t> unreported_{0};
  Lost lost_;
  // Tasks whose sequence some range holds already.
  std::uint64_t repeated_failed_ = 0;
  std::uint64_t repeated_cancelled_ = 0;
  DynamicArray<Failure> failures_;
  DynamicArray<std::uint32_t> free_;
  DynamicArray<Range> ranges_;
};

}  // namespace nntile::support
