// SPDX-License-Identifier: BSD-3-Clause
// What an inferred dependence costs: tasks are submitted behind one that is held back, so that
// every edge is made, then released. Readers of many writers, updates of many buffers, and writers
// that follow many readers.

#include <algorithm>
#include <atomic>

#include "bench/clock.hh"
#include "bench/harness.hh"
#include "nntile/runtime/ring/ring.hh"

namespace {

using namespace nntile;
using Samples = std::vector<double>;

constexpr int buffers = 32;
/// Tasks of a run, and operands of them all: stand-ins for lists of readers included they must fit
/// into a ring's window, since none ends before all are submitted.
constexpr int most_tasks = 1024, most_operands = 8192;

/// What a task expects in the buffers that it reads, and adds to those that it updates.
struct Arguments {
  std::uint64_t expected;
  int reads, updates;
};

/// Reads come first. A buffer that has not what is expected is a failure.
Status touch(KernelCall const& call) noexcept {
  auto const& task = *static_cast<Arguments const*>(call.arguments);
  auto const value = [&](int i) -> std::uint64_t& {
    return *static_cast<std::uint64_t*>(call.buffers[i]);
  };
  for (int i = 0; i < task.reads + task.updates; ++i)
    if (value(i) != task.expected) return {"an order was broken"};
  for (int i = task.reads; i < task.reads + task.updates; ++i) ++value(i);
  return {};
}
constexpr Codelet touching{"touch", touch, nullptr, nullptr};

/// The token of the task that all others wait for.
struct Held {
  Completion token;
  std::atomic<bool> started{false};
};
Status hold(KernelCall const& call, Completion token) noexcept {
  Held& held = **static_cast<Held* const*>(call.arguments);
  held.token = token;
  held.started.store(true, std::memory_order_release);
  return {};
}
constexpr Codelet holding{"hold", nullptr, nullptr, hold};

struct Case {
  char const* name;
  int degree;  // buffers of a task, or readers before a writer
};
constexpr Case cases[] = {{"read", 1},
                          {"read", 2},
                          {"read", 4},
                          {"read", 8},
                          {"read", 16},
                          {"read", 32},
                          {"update", 1},
                          {"update", 2},
                          {"update", 4},
                          {"update", 8},
                          {"update", 16},
                          {"update", 32},
                          {"write_after_read", 1},
                          {"write_after_read", 4},
                          {"write_after_read", 16},
                          {"write_after_read", 64},
                          {"write_after_read", 256}};

/// Nanoseconds of a run's submission, and from its release to its end; its tasks and edges.
struct Taken {
  double submission, execution, tasks, edges;
};

class Bench {
 public:
  explicit Bench(int workers) : ring_({.workers = workers}) {
    for (Value& each : values_)
      handles_.push_back(ring_.adopt(std::as_writable_bytes(std::span(&each.of, 1))));
  }

  Taken run(Case const& of) {
    for (Value& each : values_) each.of = 0;
    std::vector<Use<Ring::Handle>> all;
    for (auto const handle : handles_) all.push_back({handle, Access::update});
    held_.started = false;
    Held* const held = &held_;
    Event const event = ring_.submit({&holding, all, std::as_bytes(std::span(&held, 1)), {}, {}});
    while (!held_.started.load(std::memory_order_acquire)) (void)ring_.done(event);
    for (int b = 0; b < buffers; ++b) submit(b, 0, 1, 0);
    Taken taken{};
    double const begin = bench::seconds();
    if (std::string_view(of.name) == "write_after_read")
      write_after(of.degree, taken);
    else
      use_many(of, taken);
    double const middle = bench::seconds();
    held_.token.complete();
    ring_.wait_all();
    taken.submission = (middle - begin) * 1e9;
    taken.execution = (bench::seconds() - middle) * 1e9;
    return taken;
  }

 private:
  struct alignas(64) Value {
    std::uint64_t of = 0;
  };

