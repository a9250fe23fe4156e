#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Microbenchmarks of what is one's own, as records of the form of bench/: the cases of bench/submit
// and the patterns of bench/taskbench on a runtime or policy; the kernel of an op
// (bench_kernel.hh).

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/bench_kernel.hh"
#include "nntile/testing/records.hh"
#include "nntile/testing/taskbench/on_runtime.hh"
#include "nntile/testing/taskbench/sweep.hh"

namespace nntile::testing {

struct SubmitBenchOptions {
  int tasks = 20'000;  // of a run
  int runs = 21;
};

namespace detail {

/// Tasks of three distinct handles of 4,096, always the same. Source of the constants: Numerical
/// Recipes, 7.1.
struct SubmitProblem {
  static constexpr std::size_t handles = 4096;
  struct Triple {
    std::size_t a, b, c;
  };

  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(handles);
  std::vector<Triple> triples;

  explicit SubmitProblem(int tasks) {
    std::uint32_t state = 1;
    auto const draw = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<std::size_t>(state >> 20);
    };
    while (triples.size() < static_cast<std::size_t>(tasks)) {
      Triple const t{draw(), draw(), draw()};
      if (t.a != t.b && t.a != t.c && t.b != t.c) triples.push_back(t);
    }
  }

  static void update(std::uint64_t& c) { c = 5 * c + 1; }
  static void write(std::uint64_t a, std::uint64_t b, std::uint64_t& c) { c = 3 * a + b + 1; }
  std::vector<std::uint64_t> expected(std::string_view of) const {
    std::vector<std::uint64_t> v(handles);
    for (Triple const& t : triples) {
      if (of == "chain") update(v[0]);
      if (of == "three_handles") write(v[t.a], v[t.b], v[t.c]);
    }
    return v;
  }
};

inline Status bench_nothing(KernelCall const&) noexcept { return {}; }
inline Status bench_chain(KernelCall const& call) noexcept {
  SubmitProblem::update(*static_cast<std::uint64_t*>(call.buffers[0]));
  return {};
}
inline Status bench_three(KernelCall const& call) noexcept {
  auto* const* const v = reinterpret_cast<std::uint64_t* const*>(call.buffers);
  SubmitProblem::write(*v[0], *v[1], *v[2]);
  return {};
}
inline constexpr Codelet bench_empty{"empty", &bench_nothing, nullptr, nullptr};
inline constexpr Codelet bench_chained{"chain", &bench_chain, nullptr, nullptr};
inline constexpr Codelet bench_tripled{"three_handles", &bench_three, nullptr, nullptr};

template <Runtime R>
void submit_tasks(R& runtime, std::vector<typename R::Handle> const& handles,
                  SubmitProblem const& problem, std::string_view of, bool checked) {
  using U = Use<typename R::Handle>;
  using T = Task<typename R::Handle>;
  for (auto const& t : problem.triples) {
    if (of == "independent") {
      runtime.submit(T{&bench_empty, {}, {}, {}, {}});
    } else if (of == "chain") {
      U const uses[] = {{handles[0], Access::update}};
      runtime.submit(T{checked ? &bench_chained : &bench_empty, uses, {}, {}, {}});
    } else {
      U const uses[] = {{handles[t.a], Access::read},
                        {handles[t.b], Access::read},
                        {handles[t.c], Access::write}};
      runtime.submit(T{checked ? &bench_tripled : &bench_empty, uses, {}, {}, {}});
    }
  }
  runtime.wait_all();
}

}  // namespace detail

