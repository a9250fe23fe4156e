#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Sets of bytes of a buffer.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "nntile/core/region.hh"

namespace nntile::support {

/// A set of offsets, as disjoint runs.
class ByteSet {
  struct Run {
    std::size_t begin, end;
  };

 public:
  /// Memory that `subtract` may use again.
  struct Scratch {
    std::vector<Run> taken, kept;
    void reserve(std::size_t runs) {
      taken.reserve(runs);
      kept.reserve(runs);
    }
    std::size_t capacity() const { return taken.capacity() + kept.capacity(); }
  };

  ByteSet() = default;
  /// The bytes of a normalized region. Throws std::bad_alloc.
  explicit ByteSet(Region const& region) { assign(region); }

  /// Becomes the bytes of a normalized region. Throws std::bad_alloc.
  void assign(Region const& region) { find_runs(region, runs_); }
  void clear() noexcept { runs_.clear(); }
  /// Makes room for `runs` runs. Throws std::bad_alloc.
  void reserve(std::size_t runs) { runs_.reserve(runs); }

  bool empty() const { return runs_.empty(); }

  /// Whether it holds a byte of the region. Cost: a binary search for each run of that.
  bool meets(Region const& region) const {
    bool found = false;
    each_run(region, [&](std::size_t begin, std::size_t end) {
      auto const at = behind(begin);
      found |= at != runs_.end() && at->begin < end;
    });
    return found;
  }

  /// Takes a normalized region out. Cost: linear in the runs of both within the region's span, and
  /// a move of those behind. Throws std::bad_alloc; nothing has changed then.
  void subtract(Region const& region) {
    Scratch scratch;
    subtract(region, scratch);
  }
  void subtract(Region const& region, Scratch& scratch) {
    if (region.bytes == 0) return;
    auto& [taken, kept] = scratch;
    find_runs(region, taken);
    kept.clear();
    auto const first = behind(taken.front().begin);
    auto last = first;
    auto next = taken.begin();
    for (; last != runs_.end() && last->begin < taken.back().end; ++last) {
      Run run = *last;
      while (next != taken.end() && next->end <= run.begin) ++next;
      for (auto at = next; at != taken.end() && at->begin < run.end; ++at) {
        if (at->begin > run.begin) kept.push_back({run.begin, at->begin});
        run.begin = std::min(at->end, run.end);
      }
      if (run.begin < run.end) kept.push_back(run);
    }
    auto const count = last - first;
    auto const fit = std::min<std::ptrdiff_t>(count, static_cast<std::ptrdiff_t>(kept.size()));
    auto const from = first - runs_.begin();
    if (runs_.capacity() < runs_.size() + kept.size())
      runs_.reserve(2 * runs_.size() + kept.size());
    auto const place = runs_.begin() + from;
    std::copy(kept.begin(), kept.begin() + fit, place);
    if (fit < count)
      runs_.erase(place + fit, place + count);
    else
      runs_.insert(place + fit, kept.begin() + fit, kept.end());
  }

  /// Runs that there is memory for.
  std::size_t capacity() const { return runs_.capacity(); }

 private:
  /// Ascending and disjoint.
  static void find_runs(Region const& region, std::vector<Run>& runs) {
    runs.clear();
    bool ascending = true;
    each_run(region, [&](std::size_t begin, std::size_t end) {
      ascending &= runs.empty() || begin > runs.back().end;
      runs.push_back({begin, end});
    });
    if (ascending) return;
    std::sort(runs.begin(), runs.end(), [](Run a, Run b) { return a.begin < b.begin; });
    std::size_t count = 1;
    for (std::size_t i = 1; i < runs.size(); ++i) {
      if (runs[i].begin > runs[count - 1].end)
        runs[count++] = runs[i];
      else
        runs[count - 1].end = std::max(runs[count - 1].end, runs[i].end);
    }
    runs.resize(count);
  }
  /// The first run that ends behind that byte.
  std::vector<Run>::const_iterator behind(std::size_t byte) const {
    return std::partition_point(runs_.begin(), runs_.end(),
                                [=](Run const& run) { return run.end <= byte; });
  }

  std::vector<Run> runs_;
};

}  // namespace nntile::support
