#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Regions: strided parts of a buffer, and what two of them have in common.

#include <cstddef>
#include <cstdint>

#include "nntile/core/error.hh"
#include "nntile/core/inplace_vector.hh"

namespace nntile {

/// A run of `bytes` bytes at `offset`, repeated by each of the steps: the bytes
/// offset + sum_d i_d * stride_d + b, for 0 <= i_d < count_d, 0 <= b < bytes. Steps may overlap one
/// another. Rows r to r + m of columns c to c + n of a column-major matrix of doubles, of leading
/// dimension l: {8 * (r + c * l), 8 * m, {{n, 8 * l}}}.
struct Region {
  static constexpr std::size_t most_steps = 8;
  struct Step {
    std::size_t count = 1;
    std::size_t stride = 0;  // bytes
    bool operator==(Step const&) const = default;
  };
  std::size_t offset = 0;
  std::size_t bytes = 0;
  inplace_vector<Step, most_steps> steps;
  bool operator==(Region const&) const = default;
};

/// Bytes from the first of a region to behind its last. Throws ValueError when size_t overflows.
inline std::size_t span_of(Region const& region) {
  std::size_t span = region.bytes;
  for (Region::Step const& step : region.steps) {
    std::size_t more;
    if (step.count == 0) return 0;
    if (span == SIZE_MAX || __builtin_mul_overflow(step.count - 1, step.stride, &more) ||
        __builtin_add_overflow(span, more, &span))
      span = SIZE_MAX;
  }
  if (region.bytes == 0) return 0;
  if (span > PTRDIFF_MAX)
    throw ValueError("region: more than 2^63 - 1 bytes from its first to its last");
  return span;
}

/// The same bytes by the fewest steps, of ascending strides; equal for equal requests. Throws as
/// span_of does.
inline Region normalize(Region const& region) {
  if (span_of(region) == 0) return {region.offset, 0, {}};
  inplace_vector<Region::Step, Region::most_steps> sorted;
  for (Region::Step const& step : region.steps) {
    if (step.count == 1 || step.stride == 0) continue;
    sorted.push_back(step);
    for (std::size_t i = sorted.size() - 1; i > 0 && sorted[i].stride < sorted[i - 1].stride; --i)
      std::swap(sorted[i], sorted[i - 1]);
  }
  Region result{region.offset, region.bytes, {}};
  for (Region::Step const& step : sorted) {
    if (result.steps.empty() && step.stride <= result.bytes) {
      result.bytes += (step.count - 1) * step.stride;
      continue;
    }
    Region::Step* const last = result.steps.empty() ? nullptr : &result.steps.back();
    if (last != nullptr && step.stride == last->stride)
      last->count += step.count - 1;
    else if (last != nullptr && step.stride == last->count * last->stride)
      last->count *= step.count;
    else
      result.steps.push_back(step);
  }
  return result;
}

/// Calls run(begin, end) for each contiguous run of a region; ascending where no step overlaps the
/// ones below it.
template <class Run> void each_run(Region const& region, Run&& run) {
  if (region.bytes == 0) return;
  for (Region::Step const& step : region.steps)
    if (step.count == 0) return;
  std::size_t at[Region::most_steps] = {};
  std::size_t begin = region.offset;
  for (;;) {
    run(begin, begin + region.bytes);
    std::size_t d = 0;
    for (; d < region.steps.size(); ++d) {
      Region::Step const& step = region.steps[d];
      begin += step.stride;
      if (++at[d] != step.count) break;
      begin -= step.count * step.stride;
      at[d] = 0;
    }
    if (d == region.steps.size()) return;
  }
}

namespace detail {

/// A normalized region as a tree: level l repeats level l - 1 by step l - 1; level 0 is a run.
struct RegionTree {
  using Offset = std::int64_t;

  explicit RegionTree(Region const& of) : region(of) {
    spans[0] = static_cast<Offset>(of.bytes);
    for (std::size_t l = 0; l < of.steps.size(); ++l)
      spans[l + 1] = spans[l] + static_cast<Offset>((of.steps[l].count - 1) * of.steps[l].stride);
  }
  std::size_t levels() const { return region.steps.size(); }
  Offset begin() const { return static_cast<Offset>(region.offset); }
  Offset stride(std::size_t level) const {
    return static_cast<Offset>(region.steps[level - 1].stride);
  }
  Offset count(std::size_t level) const {
    return static_cast<Offset>(region.steps[level - 1].count);
  }

