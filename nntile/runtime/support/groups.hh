#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Uses of a task that are ordered otherwise than reads, writes and updates.

#include <cstddef>
#include <cstdint>
#include <span>

#include "nntile/core/error.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::support {

/// The uses of a task that the order of submission does not order as reads, writes or updates:
/// none, or only those that need no claims, or those that do as well.
enum class Groups : std::uint8_t { none, unclaimed, claimed };

/// `may_claim`: where tasks that accumulate exclude each other by claims; elsewhere they are
/// ordered as updates.
inline Groups groups_of(std::span<Use<Buffer*> const> uses, bool may_claim) noexcept {
  Groups groups = Groups::none;
  for (Use<Buffer*> const& use : uses) {
    if (use.access == Access::accumulate && may_claim) return Groups::claimed;
    if (use.access >= Access::write_disjoint) groups = Groups::unclaimed;
  }
  return groups;
}

/// The access by which use `i` of such a task is ordered: `accumulate` and `write_disjoint` among
/// others of that kind; `unordered` not at all; else as an access is ordered. A buffer that the
/// task names in several ways is updated.
inline Access order_of(std::span<Use<Buffer*> const> uses, std::size_t i, Groups groups) noexcept {
  Access const access = uses[i].access;
  if (access == Access::accumulate && groups != Groups::claimed) return Access::update;
  if (access != Access::accumulate && access != Access::write_disjoint) return access;
  for (Use<Buffer*> const& use : uses)
    if (use.handle == uses[i].handle && use.access != access && use.access != Access::unordered)
      return Access::update;
  return access;
}
/// Whether tasks with that order are a group in which they do not order each other.
constexpr bool is_group(Access order) noexcept {
  return order == Access::accumulate || order == Access::write_disjoint;
}

/// Throws ValueError for a lock of such an access: only tasks may be reordered.
inline void check_lock_access(Access access) {
  if (access > Access::accumulate)
    throw ValueError(
        concat("lock for ", name_of(access), ": lock it for read, write or update instead"));
}

}  // namespace nntile::support