/// Nanoseconds a task, from submission to the end of all, of empty tasks: `independent` without
/// operands, `chain` of one buffer, `three_handles` that read two of 4,096 and write one. Each case
/// is checked once, with bodies whose order matters, before it is timed. Throws Error where that
/// finds a wrong result, ValueError without tasks or runs. Blocks: a second or two.
template <RequiredRuntime R>
std::vector<BenchRecord> bench_submit(R& runtime, std::string const& name,
                                      SubmitBenchOptions const& options = {}) {
  if (options.tasks < 1 || options.runs < 1)
    throw ValueError(
        concat("bench: ", options.tasks, " tasks in ", options.runs, " runs; 1 or more of each"));
  detail::SubmitProblem problem(options.tasks);
  detail::BenchBuffers const buffers(runtime, std::span(problem.values));
  auto const& handles = buffers.handles();
  std::vector<BenchRecord> records;
  for (char const* const of : {"independent", "chain", "three_handles"}) {
    std::fill(problem.values.begin(), problem.values.end(), 0);
    detail::submit_tasks(runtime, handles, problem, of, true);
    if (problem.values != problem.expected(of))
      throw Error(concat("bench: ", name, " broke an order of ", of,
                         "; run testing::conformance on it, which names the law"));
    std::vector<double> samples;
    for (int run = 0; run < options.runs; ++run) {
      auto const begin = std::chrono::steady_clock::now();
      detail::submit_tasks(runtime, handles, problem, of, false);
      std::chrono::duration<double, std::nano> const took =
          std::chrono::steady_clock::now() - begin;
      samples.push_back(took.count() / options.tasks);
    }
    records.push_back(bench_record("submit", of, name, "wall", "ns", samples));
  }
  return records;
}

struct PatternBenchOptions {
  int width = 64;     // tasks of a step
  int steps = 1'000;  // of a run
  int rounds = 5;     // each a sweep over the sizes of kernels
  std::vector<Pattern> patterns = all_patterns();
  SweepOptions sweep = {};
};

/// Task Bench: `ns_per_task` of empty tasks and `metg50_us`, the smallest task that is worth the
/// runtime, of each pattern and as geometric mean; the latter left out where no kernel reached half
/// of the peak. Tasks check their inputs in every run. Throws Error where one found a wrong one,
/// ValueError without rounds and for a grid that cannot be. Blocks: about a second for each hundred
/// nanoseconds that a task costs.
template <RequiredRuntime R>
std::vector<BenchRecord> bench_patterns(R& runtime, std::string const& name,
                                        PatternBenchOptions const& options = {}) {
  if (options.rounds < 1) throw ValueError(concat("bench: ", options.rounds, " rounds; 1 or more"));
  int const workers = runtime.workers().cpu;
  double const iteration = iteration_ns(workers);
  auto const rounds = static_cast<std::size_t>(options.rounds);
  std::vector<BenchRecord> records;
  std::vector<double> cost_logs(rounds), metg_logs(rounds);
  bool whole = !options.patterns.empty();
  auto const add = [&](std::string_view of, std::vector<double> costs, std::vector<double> metgs) {
    records.push_back(
        bench_record("taskbench", std::string(of), name, "ns_per_task", "ns", std::move(costs)));
    if (!metgs.empty())
      records.push_back(
          bench_record("taskbench", std::string(of), name, "metg50_us", "us", std::move(metgs)));
  };
  for (Pattern const pattern : options.patterns) {
    Grid grid(pattern, options.width, options.steps);
    GridOn<R> runner(runtime, grid);
    std::vector<double> costs, metgs;
    for (std::size_t round = 0; round < rounds; ++round) {
      Sweep const done = sweep(runner, grid, workers, iteration, options.sweep);
      costs.push_back(done.ns_per_task);
      cost_logs[round] += std::log(done.ns_per_task);
      auto const smallest = metg(done.points);
      if (!smallest) continue;
      metgs.push_back(*smallest * 1e-3);
      metg_logs[round] += std::log(*smallest * 1e-3);
    }
    whole = whole && metgs.size() == rounds;
    add(name_of(pattern), std::move(costs), std::move(metgs));
  }
  auto const means = [&](std::vector<double> logs) {
    for (double& each : logs) each = std::exp(each / static_cast<double>(options.patterns.size()));
    return logs;
  };
  if (!options.patterns.empty())
    add("geomean", means(cost_logs), whole ? means(metg_logs) : std::vector<double>());
  return records;
}

/// A line a record: "ring  three_handles  wall 158 ns (151 to 170)".
inline std::string to_string(std::vector<BenchRecord> const& records) {
  auto const figure = [](double value) {
    return value < 10 ? concat(std::round(value * 1000) / 1000) : concat(std::lround(value));
  };
  std::string text;
  for (BenchRecord const& r : records)
    text += concat(r.runtime, "  ", r.case_name, "  ", r.metric, " ", figure(r.value), " ", r.unit,
                   " (", figure(r.low), " to ", figure(r.high), ")\n");
  return text;
}

}  // namespace nntile::testing
