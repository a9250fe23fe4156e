#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program: tasks, successors and attributes in flat arrays that nothing changes later.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/ring/item.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// One task of a program.
struct ImageTask {
  static constexpr std::uint32_t unprepared = ~0u;

  Codelet const* codelet;
  std::uint32_t attributes;  // offset in the image's bytes, or in the flight's if they vary
  std::uint32_t uses;        // first of `use_count`
  std::uint32_t use_count;
  std::uint32_t successors;  // first of `successor_count`
  std::uint32_t successor_count;
  std::uint32_t producers;  // how many tasks it waits for
  std::uint32_t prepared;   // where a flight keeps its operands unpacked, if it does
  std::uint8_t level;
  bool varying;  // a parameter changes its attributes
};

/// A successor, and whether it waits for nobody else and so needs no counting.
struct Successor {
  std::uint32_t task : 31;
  std::uint32_t only : 1;
};

/// What a program does to one of its bindings as a whole. `read` first and written later is an
/// update; written first, a write.
struct BindingUse {
  std::uint32_t binding;
  Access access;
};

/// Where a parameter goes in a flight's bytes.
struct Patch {
  std::size_t to;
  std::uint32_t from;
  std::uint32_t bytes;
};

/// Operands of a task that are unpacked on the stack; more of them are, once for each flight.
inline constexpr std::size_t unpacked_operands = 16;

/// An immutable program. `recorder.hh` makes it.
struct Image {
  std::vector<ImageTask> tasks;
  std::vector<TaskLabel> labels;
  std::vector<ProgramUse> uses;
  std::vector<Successor> successors;
  std::vector<std::uint32_t> roots;  // by level, and in order within it
  std::uint32_t roots_at[level_count + 1] = {};
  std::uint32_t tasks_at[level_count + 1] = {};  // how many tasks have lower levels
  std::uint32_t sinks = 0;                       // tasks without successors
  std::vector<std::uint32_t> prepared;           // tasks whose operands a flight unpacks
  std::vector<BindingUse> binding_uses;
  std::uint32_t binding_count = 0;
  std::vector<std::byte> constant;  // attributes that no parameter changes, aligned to 16
  std::vector<std::byte> varying;   // the others, as they were recorded
  std::vector<Patch> patches;
  std::size_t parameter_bytes = 0;

  std::uint32_t count_at(std::uint32_t level) const {
    return tasks_at[level + 1] - tasks_at[level];
  }
  std::span<std::uint32_t const> roots_of(std::uint32_t level) const {
    return {roots.data() + roots_at[level], roots_at[level + 1] - roots_at[level]};
  }
};

}  // namespace nntile::detail::ring

namespace nntile {

template <class Policy>
requires RingPolicyType<Policy>
class BasicRing;

/// A program that a ring has recorded. Copies share it; it may die while it is in flight, and after
/// its ring.
class RingProgram {
 public:
  RingProgram() = default;
  /// Tasks in it.
  std::size_t size() const { return image_ == nullptr ? 0 : image_->tasks.size(); }

 private:
  template <class Policy>
  requires RingPolicyType<Policy>
  friend class BasicRing;
  explicit RingProgram(std::shared_ptr<detail::ring::Image const> image)
      : image_(std::move(image)) {}

  std::shared_ptr<detail::ring::Image const> image_;
};

}  // namespace nntile
