#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Programs: lists of what a driver may do to a runtime, drawn from a seed.

#include <string>
#include <vector>

#include "nntile/runtime/concept.hh"
#include "nntile/testing/conformance/tasks.hh"

namespace nntile::testing {

struct Operand {
  std::uint32_t buffer;
  Access access;
};

/// One call of the driver.
struct Step {
  enum class Kind : std::uint8_t { task, renew, lock, wait, wait_all };
  Kind kind = Kind::task;
  // a task
  std::vector<Operand> operands;
  std::uint64_t salt = 0;
  Finish finish = Finish::returns;
  bool fails = false;
  std::uint8_t pauses = 0;
  Hints hints{};
  // everyone else
  std::uint32_t buffer = 0;      // renew: retire and allocate again; lock
  Access access = Access::read;  // lock
  std::uint32_t step = 0;        // wait: for the task of that step
};

/// Position i in `words` is a buffer of that many 64-bit words; every second one is adopted memory.
struct Program {
  std::uint64_t seed = 0;
  std::vector<std::uint32_t> words;
  std::vector<Step> steps;

  static bool adopted(std::uint32_t buffer) { return buffer % 2 == 1; }
};

/// What programs are made of, in percent of the steps or tasks.
struct ProgramShape {
  int buffers = 10;
  int steps = 250;
  int max_operands = 5;
  int failing = 0;
  int late = 10;      // asynchronous tasks
  int other = 8;      // renew, lock, wait, wait_all
  int unwritten = 0;  // tasks that read what nobody wrote, and so are refused
};

namespace detail {

inline Access draw_access(Random& random) {
  std::uint32_t const x = random.below(100);
  return x < 45   ? Access::read
         : x < 68 ? Access::write
         : x < 94 ? Access::update
                  : Access::accumulate;
}

inline void draw_task(Random& random, ProgramShape const& shape, Step& step) {
  std::size_t const count = 1 + random.below(static_cast<std::size_t>(shape.max_operands));
  for (std::size_t i = 0; i < count; ++i)
    step.operands.push_back(
        {random.below(static_cast<std::size_t>(shape.buffers)), draw_access(random)});
  step.salt = random.bits();
  step.fails = random.chance(shape.failing);
  if (random.chance(shape.late))
    step.finish = static_cast<Finish>(1 + random.below(step.fails ? 5 : 4));
  step.pauses = static_cast<std::uint8_t>(random.chance(20) ? random.below(8) : 0);
  // Hints are wishes: neither odd workers nor odd priorities may do harm.
  step.hints = {static_cast<int>(random.below(12)) - 2, static_cast<int>(random.below(5)) - 2};
}

/// What a mixture of write and accumulate on one buffer means for a mark is nobody's business.
inline void calm_repeated(Step& step) {
  for (Operand& operand : step.operands)
    for (Operand const& other : step.operands)
      if (&other != &operand && other.buffer == operand.buffer &&
          operand.access == Access::accumulate)
        operand.access = Access::update;
}

inline void draw_other(Random& random, ProgramShape const& shape, std::uint32_t tasks_so_far,
                       std::vector<std::uint32_t> const& task_steps, Step& step) {
  std::uint32_t const x = random.below(100);
  step.buffer = random.below(static_cast<std::size_t>(shape.buffers));
  if (x < 40) {
    step.kind = Step::Kind::renew;
  } else if (x < 65) {
    step.kind = Step::Kind::lock;
    step.access = x < 50 ? Access::read : x < 57 ? Access::write : Access::update;
    step.salt = random.bits();
  } else if (x < 92 && tasks_so_far > 0) {
    step.kind = Step::Kind::wait;
    step.step = task_steps[random.below(tasks_so_far)];
  } else {
    step.kind = Step::Kind::wait_all;
  }
}

}  // namespace detail

/// Draws a program. Whether a buffer is written at some step is known here, because it depends on
/// nothing but the order of submission; tasks that would read an unwritten one are turned into
/// writers but for `unwritten` percent.
inline Program draw_program(std::uint64_t seed, ProgramShape const& shape) {
  Random random(seed);
  Program program{seed, {}, {}};
  std::vector<bool> written;
  std::vector<std::uint32_t> task_steps;
  for (int b = 0; b < shape.buffers; ++b) {
    program.words.push_back(1 + random.below(b == 0 ? 2000 : 24));
    written.push_back(Program::adopted(static_cast<std::uint32_t>(b)));
  }
  for (int s = 0; s < shape.steps; ++s) {
    Step step;
    if (random.chance(shape.other)) {
      detail::draw_other(random, shape, static_cast<std::uint32_t>(task_steps.size()), task_steps,
                         step);
      if (step.kind == Step::Kind::lock && !written[step.buffer]) step.access = Access::write;
      if (step.kind == Step::Kind::renew) written[step.buffer] = Program::adopted(step.buffer);
      if (step.kind == Step::Kind::lock) written[step.buffer] = true;
    } else {
      detail::draw_task(random, shape, step);
      detail::calm_repeated(step);
      bool const refused = random.chance(shape.unwritten);
      for (Operand& operand : step.operands)
        if (!refused && !written[operand.buffer]) operand.access = Access::write;
      bool legal = true;
      for (Operand const& operand : step.operands)
        legal &= written[operand.buffer] || !reads(operand.access);
      if (legal) {
        for (Operand const& operand : step.operands)
          if (writes(operand.access)) written[operand.buffer] = true;
        task_steps.push_back(static_cast<std::uint32_t>(s));
      }
    }
    program.steps.push_back(step);
  }
  return program;
}

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
    case Step::Kind::task:
      break;
  }
  constexpr char const* finishes[] = {"",         ", completed early",      ", completed outside",
                                      ", polled", ", polled by the driver", ", token void"};
  std::string text = concat("step ", number, " is a task (");
  for (std::size_t i = 0; i < step.operands.size(); ++i)
    text +=
        concat(i == 0 ? "" : ", ", name_of(step.operands[i].access), " ", step.operands[i].buffer);
  return text + finishes[static_cast<int>(step.finish)] + (step.fails ? ", failing)" : ")");
}

/// The last steps before `end` that touch a buffer: what one wants to see first.
inline std::string history(Program const& program, std::uint32_t buffer, std::size_t end) {
  std::vector<std::size_t> touching;
  for (std::size_t s = 0; s < std::min(end, program.steps.size()); ++s) {
    Step const& step = program.steps[s];
    bool touches =
        (step.kind == Step::Kind::renew || step.kind == Step::Kind::lock) && step.buffer == buffer;
    for (Operand const& operand : step.operands) touches |= operand.buffer == buffer;
    if (touches) touching.push_back(s);
  }
  std::string text;
  for (std::size_t i = touching.size() > 6 ? touching.size() - 6 : 0; i < touching.size(); ++i)
    text += concat("; ", to_string(program.steps[touching[i]], touching[i]));
  return text;
}

}  // namespace nntile::testing
