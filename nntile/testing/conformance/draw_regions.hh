#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Random programs over regions, drawn from a seed.

#include <optional>
#include <vector>

#include "nntile/testing/conformance/region_program.hh"

namespace nntile::testing {

/// The mixture of a program, in percent.
struct RegionShape {
  std::size_t buffers = 2;
  std::size_t bytes = 240;
  std::size_t regions = 12;  // a buffer
  int tasks = 80;
  int failing = 0;
  int late = 0;
  int accumulating = 6;
  int reordered = 6;  // operands that write disjoint bytes, or are in no order
  int unwritten = 0;
};

/// Regions of a matrix of 12 rows of 20 bytes and of a table of other strides, and some at random.
inline Region draw_region(Random& random, std::size_t bytes) {
  for (;;) {
    Region region;
    std::uint32_t const kind = random.below(10);
    if (kind < 5) {  // a box of the matrix
      std::size_t const row = random.below(20), column = random.below(12);
      std::size_t const rows = 1 + random.below(20 - row), columns = 1 + random.below(12 - column);
      region = {row + 20 * column, rows, {{columns, 20}}};
    } else if (kind < 7) {  // every n-th of a box of three dimensions
      region.offset = random.below(24);
      region.bytes = 1 + random.below(4);
      for (std::size_t const stride : {6u, 30u, 60u})
        region.steps.push_back({1 + random.below(stride == 30 ? 2 : 3), stride});
    } else if (kind < 9) {
      region = {random.below(bytes), random.below(40), {}};
    } else {
      region.offset = random.below(60);
      region.bytes = 1 + random.below(9);
      std::size_t const count = 1 + random.below(9);
      region.steps.push_back({count, random.below(25)});
    }
    if (region.offset + span_of(region) <= bytes) return normalize(region);
  }
}

/// One program on one runtime that has a scope of Lifetime::step open: tasks, and steps that lock,
/// retire and name again.
class RegionRun {
 public:
  RegionRun(Subject& runtime, std::uint64_t seed, RegionShape const& shape)
      : calls_(runtime), random_(seed), shape_(shape) {
    for (std::size_t b = 0; b < shape.buffers; ++b) {
      (void)calls_.add_buffer(shape.bytes);
      regions_.emplace_back();
      names_.emplace_back();
      for (std::size_t r = 0; r < shape.regions; ++r) {
        regions_[b].push_back(draw_region(random_, shape.bytes));
        names_[b].push_back(std::nullopt);
      }
    }
  }

  void run() {
    for (int t = 0; t < shape_.tasks; ++t) {
      if (random_.chance(12))
        other();
      else
        submit();
    }
    calls_.wait_all();
    for (std::size_t b = 0; b < shape_.buffers; ++b) {
      calls_.compare(b);
      for (std::size_t r = 0; r < regions_[b].size(); ++r)
        calls_.compare({b, regions_[b][r]}, handle_of(b, r));
    }
  }

 private:
  using Handle = RegionCalls::Handle;

  Handle handle_of(std::size_t b, std::size_t number) {
    auto& name = names_[b][number];
    if (!name || random_.chance(10)) name = calls_.region({b, regions_[b][number]});
    return *name;
  }

  Access draw_access() {
    if (random_.chance(shape_.accumulating)) return Access::accumulate;
    if (random_.chance(shape_.reordered))
      return random_.chance(80) ? Access::write_disjoint : Access::unordered;
    std::uint32_t const x = random_.below(100);
    return x < 45 ? Access::read : x < 75 ? Access::write : Access::update;
  }

  void submit() {
    RegionTask task;
    task.salt = random_.bits();
    task.fails = random_.chance(shape_.failing);
    task.pauses = static_cast<std::uint8_t>(random_.below(4));
    task.part = static_cast<std::uint8_t>(random_.below(disjoint_parts));
    std::size_t const count = 1 + random_.below(most_named);
    bool const refused = random_.chance(shape_.unwritten);
    std::vector<Named> named;
    std::vector<Handle> handles;
    for (std::size_t i = 0; i < count; ++i) {
      std::size_t const b = random_.below(shape_.buffers);
      std::size_t const r = random_.below(regions_[b].size() + 1);
      bool const whole = r == regions_[b].size();
      named.push_back(whole ? calls_.whole(b) : Named{b, regions_[b][r]});
      handles.push_back(whole ? calls_.handle(b) : handle_of(b, r));
      Access& access = task.operands[i].access;
      access = draw_access();
      bool const fills = access >= Access::write_disjoint;
      if ((fills || !refused) && calls_.model().any_unwritten(named.back())) access = Access::write;
    }
    keep_lawful(task, named);
    auto const submitted = calls_.submit(task, named, handles, random_.chance(shape_.late));
    if (random_.chance(5)) calls_.wait(submitted);
  }

  /// Turns into updates what writes bytes disjointly that another task of the group writes, or the
  /// task itself names in another way; and what accumulates beside a write of one buffer, since the
  /// law leaves open what both do to a mark.
  void keep_lawful(RegionTask& task, std::vector<Named> const& named) {
    for (std::size_t pass = 0; pass < named.size(); ++pass)  // an update forbids others
      for (std::size_t i = 0; i < named.size(); ++i) {
        Access& access = task.operands[i].access;
        if (access != Access::write_disjoint) continue;
        bool alone = !calls_.model().any_taken(named[i], task.part);
        for (std::size_t j = 0; j < named.size(); ++j)
          alone &= named[j].buffer != named[i].buffer || task.operands[j].access == access;
        if (!alone) access = Access::update;
      }
    for (std::size_t i = 0; i < named.size(); ++i)
      for (std::size_t j = 0; j < named.size(); ++j)
        if (task.operands[i].access == Access::accumulate &&
            task.operands[j].access == Access::write && named[i].buffer == named[j].buffer)
          task.operands[j].access = Access::update;
  }

  void other() {
    std::size_t const b = random_.below(shape_.buffers), r = random_.below(regions_[b].size());
    Named const named{b, regions_[b][r]};
    std::uint32_t const x = random_.below(100);
    if (x < 30) {
      calls_.lock(named, handle_of(b, r));
    } else if (x < 60) {
      if (names_[b][r]) calls_.runtime().retire(handle_of(b, r));
      // The same region may be in the list twice.
      for (std::size_t other = 0; other < regions_[b].size(); ++other)
        if (regions_[b][other] == regions_[b][r]) names_[b][other] = std::nullopt;
    } else if (x < 75) {
      calls_.renew(b);
      for (auto& name : names_[b]) name = std::nullopt;
    } else if (x < 85) {
      calls_.compare(named, handle_of(b, r));
    } else {
      calls_.wait_all();
    }
  }

  RegionCalls calls_;
  Random random_;
  RegionShape const shape_;
  std::vector<std::vector<Region>> regions_;
  std::vector<std::vector<std::optional<Handle>>> names_;
};

}  // namespace nntile::testing
