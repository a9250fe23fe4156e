#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The law, executed one step after the other on plain arrays: the oracle of random programs.

#include <optional>
#include <vector>

#include "nntile/testing/conformance/program.hh"

namespace nntile::testing {

/// The outcome of a task.
enum class Outcome : std::uint8_t { succeeds, cancelled, fails, refused };

constexpr char const* name_of(Outcome outcome) {
  constexpr char const* names[] = {"succeeds", "is cancelled", "fails", "is refused"};
  return names[static_cast<int>(outcome)];
}

inline std::uint64_t hash_words(std::span<std::uint64_t const> words) {
  std::uint64_t hash = words.size();
  for (std::uint64_t const word : words) hash = mix(hash, word);
  return hash;
}

/// A buffer's state under the law.
struct ModelBuffer {
  std::vector<std::uint64_t> words;
  bool written = false;
  bool marked = false;
};

/// The initial contents of adopted memory, and what a lock for writing leaves.
inline void fill_words(std::span<std::uint64_t> words, std::uint64_t salt) {
  for (std::size_t w = 0; w < words.size(); ++w) words[w] = mix(salt, w);
}
inline void update_words(std::span<std::uint64_t> words, std::uint64_t salt) {
  for (std::uint64_t& word : words) word = mix(word, salt);
}

/// Executes tasks in submission order. Shares nothing with any runtime but the arithmetic of a
/// single task.
class Model {
 public:
  explicit Model(std::vector<std::uint32_t> const& words) {
    for (std::uint32_t const count : words)
      buffers_.push_back({std::vector<std::uint64_t>(count), false, false});
  }

  ModelBuffer& buffer(std::uint32_t number) { return buffers_[number]; }
  ModelBuffer const& buffer(std::uint32_t number) const { return buffers_[number]; }
  std::size_t size() const { return buffers_.size(); }

  Outcome task(Step const& step) {
    bool cancelled = false;
    for (Use<Binding> const& operand : step.operands) {
      ModelBuffer const& buffer = buffers_[operand.handle];
      if (reads(operand.access) && !buffer.written) return Outcome::refused;
      bool const looks = operand.access == Access::read || operand.access == Access::update;
      cancelled |= looks && buffer.marked;
    }
    if (!cancelled) run(step);
    bool const marks = cancelled || step.fails;
    for (Use<Binding> const& operand : step.operands) {
      if (!writes(operand.access)) continue;
      ModelBuffer& buffer = buffers_[operand.handle];
      buffer.written = true;
      if (operand.access == Access::unordered) continue;
      if (marks)
        buffer.marked = true;
      else if (operand.access == Access::write)
        buffer.marked = false;
    }
    return cancelled ? Outcome::cancelled : step.fails ? Outcome::fails : Outcome::succeeds;
  }

  /// The outcomes of the tasks of a replay, in order; nothing if it is refused.
  std::optional<std::vector<Outcome>> replay(Recording const& recording, Step const& step) {
    for (std::uint32_t i = 0; i < recording.bindings; ++i) {
      if (recording.needs(i) && !buffers_[step.bindings[i]].written) return std::nullopt;
      for (std::uint32_t j = 0; j < i; ++j)
        if (step.bindings[i] == step.bindings[j]) return std::nullopt;
    }
    std::vector<Outcome> outcomes;
    for (std::size_t i = 0; i < recording.tasks.size(); ++i) {
      Step one = recording.tasks[i];
      for (Use<Binding>& operand : one.operands) operand.handle = step.bindings[operand.handle];
      one.salt = mix(step.salt, i);
      one.fails = step.failing == static_cast<int>(i);
      outcomes.push_back(task(one));
    }
    return outcomes;
  }

 private:
  void run(Step const& step) {
    Note note;
    note.salt = step.salt;
    note.part = step.part;
    std::vector<void*> pointers;
    for (Use<Binding> const& operand : step.operands) {
      auto& words = buffers_[operand.handle].words;
      note.operands[note.operand_count++] = {nullptr, static_cast<std::uint32_t>(words.size()),
                                             operand.access, operand.access};
      pointers.push_back(words.data());
    }
    write_outputs(note, pointers.data(), hash_inputs(note, pointers.data()));
  }

  std::vector<ModelBuffer> buffers_;
};

}  // namespace nntile::testing
