#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Drawing programs from a seed.

#include <algorithm>
#include <utility>
#include <vector>

#include "nntile/testing/conformance/program.hh"

namespace nntile::testing {

/// The mixture of a program, in percent of the steps or tasks.
struct ProgramShape {
  int buffers = 10;
  int steps = 250;
  int max_operands = 5;
  int failing = 0;
  int late = 10;             // asynchronous tasks
  int other = 8;             // renew, lock, wait, wait_all
  int unwritten = 0;         // tasks that read an unwritten buffer, and so are refused
  int replays = 0;           // replays of one of three recordings
  int replayed = 12;         // the number of tasks of a recording, at most
  int accumulating = 0;      // operands that accumulate, besides those of every mixture
  int reordered = 0;         // likewise, operands that write disjoint bytes, or are in no order
  std::size_t words = 2000;  // of the first buffer, at most
};

namespace detail {

/// Draws step after step. Whether a buffer is written at some step is known here, because it
/// depends on nothing but the order of submission; tasks that would read an unwritten one are
/// turned into writers but for `unwritten` percent.
class Drawer {
 public:
  Drawer(std::uint64_t seed, ProgramShape const& shape) : shape_(shape), random_(seed) {
    program_.seed = seed;
  }

  Program draw() {
    for (std::uint32_t b = 0; b < buffer_count(); ++b) {
      program_.words.push_back(1 + random_.below(b == 0 ? shape_.words : 24));
      written_.push_back(Program::adopted(b));
    }
    parts_.resize(buffer_count(), 0);
    for (int r = 0; r < 3 && shape_.replays > 0; ++r) draw_recording();
    for (int s = 0; s < shape_.steps; ++s) {
      Step step;
      if (random_.chance(shape_.other))
        draw_other(step);
      else if (random_.chance(shape_.replays))
        draw_replay(step);
      else
        draw_legal_task(step);
      program_.steps.push_back(step);
    }
    return std::move(program_);
  }

 private:
  std::uint32_t buffer_count() const { return static_cast<std::uint32_t>(shape_.buffers); }

  Access draw_access() {
    if (shape_.accumulating > 0 && random_.chance(shape_.accumulating)) return Access::accumulate;
    if (shape_.reordered > 0 && random_.chance(shape_.reordered))
      return random_.chance(80) ? Access::write_disjoint : Access::unordered;
    std::uint32_t const x = random_.below(100);
    return x < 43   ? Access::read
           : x < 65 ? Access::write
           : x < 90 ? Access::update
           : x < 95 ? Access::accumulate
           : x < 98 ? Access::write_disjoint
                    : Access::unordered;
  }

  /// Turns into updates what is not lawful, by the parts of each buffer that its present group of
  /// tasks writes: of each part one task of the group, and of what the task names in no other way.
  /// An access in no order follows on one that has an order.
  void keep_apart(Step& step, std::vector<std::uint32_t> const& parts) {
    for (Use<Binding>& operand : step.operands) {
      bool alone = parts[operand.handle] != all_parts;
      if (operand.access == Access::write_disjoint) {
        alone = alone && (parts[operand.handle] >> step.part & 1u) == 0;
        for (Use<Binding> const& other : step.operands)
          alone &= other.handle != operand.handle || other.access == operand.access;
      } else if (operand.access != Access::unordered) {
        continue;
      }
      if (!alone) operand.access = Access::update;
    }
  }
  static void take_parts(Step const& step, std::vector<std::uint32_t>& parts) {
    for (Use<Binding> const& operand : step.operands)
      if (operand.access == Access::write_disjoint)
        parts[operand.handle] |= 1u << step.part;
      else if (operand.access != Access::unordered)
        parts[operand.handle] = 0;
  }

  void draw_task(Step& step, std::uint32_t buffers) {
    std::size_t const count = 1 + random_.below(static_cast<std::size_t>(shape_.max_operands));
    for (std::size_t i = 0; i < count; ++i)
      step.operands.push_back({random_.below(buffers), draw_access()});
    // The law leaves open what write and accumulate of one buffer in one task do to its mark.
    for (Use<Binding>& operand : step.operands)
      for (Use<Binding> const& other : step.operands)
        if (other.handle == operand.handle && other.access == Access::write &&
            operand.access == Access::accumulate)
          operand.access = Access::update;
    step.salt = random_.bits();
    if (random_.chance(shape_.late)) step.finish = static_cast<Finish>(1 + random_.below(4));
    step.pauses = static_cast<std::uint8_t>(random_.chance(20) ? random_.below(8) : 0);
    step.part = static_cast<std::uint8_t>(random_.below(disjoint_parts));
    // A runtime may ignore hints: workers and priorities out of range must do no harm.
    step.hints = {static_cast<int>(random_.below(12)) - 2, static_cast<int>(random_.below(5)) - 2};
  }

