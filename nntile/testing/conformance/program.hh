#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Programs: lists of what a driver may do to a runtime, drawn from a seed.

#include <string>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/conformance/tasks.hh"

namespace nntile::testing {

/// One call of the driver.
struct Step {
  enum class Kind : std::uint8_t { task, renew, lock, wait, wait_all, replay };
  Kind kind = Kind::task;
  // a task
  std::vector<Use<Binding>> operands;
  std::uint64_t salt = 0;
  Finish finish = Finish::returns;
  bool fails = false;
  std::uint8_t pauses = 0;
  std::uint8_t part = 0;  // that it writes, where it writes disjoint bytes
  Hints hints{};
  // all other steps
  std::uint32_t buffer = 0;      // renew: retire and allocate again; lock
  Access access = Access::read;  // lock
  std::uint32_t step = 0;        // wait: for the task or replay of that step
  // a replay: task i has the salt mix(salt, i), and task `failing` fails
  std::uint32_t recording = 0;
  std::vector<std::uint32_t> bindings;  // positions of buffers
  int failing = -1;
};

/// A program to replay. The operands of its tasks are positions in the table of bindings.
struct Recording {
  std::uint32_t bindings = 0;
  std::vector<Step> tasks;

  /// Whether a task reads what the binding holds before the replay.
  bool needs(std::uint32_t binding) const {
    for (Step const& task : tasks) {
      bool named = false;
      for (Use<Binding> const& operand : task.operands) {
        if (operand.handle != binding) continue;
        if (reads(operand.access)) return true;
        named = true;
      }
      if (named) return false;
    }
    return false;
  }
  bool writes_to(std::uint32_t binding) const {
    for (Step const& task : tasks)
      for (Use<Binding> const& operand : task.operands)
        if (operand.handle == binding && writes(operand.access)) return true;
    return false;
  }
  bool uses(std::uint32_t binding) const { return needs(binding) || writes_to(binding); }
};

/// Position i in `words` is a buffer of that many 64-bit words; every second one is adopted memory.
struct Program {
  std::uint64_t seed = 0;
  std::vector<std::uint32_t> words;
  std::vector<Step> steps;
  std::vector<Recording> recordings;

  static bool adopted(std::uint32_t buffer) { return buffer % 2 == 1; }
};

/// "task 12 (read 3, update 5)".
inline std::string to_string(Step const& step, std::size_t number) {
  switch (step.kind) {
    case Step::Kind::renew:
      return concat("step ", number, " retires and renews ", step.buffer);
    case Step::Kind::lock:
      return concat("step ", number, " locks ", step.buffer, " to ", name_of(step.access));
    case Step::Kind::wait:
      return concat("step ", number, " waits for step ", step.step);
    case Step::Kind::wait_all:
      return concat("step ", number, " waits for all");
    case Step::Kind::replay: {
      std::string text = concat("step ", number, " replays program ", step.recording, " on (");
      for (std::size_t i = 0; i < step.bindings.size(); ++i)
        text += concat(i == 0 ? "" : ", ", step.bindings[i]);
      return text + (step.failing < 0 ? ")" : concat("), task ", step.failing, " failing"));
    }
    case Step::Kind::task:
      break;
  }
  constexpr char const* finishes[] = {"",         ", completed early",      ", completed outside",
                                      ", polled", ", polled by the driver", ", token void"};
  std::string text = concat("step ", number, " is a task (");
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    text +=
        concat(i == 0 ? "" : ", ", name_of(step.operands[i].access), " ", step.operands[i].handle);
  return text + finishes[static_cast<int>(step.finish)] + (step.fails ? ", failing)" : ")");
}

/// The last steps before `end` that touch a buffer, for the report of a failure.
inline std::string history(Program const& program, std::uint32_t buffer, std::size_t end) {
  std::vector<std::size_t> touching;
  for (std::size_t s = 0; s < std::min(end, program.steps.size()); ++s) {
    Step const& step = program.steps[s];
    bool touches =
        (step.kind == Step::Kind::renew || step.kind == Step::Kind::lock) && step.buffer == buffer;
    for (Use<Binding> const& operand : step.operands) touches |= operand.handle == buffer;
    for (std::uint32_t const bound : step.bindings) touches |= bound == buffer;
    if (touches) touching.push_back(s);
  }
  std::string text;
  for (std::size_t i = touching.size() > 6 ? touching.size() - 6 : 0; i < touching.size(); ++i)
    text += concat("; ", to_string(program.steps[touching[i]], touching[i]));
  return text;
}

}  // namespace nntile::testing
