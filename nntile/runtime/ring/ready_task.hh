#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The entries of the ready queues, and their levels of priority.

#include <algorithm>
#include <cstdint>

#include "nntile/core/hints.hh"

namespace nntile::detail::ring {

/// The range of distinguished priorities; others are clamped to it.
inline constexpr int lowest_priority = -2;
inline constexpr int highest_priority = 5;
inline constexpr std::uint32_t level_count = highest_priority - lowest_priority + 1;
inline constexpr std::uint32_t normal_level = -lowest_priority;

constexpr std::uint8_t level_of(int priority) {
  return static_cast<std::uint8_t>(std::clamp(priority, lowest_priority, highest_priority) -
                                   lowest_priority);
}

/// A ready task: domain and slot of one in a window, or a task of a program in flight; these are in
/// one queue at most, and not finished while they are, so that a slot needs no id here. Or a block
/// of a task that has begun, which is in no queue.
using ReadyTask = std::uint64_t;
inline constexpr ReadyTask no_task = ~ReadyTask{0};
inline constexpr unsigned slot_bits = 20;
inline constexpr unsigned slot_task_bits = 2 * slot_bits;  // as many domains as slots

constexpr ReadyTask slot_task(std::uint32_t domain, std::uint32_t slot) {
  return ReadyTask{domain} << slot_bits | slot;
}
/// Of a slot's task, with its group or without.
constexpr std::uint32_t domain_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready >> slot_bits);
}
constexpr std::uint32_t slot_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready) & ((1u << slot_bits) - 1);
}

/// The groups of queues that a slot's task may be in: of all workers, and of each kind of them. The
/// scheduler adds it to what it pops, for tasks of domains beside the root (Offers).
inline constexpr std::uint32_t queue_groups = 1 + worker_kinds;
inline constexpr unsigned group_bits = 3;
inline constexpr unsigned first_group_bit = 52;
static_assert(queue_groups <= 1u << group_bits);
constexpr ReadyTask in_group(ReadyTask ready, std::uint32_t group) {
  return ready | ReadyTask{group} << first_group_bit;
}
constexpr std::uint32_t group_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready >> first_group_bit) & ((1u << group_bits) - 1);
}
/// By what a slot says of its worker (Kinds::place).
constexpr std::uint32_t group_of_worker(std::int16_t worker) {
  return worker < -1 ? static_cast<std::uint32_t>(-1 - worker) : 0;
}

inline constexpr unsigned block_range_bits = 4;
/// Its domain, if it were a slot's task, is none.
constexpr ReadyTask block_task(std::uint32_t range, std::uint32_t block) {
  return ReadyTask{1} << 51 | ReadyTask{range} << 32 | block;
}
/// Of one that is no task in flight.
constexpr bool is_block(ReadyTask ready) { return (ready >> 51 & 1u) != 0; }
constexpr std::uint32_t range_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready >> 32) & ((1u << block_range_bits) - 1);
}
constexpr std::uint32_t block_of(ReadyTask ready) { return static_cast<std::uint32_t>(ready); }

constexpr ReadyTask flight_task(std::uint32_t flight, std::uint32_t task) {
  return ReadyTask{1} << 63 | ReadyTask{flight} << 32 | task;
}
constexpr bool is_program(ReadyTask ready) { return ready >> 63 != 0; }
constexpr std::uint32_t flight_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready >> 32) & 0x7fffffffu;
}
/// Of a task in flight.
constexpr std::uint32_t task_of(ReadyTask ready) { return static_cast<std::uint32_t>(ready); }

}  // namespace nntile::detail::ring
