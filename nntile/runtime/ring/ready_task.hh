#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The entries of the ready queues, and their levels of priority.

#include <algorithm>
#include <cstdint>

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

/// A ready task: the id of a slot's task, or a task of a program in flight.
using ReadyTask = std::uint64_t;
inline constexpr ReadyTask no_task = ~ReadyTask{0};

constexpr ReadyTask flight_task(std::uint32_t flight, std::uint32_t task) {
  return ReadyTask{1} << 63 | ReadyTask{flight} << 32 | task;
}
constexpr bool is_program(ReadyTask ready) { return ready >> 63 != 0; }
constexpr std::uint32_t flight_of(ReadyTask ready) {
  return static_cast<std::uint32_t>(ready >> 32) & 0x7fffffffu;
}
constexpr std::uint32_t task_of(ReadyTask ready) { return static_cast<std::uint32_t>(ready); }

}  // namespace nntile::detail::ring
