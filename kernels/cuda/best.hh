#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The first largest element of a row, by the threads of a team.

#include "kernels/cuda/rows.hh"

#include "kernels/cpu/best.hh"

namespace nntile::kernels::cuda {

/// Before the first element.
template <class V> NNTILE_DEVICE Best<V> no_best() {
  return {-static_cast<V>(__builtin_inf()), Index{-1}};
}

template <class V> NNTILE_DEVICE void offer(Best<V>& best, V next, Index at) {
  if (best.where < 0)
    best = {next, at};
  else
    best.offer(next, at);
}

/// Both: what comes earlier is offered the later.
template <class V> NNTILE_DEVICE Best<V> merged(Best<V> a, Best<V> b) {
  if (a.where < 0) return b;
  if (b.where < 0) return a;
  Best<V> result = a.where <= b.where ? a : b;
  Best<V> const later = a.where <= b.where ? b : a;
  result.offer(later.value, later.where);
  return result;
}

/// The best of start and value(i) over i < n, which is element `begin` + i, the same in each thread
/// of the team.
template <class V, int size, class Value>
NNTILE_DEVICE Best<V> first_largest(Team<size> const& team, Index n, Index begin, Best<V> start,
                                    Value value) {
  Best<V> best = start;
  team.for_each(n, [&](Index i) { offer(best, value(i), begin + i); });
  for (int half = canonical_lanes / 2; half > 0; half /= 2)
    best = merged(best, Best<V>{team.thread().exchange(best.value, half),
                                team.thread().exchange(best.where, half)});
  V values[Team<size>::sixteens];
  int count = 0;
  team.gather(best.value, [&](V other) { values[count++] = other; });
  count = 0;
  team.gather(best.where,
              [&](Index where) { best = merged(best, Best<V>{values[count++], where}); });
  return best;
}

}  // namespace nntile::kernels::cuda
