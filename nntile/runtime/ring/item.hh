#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Items of the ready queues, and their levels of priority.

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
using Item = std::uint64_t;
inline constexpr Item no_item = ~Item{0};

constexpr Item program_item(std::uint32_t flight, std::uint32_t task) {
  return Item{1} << 63 | Item{flight} << 32 | task;
}
constexpr bool is_program(Item item) { return item >> 63 != 0; }
constexpr std::uint32_t flight_of(Item item) {
  return static_cast<std::uint32_t>(item >> 32) & 0x7fffffffu;
}
constexpr std::uint32_t task_of(Item item) { return static_cast<std::uint32_t>(item); }

}  // namespace nntile::detail::ring
