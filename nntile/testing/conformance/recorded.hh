#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Recordings for a runtime: notes whose varying parts come from the parameter block.

#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "nntile/testing/conformance/program.hh"
#include "nntile/testing/conformance/subject.hh"

namespace nntile::testing {

/// Fills in what a body must know of its operands. `guards` and `words` are indexed by buffer.
inline void note_operands(Note& note, std::span<Use<Binding> const> operands,
                          std::span<Guard* const> guards, std::span<std::uint32_t const> words) {
  for (Use<Binding> const& operand : operands) {
    OperandNote entry{guards[operand.handle], words[operand.handle], operand.access,
                      operand.access};
    for (auto& earlier : std::span(note.operands).first(note.operand_count)) {
      if (earlier.guard != entry.guard) continue;
      if (earlier.guarded == Access::unordered)
        earlier.guarded = entry.access;
      else if (entry.access != earlier.guarded && entry.access != Access::unordered)
        earlier.guarded = Access::update;
      entry.guard = nullptr;
    }
    note.operands[note.operand_count++] = entry;
  }
}

/// Parameters that differ from replay to replay, besides the operands.
struct Varying {
  std::uint64_t salt;
  std::uint32_t task;
  bool fails;
};

/// One recording of a program, recorded.
class Recorded {
 public:
  Recorded(Recording const& recording, Journal& journal, Outside& outside, Subject& subject)
      : recording_(recording) {
    std::vector<Note> notes;
    for (Step const& step : recording.tasks) {
      Note note{&journal, &outside, 0, 0, 0, step.finish, false, step.pauses, step.part, {}};
      note.operand_count = static_cast<std::uint8_t>(step.operands.size());
      notes.push_back(note);
    }
    std::vector<ProgramTask> tasks;
    for (std::size_t i = 0; i < notes.size(); ++i)
      tasks.push_back(
          {recording.tasks[i].finish == Finish::returns ? &mix_codelet : &late_mix_codelet,
           recording.tasks[i].operands,
           notes[i].bytes(),
           recording.tasks[i].hints,
           {}});
    std::vector<ProgramParameter> const parameters = lay_out();
    program_ = subject.record(tasks, recording.bindings, parameters);
  }

  Event replay(Subject& subject, std::span<Subject::Handle const> bindings,
               std::span<std::byte const> block) const {
    return subject.replay(program_, bindings, block);
  }

  /// The parameters of one replay whose tasks have the numbers from `first_task` on.
  std::vector<std::byte> block(Step const& replay, std::uint32_t first_task,
                               std::span<Guard* const> guards,
                               std::span<std::uint32_t const> words) const {
    std::vector<Guard*> bound_guards;
    std::vector<std::uint32_t> bound_words;
    for (std::uint32_t const buffer : replay.bindings) {
      bound_guards.push_back(guards[buffer]);
      bound_words.push_back(words[buffer]);
    }
    std::vector<std::byte> bytes(size_);
    for (std::uint32_t i = 0; i < recording_.tasks.size(); ++i) {
      Varying const varying{mix(replay.salt, i), first_task + i,
                            replay.failing == static_cast<int>(i)};
      std::memcpy(&bytes[offsets_[i]], &varying, sizeof varying);
      Note note;
      note_operands(note, recording_.tasks[i].operands, bound_guards, bound_words);
      std::memcpy(&bytes[offsets_[i] + sizeof varying], note.operands.data(),
                  note.operand_count * sizeof(OperandNote));
    }
    return bytes;
  }

 private:
  /// Parameters of the last task first, so that nothing lies where a guess would look.
  std::vector<ProgramParameter> lay_out() {
    std::vector<ProgramParameter> parameters;
    offsets_.resize(recording_.tasks.size());
    for (std::uint32_t i = static_cast<std::uint32_t>(offsets_.size()); i-- > 0;) {
      offsets_[i] = size_;
      auto const add = [&](std::size_t argument, std::size_t parameter, std::size_t bytes) {
        parameters.push_back({i, static_cast<std::uint32_t>(argument),
                              size_ + static_cast<std::uint32_t>(parameter),
                              static_cast<std::uint32_t>(bytes)});
      };
      std::size_t const operand_bytes = recording_.tasks[i].operands.size() * sizeof(OperandNote);
      add(offsetof(Note, operands), sizeof(Varying), operand_bytes);
      add(offsetof(Note, fails), offsetof(Varying, fails), sizeof(bool));
      add(offsetof(Note, task), offsetof(Varying, task), sizeof(std::uint32_t));
      add(offsetof(Note, salt), offsetof(Varying, salt), sizeof(std::uint64_t));
      size_ += static_cast<std::uint32_t>(sizeof(Varying) + operand_bytes);
    }
    return parameters;
  }

  Recording const& recording_;
  Subject::Program program_;
  std::uint32_t size_ = 0;
  std::vector<std::uint32_t> offsets_;
};

}  // namespace nntile::testing
