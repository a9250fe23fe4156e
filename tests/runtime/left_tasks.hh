#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Programs whose tasks workers of the ring leave to the submitter, for a reason of the ring's.

#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/runtime/codelets.hh"
#include "tests/support/catch.hh"

namespace nntile::test {

/// Tasks that the thread of its making has run, and others.
struct Runners {
  std::thread::id const driver = std::this_thread::get_id();
  std::atomic<int> own{0}, others{0};
};
inline constexpr Codelet count_runner_codelet{
    "count", [](KernelCall const& call) noexcept -> Status {
      Runners& runners = **static_cast<Runners* const*>(call.arguments);
      ++(std::this_thread::get_id() == runners.driver ? runners.own : runners.others);
      return {};
    }};
template <class Ring> void submit_count(Ring& ring, Runners& runners) {
  Runners* const at = &runners;
  ring.submit({&count_runner_codelet, {}, std::as_bytes(std::span(&at, 1)), {}, {}});
}

/// Steps on five cells are run in order, by two workers and by three; from `hinted` on every third
/// round of them names every worker, or any, and every priority in turn.
template <class Ring> void check_order(int rounds, int hinted) {
  for (int const workers : {2, 3}) {
    Ring ring({workers, false, false});
    std::vector<DataHandle> cells;
    for (int c = 0; c < 5; ++c) cells.push_back(cell(ring, 0));
    long expected = 0;
    for (int i = 0; i < rounds; ++i) {
      for (DataHandle const target : cells) {
        Use<DataHandle> const uses[] = {{target, Access::update}};
        long const value = i;
        Hints const hints = i >= hinted && i % 3 == 0 ? Hints{i % 4 - 1, i % 8 - 2} : Hints{};
        ring.submit({&step_codelet, uses, std::as_bytes(std::span(&value, 1)), hints, {}});
      }
      if (i % 1000 == 0) ring.wait_all();
      expected = affine(expected, 3, i);
    }
    for (DataHandle const target : cells) REQUIRE(read(ring, target) == expected);
  }
}

/// Bodies that submit 40 steps on a cell, each between `before` and `after` times as many from
/// outside, are run in order; between rounds behind() is called.
template <class Ring, class Behind>
void check_nesting(Ring& ring, int rounds, int before, int after, Behind behind) {
  std::vector<DataHandle> cells;
  for (int c = 0; c < 8; ++c) cells.push_back(cell(ring, 1));
  auto const steps = [](auto& to, DataHandle target) {
    for (long i = 0; i < 40; ++i) submit(to, step_codelet, {{target, Access::update}}, i);
  };
  long expected = 1;
  for (int round = 0; round < rounds; ++round) {
    for (DataHandle const target : cells) {
      Use<DataHandle> const use{target, Access::update};
      for (int i = 0; i < before; ++i) steps(ring, target);
      ring.orchestrate([=](auto& nested) { steps(nested, target); }, use);
      for (int i = 0; i < after; ++i) steps(ring, target);
    }
    behind();
    for (int of = 0; of < before + 1 + after; ++of)
      for (long i = 0; i < 40; ++i) expected = affine(expected, 3, i);
  }
  for (DataHandle const target : cells) REQUIRE(read(ring, target) == expected);
}

}  // namespace nntile::test
