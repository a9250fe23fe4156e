#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a task costs on a runtime of one's own: the cases of bench/submit, as records of the same
// form.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/runtime/concept.hh"

namespace nntile::testing {

/// One figure. `low` and `high` are the 5th and 95th percentile of `runs` runs, `value` the median.
struct BenchRecord {
  std::string bench, case_name, runtime, metric;
  double value = 0;
  std::string unit;
  double low = 0, high = 0;
  int runs = 0;
};

struct SubmitBenchOptions {
  int tasks = 20'000;  // of a run
  int runs = 21;
};

namespace detail {

/// Tasks of three distinct handles of 64, always the same. Source of the constants: Numerical
/// Recipes, 7.1.
struct SubmitProblem {
  static constexpr std::size_t handles = 64;
  struct Triple {
    std::size_t a, b, c;
  };

  std::vector<std::uint64_t> values = std::vector<std::uint64_t>(handles);
  std::vector<Triple> triples;

  explicit SubmitProblem(int tasks) {
    std::uint32_t state = 1;
    auto const draw = [&] {
      state = state * 1664525u + 1013904223u;
      return static_cast<std::size_t>(state >> 26);
    };
    while (triples.size() < static_cast<std::size_t>(tasks)) {
      Triple const t{draw(), draw(), draw()};
      if (t.a != t.b && t.a != t.c && t.b != t.c) triples.push_back(t);
    }
  }

  static void update(std::uint64_t a, std::uint64_t b, std::uint64_t& c) { c = 5 * c + 3 * a + b; }
  std::vector<std::uint64_t> expected(std::string_view of) const {
    std::vector<std::uint64_t> v(handles);
    for (Triple const& t : triples) {
      if (of == "chain") update(v[0], v[0], v[0]);
      if (of == "three_handles") update(v[t.a], v[t.b], v[t.c]);
    }
    return v;
  }
};

inline Status bench_nothing(KernelCall const&) noexcept { return {}; }
inline Status bench_chain(KernelCall const& call) noexcept {
  auto& v = *static_cast<std::uint64_t*>(call.buffers[0]);
  SubmitProblem::update(v, v, v);
  return {};
}
inline Status bench_three(KernelCall const& call) noexcept {
  auto* const* const v = reinterpret_cast<std::uint64_t* const*>(call.buffers);
  SubmitProblem::update(*v[0], *v[1], *v[2]);
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
                        {handles[t.c], Access::update}};
      runtime.submit(T{checked ? &bench_tripled : &bench_empty, uses, {}, {}, {}});
    }
  }
  runtime.wait_all();
}

}  // namespace detail

/// Nanoseconds a task, from submission to the end of all, of empty tasks: `independent` without
/// operands, `chain` of one buffer, `three_handles` of three of 64. Each case is checked once, with
/// bodies whose order matters, before it is timed. Throws Error where that finds a wrong result.
/// Blocks: a second or two.
template <Runtime R>
std::vector<BenchRecord> bench_submit(R& runtime, std::string const& name,
                                      SubmitBenchOptions const& options = {}) {
  detail::SubmitProblem problem(options.tasks);
  std::vector<typename R::Handle> handles;
  for (auto& value : problem.values)
    handles.push_back(runtime.adopt(std::as_writable_bytes(std::span(&value, 1))));
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
    std::sort(samples.begin(), samples.end());
    auto const at = [&](double share) {
      return samples[static_cast<std::size_t>(share * static_cast<double>(samples.size() - 1) +
                                              0.5)];
    };
    records.push_back(
        {"submit", of, name, "wall", at(0.5), "ns", at(0.05), at(0.95), options.runs});
  }
  for (auto const& handle : handles) runtime.retire(handle);
  runtime.wait_all();
  return records;
}

/// A line a record: "ring  three_handles  158 ns (151 to 170)".
inline std::string to_string(std::vector<BenchRecord> const& records) {
  std::string text;
  for (BenchRecord const& r : records)
    text += concat(r.runtime, "  ", r.case_name, "  ", static_cast<long>(r.value + 0.5), " ",
                   r.unit, " (", static_cast<long>(r.low + 0.5), " to ",
                   static_cast<long>(r.high + 0.5), ")\n");
  return text;
}

}  // namespace nntile::testing