  void draw_legal_task(Step& step) {
    draw_task(step, buffer_count());
    step.fails = random_.chance(shape_.failing);
    if (step.fails && random_.chance(shape_.late)) step.finish = Finish::void_token;
    bool const refused = random_.chance(shape_.unwritten);
    bool legal = true;
    for (Use<Binding>& operand : step.operands) {
      bool const fills = operand.access >= Access::write_disjoint;
      if ((!refused || fills) && !written_[operand.handle]) operand.access = Access::write;
      legal &= written_[operand.handle] || !reads(operand.access);
    }
    keep_apart(step, parts_);
    if (!legal) return;
    take_parts(step, parts_);
    for (Use<Binding> const& operand : step.operands)
      if (writes(operand.access)) written_[operand.handle] = true;
    waitable_.push_back(static_cast<std::uint32_t>(program_.steps.size()));
  }

  void draw_other(Step& step) {
    std::uint32_t const x = random_.below(100);
    step.buffer = random_.below(buffer_count());
    if (x < 40) {
      step.kind = Step::Kind::renew;
      written_[step.buffer] = Program::adopted(step.buffer);
      parts_[step.buffer] = 0;
    } else if (x < 65) {
      step.kind = Step::Kind::lock;
      step.access = x < 50 ? Access::read : x < 57 ? Access::write : Access::update;
      if (!written_[step.buffer]) step.access = Access::write;
      step.salt = random_.bits();
      written_[step.buffer] = true;
      parts_[step.buffer] = 0;
    } else if (x < 92 && !waitable_.empty()) {
      step.kind = Step::Kind::wait;
      step.step = waitable_[random_.below(waitable_.size())];
    } else {
      step.kind = Step::Kind::wait_all;
    }
  }

  void draw_recording() {
    Recording recording;
    recording.bindings = 2 + random_.below(std::min(6u, buffer_count() - 1));
    std::uint32_t const tasks = 1 + random_.below(static_cast<std::size_t>(shape_.replayed));
    std::vector<std::uint32_t> parts(recording.bindings, all_parts);
    for (std::uint32_t i = 0; i < tasks; ++i) {
      Step& task = recording.tasks.emplace_back();
      draw_task(task, recording.bindings);
      keep_apart(task, parts);
      take_parts(task, parts);
    }
    program_.recordings.push_back(recording);
  }

  void draw_replay(Step& step) {
    step.kind = Step::Kind::replay;
    step.recording = random_.below(program_.recordings.size());
    Recording const& recording = program_.recordings[step.recording];
    std::vector<std::uint32_t> buffers(buffer_count());
    for (std::uint32_t b = 0; b < buffer_count(); ++b) buffers[b] = b;
    bool legal = true;
    for (std::uint32_t i = 0; i < recording.bindings; ++i) {
      std::swap(buffers[i], buffers[i + random_.below(buffer_count() - i)]);
      legal &= written_[buffers[i]] || !recording.needs(i);
    }
    if (!legal && !random_.chance(shape_.unwritten)) return draw_legal_task(make_task(step));
    step.bindings.assign(buffers.begin(), buffers.begin() + recording.bindings);
    step.salt = random_.bits();
    if (random_.chance(3 * shape_.failing))
      step.failing = static_cast<int>(random_.below(recording.tasks.size()));
    bool const aliases = recording.uses(0) && recording.uses(1) && random_.chance(shape_.unwritten);
    if (aliases) step.bindings[1] = step.bindings[0];
    if (!legal || aliases) return;  // refused
    for (std::uint32_t i = 0; i < recording.bindings; ++i) {
      if (recording.writes_to(i)) written_[step.bindings[i]] = true;
      parts_[step.bindings[i]] = all_parts;
    }
    waitable_.push_back(static_cast<std::uint32_t>(program_.steps.size()));
  }
  static Step& make_task(Step& step) {
    step = {};
    return step;
  }

  static constexpr std::uint32_t all_parts = ~0u;

  ProgramShape const& shape_;
  Random random_;
  Program program_;
  std::vector<bool> written_;
  std::vector<std::uint32_t> parts_;     // of each buffer, those that its group of tasks writes
  std::vector<std::uint32_t> waitable_;  // steps that submitted something
};

}  // namespace detail

/// The program of that seed and shape: always the same.
inline Program draw_program(std::uint64_t seed, ProgramShape const& shape) {
  return detail::Drawer(seed, shape).draw();
}

}  // namespace nntile::testing