  /// Submits a task that reads `reads` buffers from `first` on and updates the `updates` next.
  Event submit(int first, int reads, int updates, std::uint64_t expected) {
    Use<Ring::Handle> uses[buffers];
    for (int i = 0; i < reads + updates; ++i)
      uses[i] = {handles_[static_cast<std::size_t>((first + i) % buffers)],
                 i < reads ? Access::read : Access::update};
    Arguments const arguments{expected, reads, updates};
    return ring_.submit({&touching,
                         std::span(uses, static_cast<std::size_t>(reads + updates)),
                         std::as_bytes(std::span(&arguments, 1)),
                         {},
                         {}});
  }
  /// Each reader waits for as many writers as it has buffers; each update for the update before it.
  void use_many(Case const& of, Taken& taken) {
    bool const read = std::string_view(of.name) == "read";
    int const tasks = std::min(most_tasks, most_operands / of.degree);
    for (int i = 0; i < tasks; ++i)
      submit(0, read ? of.degree : 0, read ? 0 : of.degree,
             read ? 1 : 1 + static_cast<std::uint64_t>(i));
    taken.tasks = tasks;
    taken.edges = 1.0 * tasks * of.degree;  // of an update: operands
  }
  /// Submits `readers` readers of one buffer and a writer, again and again.
  void write_after(int readers, Taken& taken) {
    std::uint64_t written = 1;
    for (int i = 0; i + readers < most_tasks; i += readers + 1, ++written) {
      for (int r = 0; r < readers; ++r) submit(0, 1, 0, written);
      submit(0, 0, 1, written);
      taken.tasks += readers + 1;
      taken.edges += 2 * readers;
    }
  }

  std::vector<Value> values_ = std::vector<Value>(buffers);
  std::vector<Ring::Handle> handles_;
  Held held_;
  Ring ring_;
};

/// Each case by the task; and between the least and the most degree of a kind, by the edge.
void report(bench::Records& records, char const* runtime,
            std::vector<std::vector<Taken>> const& all, double ghz) {
  using Part = double Taken::*;
  struct Phase {
    char const* by_task;
    char const* by_edge;
    Part part;
  };
  for (Phase const& phase :
       {Phase{"submission_ns_per_task", "submission_cycles_per_edge", &Taken::submission},
        Phase{"execution_ns_per_task", "execution_cycles_per_edge", &Taken::execution}}) {
    std::size_t least = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (std::string_view(cases[i].name) != cases[least].name) least = i;
      Samples by_task, by_edge;
      for (std::size_t round = 0; round < all[i].size(); ++round) {
        Taken const &low = all[least][round], &high = all[i][round];
        by_task.push_back(high.*phase.part / high.tasks);
        by_edge.push_back(ghz * (high.*phase.part / high.tasks - low.*phase.part / low.tasks) /
                          (high.edges / high.tasks - low.edges / low.tasks));
      }
      records.add(concat(cases[i].name, "_", cases[i].degree), runtime, phase.by_task, "ns",
                  by_task);
      if (i + 1 == all.size() || std::string_view(cases[i + 1].name) != cases[i].name)
        records.add(cases[i].name, runtime, phase.by_edge, "cycles", by_edge);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Records records(
      "dependency",
      bench::parse(
          argc, argv,
          "Cost of inferred dependences on the ring: 1,024 tasks or fewer behind one that is held "
          "back, so that each edge is made. read_K: a task reads K buffers of different "
          "waiting writers. update_K: it updates K buffers of the task before, one edge. "
          "write_after_read_K: a writer follows K readers, 2 K edges. Submission: until "
          "all are submitted; execution: from the release to the last end. ring_1: one "
          "worker. *_cycles: by the edge (update: by the operand), what is constant in a "
          "task left out."));
  int const rounds = records.options().quick ? 11 : 101;
  double const ghz = bench::core_ghz();
  for (int const workers : {1, 2}) {
    char const* const runtime = workers == 1 ? "ring_1" : "ring";
    Bench bench(workers);
    std::vector<std::vector<Taken>> all(std::size(cases));
    for (int round = -1; round < rounds; ++round)
      for (std::size_t i = 0; i < std::size(cases); ++i)
        if (Taken const taken = bench.run(cases[i]); round >= 0) all[i].push_back(taken);
    report(records, runtime, all, ghz);
  }
  return 0;
}