  Region const& region;
  Offset spans[Region::most_steps + 1];
};

/// Compares two regions by descending both trees, into pairs of subtrees whose spans overlap. Where
/// both repeat by one stride, as parts of one matrix do, only the difference of the two positions
/// counts: a few pairs a level. Other pairs of strides may need as many as there are runs; beyond
/// `most_pairs` the answer is the safe one.
class RegionPair {
  using Offset = RegionTree::Offset;

 public:
  static constexpr int most_pairs = 1 << 14;

  RegionPair(Region const& a, Region const& b) : a_(a), b_(b) {}
  bool overlap() { return overlap(a_.levels(), a_.begin(), b_.levels(), b_.begin()); }
  /// Whether the first covers the second.
  bool covers() { return covers(a_.levels(), a_.begin(), b_.levels(), b_.begin()); }

 private:
  static Offset floor_div(Offset x, Offset y) { return x / y - (x % y < 0 ? 1 : 0); }
  static Offset least(Offset x, Offset y) { return x < y ? x : y; }
  static Offset most(Offset x, Offset y) { return x > y ? x : y; }

  bool overlap(std::size_t la, Offset a, std::size_t lb, Offset b) {
    if (a + a_.spans[la] <= b || b + b_.spans[lb] <= a) return false;
    if (la == 0 && lb == 0) return true;
    if (--left_ < 0) return true;
    Offset const sa = la == 0 ? 0 : a_.stride(la), sb = lb == 0 ? 0 : b_.stride(lb);
    if (sa == sb) {
      // Child i of one and j of the other overlap only if a + (i - j) * s is near b.
      Offset const first = most(1 - b_.count(lb), floor_div(b - a - a_.spans[la - 1], sa) + 1);
      Offset const end = least(a_.count(la), floor_div(b + b_.spans[lb - 1] - a - 1, sa) + 1);
      for (Offset d = first; d < end; ++d)
        if (overlap(la - 1, a + most(d, 0) * sa, lb - 1, b + most(-d, 0) * sa)) return true;
      return false;
    }
    if (sa > sb) {
      Offset const first = most(0, floor_div(b - a - a_.spans[la - 1], sa) + 1);
      Offset const end = least(a_.count(la), floor_div(b + b_.spans[lb] - a - 1, sa) + 1);
      for (Offset i = first; i < end; ++i)
        if (overlap(la - 1, a + i * sa, lb, b)) return true;
      return false;
    }
    Offset const first = most(0, floor_div(a - b - b_.spans[lb - 1], sb) + 1);
    Offset const end = least(b_.count(lb), floor_div(a + a_.spans[la] - b - 1, sb) + 1);
    for (Offset j = first; j < end; ++j)
      if (overlap(la, a, lb - 1, b + j * sb)) return true;
    return false;
  }

  bool covers(std::size_t la, Offset a, std::size_t lb, Offset b) {
    if (b < a || b + b_.spans[lb] > a + a_.spans[la]) return false;
    if (la == 0) return true;
    if (--left_ < 0) return false;
    Offset const sa = a_.stride(la), sb = lb == 0 ? 0 : b_.stride(lb);
    if (sb > sa) {
      for (Offset j = 0; j < b_.count(lb); ++j)
        if (!covers(la, a, lb - 1, b + j * sb)) return false;
      return true;
    }
    // Children of `a` that begin at or before b, and end behind all of b, or of its first child.
    std::size_t const below = sa == sb ? lb - 1 : lb;
    Offset const last = sa == sb ? a_.count(la) - b_.count(lb) : a_.count(la) - 1;
    Offset const first = most(0, floor_div(b + b_.spans[below] - a - a_.spans[la - 1] - 1, sa) + 1);
    for (Offset i = first; i <= least(last, floor_div(b - a, sa)); ++i)
      if (covers(la - 1, a + i * sa, below, b)) return true;
    return false;
  }

  RegionTree const a_, b_;
  int left_ = most_pairs;
};

}  // namespace detail

/// Whether two normalized regions of one buffer share a byte; an empty one shares none. Exact, but
/// for pairs of strides that take more than 2^14 steps to compare, where it is true.
inline bool overlap(Region const& a, Region const& b) {
  return a.bytes != 0 && b.bytes != 0 && detail::RegionPair(a, b).overlap();
}
/// Whether all bytes of `b`, normalized and not empty, are bytes of one run after the other of `a`.
/// False if several runs of `a` hold one of `b`, or if the comparison takes more than 2^14 steps.
inline bool covers(Region const& a, Region const& b) {
  return a.bytes != 0 && detail::RegionPair(a, b).covers();
}

}  // namespace nntile
