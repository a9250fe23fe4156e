#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The problem of bench/submit, and how a program that solves it answers.
//
// usage of each: submit_NAME WORKERS. A line "CASE SAMPLES" is answered by a line of as many pairs:
// nanoseconds a task on the wall, and of CPU time. "wrong" answers a run that broke a dependence.
// Where a runtime is ours, "latency 1" is answered by the fields of submit_latency.hh.

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace submit_bench {

constexpr int tasks = 20'000;
constexpr int handles = 4096;

/// Two operands that a task reads, and one that it writes; all distinct.
struct Triple {
  int a, b, c;
};

/// 20,000 of them, always the same. Source of the constants: Numerical Recipes, 7.1.
inline std::vector<Triple> triples() {
  std::vector<Triple> result;
  std::uint32_t state = 1;
  auto const draw = [&] {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>(state >> 20);
  };
  while (result.size() < tasks) {
    Triple const t{draw(), draw(), draw()};
    if (t.a != t.b && t.a != t.c && t.b != t.c) result.push_back(t);
  }
  return result;
}

/// independent: no operand; chain: each updates the first handle; three_handles: triples.
enum class Case { independent, chain, three_handles };
constexpr char const* case_names[] = {"independent", "chain", "three_handles"};
constexpr Triple chain_triple{0, 0, 0};

/// The data of the handles. Where a run is checked, each task changes them such that order matters;
/// where it is timed, tasks are empty.
struct Values {
  std::array<std::uint64_t, handles> of{};
  std::atomic<std::uint64_t> count{0};

  void compute(Case which, Triple t) {
    if (which == Case::chain) update(of[index(t.c)]);
    if (which == Case::three_handles) write(of[index(t.a)], of[index(t.b)], of[index(t.c)]);
  }
  static void update(std::uint64_t& c) { c = 5 * c + 1; }
  static void write(std::uint64_t a, std::uint64_t b, std::uint64_t& c) { c = 3 * a + b + 1; }
  static std::size_t index(int handle) { return static_cast<std::size_t>(handle); }
};
static_assert(sizeof(Triple) == 12);

/// Whether the values are those of a sequential execution.
inline bool right(Case which, Values const& values) {
  Values expected;
  for (Triple const& t : triples()) {
    ++expected.count;
    expected.compute(which, which == Case::chain ? chain_triple : t);
  }
  return expected.of == values.of && expected.count == values.count;
}

inline double wall() {
  using namespace std::chrono;
  return duration<double, std::nano>(steady_clock::now().time_since_epoch()).count();
}
inline double cpu() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// Answers standard input. `Rival` is made of (workers, values); check(case) runs all tasks with
/// bodies that change the values; run(case) submits all with empty bodies, waits for all, and is
/// what is timed; prepare(case) comes before each run.
template <class Rival> int serve(int argc, char** argv) {
  Values values;
  Rival rival(argc > 1 ? std::atoi(argv[1]) : 1, values);
  char line[64], name[32];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    int samples = 0, which = -1;
    if (std::sscanf(line, "%31s %d", name, &samples) != 2) return 1;
    for (int i = 0; i < 3; ++i)
      if (std::strcmp(name, case_names[i]) == 0) which = i;
    if constexpr (requires { rival.latency(); })
      if (std::strcmp(name, "latency") == 0) {
        rival.latency();
        continue;
      }
    if (which < 0) return 1;
    auto const of = static_cast<Case>(which);
    values.of.fill(0);
    values.count = 0;
    rival.check(of);
    if (!right(of, values)) {
      std::puts("wrong");
      std::fflush(stdout);
      continue;
    }
    for (int sample = -1; sample < samples; ++sample) {  // the first is a warm-up
      rival.prepare(of);
      double const wall_begin = wall(), cpu_begin = cpu();
      rival.run(of);
      double const cpu_end = cpu(), wall_end = wall();
      if (sample >= 0)
        std::printf("%.2f %.2f ", (wall_end - wall_begin) / tasks, (cpu_end - cpu_begin) / tasks);
    }
    std::puts("");
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace submit_bench
