#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program: tasks, successors and arguments in immutable flat arrays.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/heap_array.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/ring/capacities.hh"
#include "nntile/runtime/ring/policy.hh"
#include "nntile/runtime/ring/ready_task.hh"
#include "nntile/runtime/support/recording.hh"

namespace nntile::detail::ring {

/// One task of an image: this head, its uses, its successors, in units of a cache line, of which
/// most tasks need one. In a flight it goes by its offset in the image, in units.
struct alignas(64) RecordedTask {
  static constexpr std::uint32_t unit_words = 16;
  static constexpr std::uint32_t head_words = 7;
  static constexpr unsigned access_bits = 3;  // of a use, below the binding

  Codelet const* codelet;
  std::uint32_t number;  // position in the recording
  /// Offset in the image's bytes, or in the flight's if they vary; of a prepared task its position
  /// among those.
  std::uint32_t arguments;
  std::uint32_t successor_count;
  std::uint32_t producer_count;
  std::uint8_t use_count;
  std::uint8_t level;
  bool varying;   // a parameter changes its arguments
  bool prepared;  // its uses are unpacked once for each flight, and not here

  Binding binding(std::uint32_t use) const { return tail()[use] >> access_bits; }
  Access access(std::uint32_t use) const { return static_cast<Access>(tail()[use] & 7); }
  static std::uint32_t pack(Use<Binding> const& use) {
    return use.handle << access_bits | static_cast<std::uint32_t>(use.access);
  }
  /// Offsets of the successors, each times 2, plus 1 if it has no other producer and so needs no
  /// counting.
  std::uint32_t const* successors() const { return tail() + use_count; }

  /// The words behind the head.
  std::uint32_t const* tail() const {
    return reinterpret_cast<std::uint32_t const*>(this) + head_words;
  }
  std::uint32_t* tail() { return reinterpret_cast<std::uint32_t*>(this) + head_words; }

  /// Units that a task takes.
  static std::uint64_t units(std::uint64_t uses, std::uint64_t successors) {
    return (head_words + uses + successors + unit_words - 1) / unit_words;
  }
};
static_assert(sizeof(RecordedTask) == 4 * RecordedTask::unit_words);
static_assert(offsetof(RecordedTask, prepared) + sizeof(bool) == 4 * RecordedTask::head_words);

/// The memory of recorded tasks.
class TaskStorage {
 public:
  /// Throws std::bad_alloc.
  void assign(std::size_t units) {
    storage_ = HeapArray<Unit>(units);
    size_ = units;
  }
  std::size_t size() const { return size_; }
  /// The task that begins there.
  RecordedTask& at(std::size_t offset) const {
    return *reinterpret_cast<RecordedTask*>(storage_.get() + offset);
  }

 private:
  struct alignas(64) Unit {
    std::byte bytes[sizeof(RecordedTask)];
  };
  HeapArray<Unit> storage_;
  std::size_t size_ = 0;
};

/// A task whose operands a flight unpacks: an asynchronous one, or one with many operands.
struct PreparedTask {
  std::uint32_t offset;
  std::uint32_t number;
  std::uint32_t arguments;
  bool varying;
  DynamicArray<Use<Binding>> uses = {};
};

/// Operands of a task that are unpacked on the stack; more of them are, once for each flight.
inline constexpr std::size_t unpacked_operands = 16;

/// An immutable program. `recorder.hh` makes it. The patches are of `varying`.
struct Image : support::Recorded {
  using Recorded::Recorded;

  TaskStorage storage;
  DynamicArray<TaskLabel> labels;     // by position in the recording
  DynamicArray<std::uint32_t> roots;  // offsets, by level, and in order within it
  std::uint32_t roots_at[level_count + 1] = {};
  std::uint32_t tasks_at[level_count + 1] = {};  // counts of tasks of lower levels
  std::uint32_t sinks = 0;                       // tasks without successors; with devices all
  DynamicArray<PreparedTask> prepared;
  DynamicArray<std::byte> constant;  // arguments that no parameter changes, aligned to 16
  DynamicArray<std::byte> varying;   // the others, as they were recorded

  RecordedTask const& task(std::uint32_t offset) const { return storage.at(offset); }
  std::size_t size() const { return labels.size(); }
  std::uint32_t count_at(std::uint32_t level) const {
    return tasks_at[level + 1] - tasks_at[level];
  }
  ProgramCapacity capacity() const {
    ProgramCapacity result{static_cast<std::uint32_t>(size()),
                           static_cast<std::uint32_t>(storage.size()),
                           binding_count,
                           static_cast<std::uint32_t>(prepared.size()),
                           0,
                           varying.size()};
    for (PreparedTask const& task : prepared)
      if (task.uses.size() > result.operands)
        result.operands = static_cast<std::uint32_t>(task.uses.size());
    return result;
  }
  std::span<std::uint32_t const> roots_of(std::uint32_t level) const {
    return {roots.data() + roots_at[level], roots_at[level + 1] - roots_at[level]};
  }
};

}  // namespace nntile::detail::ring

namespace nntile {

template <class Policy>
requires RequiredRingPolicy<Policy>
class BasicRing;

/// A program that a ring has recorded. Copies share it; it may die while it is in flight, and after
/// its ring.
class RingProgram {
 public:
  RingProgram() = default;
  /// Tasks in it.
  std::size_t size() const { return image_ == nullptr ? 0 : image_->size(); }
  /// Needs of its replays.
  ProgramCapacity capacity() const {
    return image_ == nullptr ? ProgramCapacity{} : image_->capacity();
  }

 private:
  template <class Policy>
  requires RequiredRingPolicy<Policy>
  friend class BasicRing;
  explicit RingProgram(std::shared_ptr<detail::ring::Image const> image)
      : image_(std::move(image)) {}

  std::shared_ptr<detail::ring::Image const> image_;
};

}  // namespace nntile
