// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// The choices of one execution, and the next execution that they leave to be tried.
//
// Sources: Flanagan and Godefroid, Dynamic partial-order reduction for model checking software,
// POPL 2005 (backtracking points, found by races along an execution); Coons, Musuvathi and
// McKinley, Bounded partial-order reduction, OOPSLA 2013 (points to add where preemptions are
// bounded). Some executions are equivalent to others: sleep sets would cut them short, but with
// these backtracking points they cut too much (model_litmus.cc, random programs).

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/runtime/model/clock.hh"

namespace nntile::test::model {

/// What an operation does to its object: two depend on each other unless both look.
enum class Effect : std::uint8_t { none, look, change };

/// What operations of different threads meet at: an atomic, a mutex, a condition.
struct Object {
  Clock changed;           // the latest change and what is before it
  Clock touched;           // all operations so far and what is before them
  int last_change = -1;    // its event
  std::vector<int> looks;  // events since
};

/// A bit for each thread.
using Mask = std::uint32_t;
constexpr Mask bit(std::size_t thread) { return Mask{1} << thread; }
constexpr bool has(Mask mask, std::size_t thread) { return (mask >> thread & 1) != 0; }

/// A sequence of points; at each a thread is chosen, whose operation takes place.
class Path {
 public:
  /// Below 0 preemptions have no bound. Without reduction each order is an execution of its own.
  explicit Path(int preemptions, bool reduces = true)
      : preemptions_(preemptions), reduces_(reduces) {}

  std::uint64_t states() const { return states_; }
  /// Begins an execution along the path.
  void restart() { depth_ = 0; }

  /// The next thread of those that are able to run.
  std::size_t next(Mask able, std::size_t before) {
    if (depth_ == points_.size()) {
      add({preferred(able, before), before, able, 0, 0, 0, 0, 1});
    }
    return points_[depth_++].chosen;
  }
  /// The thread that ran last if it is among these, or the next one after it.
  static std::size_t preferred(Mask among, std::size_t before) {
    std::size_t thread = before;
    while (!has(among, thread)) thread = (thread + 1) % most_threads;
    return thread;
  }
  /// One of `count` numbers for the operation that takes place; each in some execution.
  std::size_t choose(std::size_t count) {
    points_[depth_ - 1].values = count;
    return points_[depth_ - 1].value;
  }

  /// The operation of `thread` could take place before the one of that point.
  void race(std::size_t point, std::size_t thread) {
    try_at(points_[point], thread);
    if (!bounded()) return;
    // The switch that this needs may be one too many; it is none where the other's turn began.
    std::size_t first = point;
    while (first > 0 && points_[first - 1].chosen == points_[point].chosen) --first;
    try_at(points_[first], thread);
  }

  /// Changes the last choice that has another side left; false if there is none.
  bool advance() {
    for (; !points_.empty(); points_.pop_back()) {
      Point& point = points_.back();
      if (point.value + 1 < point.values) {
        ++point.value;
        return true;
      }
      point.done |= bit(point.chosen);
      Mask left = point.backtrack & point.able & ~point.done;
      for (std::size_t t = 0; t < most_threads; ++t)
        if (bounded() && point.preemptions + cost(point, t) > preemptions_) left &= ~bit(t);
      if (left == 0) continue;
      point.chosen = static_cast<std::size_t>(__builtin_ctz(left));
      point.value = 0;
      point.values = 1;
      return true;
    }
    return false;
  }

 private:
  struct Point {
    std::size_t chosen;
    std::size_t before;  // the thread of the last operation
    Mask able;
    Mask backtrack;  // threads to try here
    Mask done;       // of them, those that were
    int preemptions;
    std::size_t value;
    std::size_t values;
  };

  bool bounded() const { return preemptions_ >= 0; }

  void add(Point point) {
    point.backtrack = reduces_ ? bit(point.chosen) : point.able;
    if (!points_.empty())
      point.preemptions = points_.back().preemptions + cost(points_.back(), points_.back().chosen);
    points_.push_back(point);
    ++states_;
  }
  /// 1 if it interrupts the thread that ran.
  static int cost(Point const& point, std::size_t thread) {
    return thread != point.before && has(point.able, point.before) ? 1 : 0;
  }
  static void try_at(Point& point, std::size_t thread) {
    point.backtrack |= has(point.able, thread) ? bit(thread) : point.able;
  }

  int const preemptions_;
  bool const reduces_;
  std::vector<Point> points_;
  std::size_t depth_ = 0;
  std::uint64_t states_ = 0;
};

}  // namespace nntile::test::model
