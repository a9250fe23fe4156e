#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The broken runtime with replay: a program is a list of tasks, submitted one by one.

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/testing/broken.hh"

namespace nntile::test {

/// Replays as the law says, but for its defect.
class BrokenReplay : public Broken {
 public:
  struct Program {
    struct One {
      Codelet const* codelet;
      std::vector<Use<Binding>> uses;
      std::vector<std::byte> arguments;
    };
    std::vector<One> tasks;
    std::vector<ProgramParameter> parameters;
  };

  using Broken::Broken;

  Program record(std::span<ProgramTask const> tasks, std::uint32_t,
                 std::span<ProgramParameter const> parameters) {
    Program program;
    for (ProgramTask const& task : tasks)
      program.tasks.push_back({task.codelet,
                               {task.uses.begin(), task.uses.end()},
                               {task.arguments.begin(), task.arguments.end()}});
    program.parameters.assign(parameters.begin(), parameters.end());
    return program;
  }

  Event replay(Program const& program, std::span<Handle const> bindings,
               std::span<std::byte const> block) {
    check_bindings(program, bindings);
    if (first_block_.empty()) first_block_.assign(block.begin(), block.end());
    if (is(Defect::keeps_first_parameters)) block = first_block_;
    std::vector<Program::One> tasks = program.tasks;
    for (ProgramParameter const& parameter : program.parameters)
      std::memcpy(&tasks[parameter.task].arguments[parameter.argument_offset],
                  &block[parameter.parameter_offset], parameter.bytes);
    std::vector<Event> events;
    replaying_ = true;
    if (is(Defect::replays_retired_handles) && bindings.size() == 1) return {};
    for (auto const& task : tasks) {
      std::vector<Use<Handle>> uses;
      for (Use<Binding> const& use : task.uses) uses.push_back({bindings[use.handle], use.access});
      events.push_back(submit({task.codelet, uses, task.arguments, {}, {}}));
      if (is(Defect::replays_first_task_only)) break;
    }
    replaying_ = false;
    replays_.push_back(std::move(events));
    return {&replays_, replays_.size()};
  }

  void wait(Event event) {
    if (event.runtime != &replays_) return Broken::wait(event);
    for (Event const one : replays_[event.sequence - 1]) {
      try {
        Broken::wait(one);
      } catch (TaskError const&) {
        if (!is(Defect::replay_succeeds_always)) throw;
      }
    }
  }
  void wait_all() {
    try {
      Broken::wait_all();
    } catch (TaskError const& error) {
      if (replays_.empty() || !is(Defect::counts_replays_once)) throw;
      std::string const text = error.what();
      throw TaskError(text.substr(0, text.find("; ")), error.sequence(), error.cancelled());
    }
  }
  bool done(Event event) {
    if (event.runtime != &replays_) return Broken::done(event);
    auto const& events = replays_[event.sequence - 1];
    if (is(Defect::replay_ends_with_its_last_task))
      return events.empty() || Broken::done(events.back());
    for (Event const one : events)
      if (!Broken::done(one)) return false;
    return true;
  }

 private:
  void check_bindings(Program const& program, std::span<Handle const> bindings) {
    for (Handle const handle : bindings) check_handle(handle);
    std::vector<bool> seen(bindings.size(), false);  // by binding: named by an earlier task
    for (auto const& task : program.tasks) {
      for (Use<Binding> const& use : task.uses)
        if (!seen[use.handle] && reads(use.access) && !is_written(bindings[use.handle]))
          throw LifetimeError("broken: a replay reads an unwritten buffer");
      for (Use<Binding> const& use : task.uses) seen[use.handle] = true;
    }
    for (std::size_t i = 0; i < bindings.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (bindings[i].number == bindings[j].number && !is(Defect::accepts_aliases))
          throw ValueError("broken: two bindings are one buffer");
  }

  std::vector<std::vector<Event>> replays_;
  std::vector<std::byte> first_block_;
};
static_assert(ReplayingRuntime<BrokenReplay>);

}  // namespace nntile::test
