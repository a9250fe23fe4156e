#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program: tasks, successors and attributes in flat arrays that nothing changes later.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/access.hh"
#include "nntile/core/codelet.hh"
#include "nntile/runtime/common/program.hh"
#include "nntile/runtime/concept.hh"
#include "nntile/runtime/ring/item.hh"
#include "nntile/runtime/ring/policy.hh"

namespace nntile::detail::ring {

/// One task of a program: a head of 7 words, then its operands, then its successors, in whole cache
/// lines, of which most tasks need one. A task goes by the number of its first line.
class TaskView {
 public:
  static constexpr std::uint32_t line_words = 16;
  static constexpr std::uint32_t head_words = 7;

  explicit TaskView(std::uint32_t const* words) : words_(words) {}

  Codelet const* codelet() const {
    Codelet const* codelet;
    std::memcpy(&codelet, words_, sizeof codelet);
    return codelet;
  }
  /// Its position in the recording.
  std::uint32_t number() const { return words_[2]; }
  /// Offset in the image's bytes, or in the flight's if they vary; of a prepared task its number
  /// among those.
  std::uint32_t attributes() const { return words_[3]; }
  std::uint32_t successor_count() const { return words_[4]; }
  /// Number of its producers.
  std::uint32_t producers() const { return words_[5]; }
  std::uint32_t operand_count() const { return words_[6] & 0xff; }
  std::uint8_t level() const { return static_cast<std::uint8_t>(words_[6] >> 8); }
  /// A parameter changes its attributes.
  bool varying() const { return (words_[6] >> 16 & 1) != 0; }
  /// Its operands are unpacked once for each flight.
  bool prepared() const { return (words_[6] >> 17 & 1) != 0; }

  std::uint32_t binding(std::uint32_t operand) const { return words_[head_words + operand] >> 2; }
  Access access(std::uint32_t operand) const {
    return static_cast<Access>(words_[head_words + operand] & 3);
  }
  /// Lines of the successors, each times 2, plus 1 if it has no other producer and so needs no
  /// counting.
  std::uint32_t const* successors() const { return words_ + head_words + operand_count(); }

  /// Lines that a task takes.
  static std::uint64_t lines(std::uint64_t operands, std::uint64_t successors) {
    return (head_words + operands + successors + line_words - 1) / line_words;
  }
  static constexpr std::uint32_t pack(std::uint32_t operands, std::uint8_t level, bool varying,
                                      bool prepared) {
    return operands | std::uint32_t{level} << 8 | (varying ? 1u << 16 : 0) |
           (prepared ? 1u << 17 : 0);
  }

 private:
  std::uint32_t const* words_;
};

/// Words in whole cache lines.
class Lines {
 public:
  /// Throws std::bad_alloc.
  void assign(std::size_t lines) {
    storage_ = std::make_unique<Line[]>(lines);
    size_ = lines;
  }
  std::size_t size() const { return size_; }
  std::uint32_t* at(std::size_t line) const {
    return reinterpret_cast<std::uint32_t*>(storage_.get() + line);
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[4 * TaskView::line_words];
  };
  std::unique_ptr<Line[]> storage_;
  std::size_t size_ = 0;
};

/// A task whose operands a flight unpacks: an asynchronous one, or one with many operands.
struct PreparedTask {
  std::uint32_t line;
  std::uint32_t number;
  std::uint32_t attributes;
  bool varying;
  std::vector<ProgramUse> uses;
};

/// The destination of a parameter in a flight's bytes.
struct Patch {
  std::size_t to;
  std::uint32_t from;
  std::uint32_t bytes;
};

/// Operands of a task that are unpacked on the stack; more of them are, once for each flight.
inline constexpr std::size_t unpacked_operands = 16;

/// An immutable program. `recorder.hh` makes it.
struct Image {
  Lines lines;
  std::vector<TaskLabel> labels;     // by position in the recording
  std::vector<std::uint32_t> roots;  // lines, by level, and in order within it
  std::uint32_t roots_at[level_count + 1] = {};
  std::uint32_t tasks_at[level_count + 1] = {};  // how many tasks have lower levels
  std::uint32_t sinks = 0;                       // tasks without successors
  std::vector<PreparedTask> prepared;
  std::vector<common::BindingUse> binding_uses;
  std::uint32_t binding_count = 0;
  std::vector<std::byte> constant;  // attributes that no parameter changes, aligned to 16
  std::vector<std::byte> varying;   // the others, as they were recorded
  std::vector<Patch> patches;
  std::size_t parameter_bytes = 0;
  bool asynchronous = false;  // some task ends by a token

  TaskView task(std::uint32_t line) const { return TaskView(lines.at(line)); }
  std::size_t size() const { return labels.size(); }
  std::uint32_t count_at(std::uint32_t level) const {
    return tasks_at[level + 1] - tasks_at[level];
  }
  std::span<std::uint32_t const> roots_of(std::uint32_t level) const {
    return {roots.data() + roots_at[level], roots_at[level + 1] - roots_at[level]};
  }
};

}  // namespace nntile::detail::ring

namespace nntile {

template <class Policy>
requires RingPolicyType<Policy>
class BasicRing;

/// A program that a ring has recorded. Copies share it; it may die while it is in flight, and after
/// its ring.
class RingProgram {
 public:
  RingProgram() = default;
  /// Tasks in it.
  std::size_t size() const { return image_ == nullptr ? 0 : image_->size(); }

 private:
  template <class Policy>
  requires RingPolicyType<Policy>
  friend class BasicRing;
  explicit RingProgram(std::shared_ptr<detail::ring::Image const> image)
      : image_(std::move(image)) {}

  std::shared_ptr<detail::ring::Image const> image_;
};

}  // namespace nntile
