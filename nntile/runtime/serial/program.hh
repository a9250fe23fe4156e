#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program of Serial, and one replay of it: the kernels to call in turn, looked up.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/recording.hh"

namespace nntile::detail::serial {

/// One replay: the program with its bindings and parameters. Stays where it is.
class Flight {
  using Recording = support::Recording;

 public:
  /// A task that is ready to be called.
  struct Call {
    CpuEntry entry;  // null if the task is asynchronous
    KernelCall call;
  };

  Flight() = default;
  Flight(Flight const&) = delete;
  Flight& operator=(Flight const&) = delete;

  /// Room for a program, so that `set_up` allocates nothing. Throws std::bad_alloc.
  void reserve(Recording const& program) {
    handles_.reserve(program.binding_count);
    buffers_.reserve(program.binding_count);
    pointers_.reserve(program.uses.size());
    calls_.reserve(program.steps.size());
    uses_.reserve(program.most_uses);
    if (!program.patches.empty()) patched_.reserve(program.arguments.size());
  }

  /// Looks up what has changed since the last replay: nothing, usually. Throws std::bad_alloc.
  void set_up(std::shared_ptr<Recording const> const& program, std::span<DataHandle const> handles,
              std::span<support::Buffer* const> buffers, std::span<std::byte const> block,
              std::uint64_t sequence, void* workspace) {
    if (!is_bound(program, handles)) bind(program, handles, buffers, workspace);
    program_ = program;
    program->patch(patched_.data(), block);
    next_ = 0;
    first_ = sequence;
    last_ = sequence + (program->steps.empty() ? 0 : program->steps.size() - 1);
  }

  /// Sequences of its tasks; an empty program takes one, too.
  std::uint64_t first() const { return first_; }
  std::uint64_t last() const { return last_; }

  std::vector<Call> const& calls() const { return calls_; }
  /// The body of a task. Lives until that of another one is asked for.
  support::TaskBody body(std::size_t number) {
    Recording::Step const& step = program_->steps[number];
    uses_.clear();
    for (Use<Binding> const& use : program_->uses_of(step))
      uses_.push_back({buffers_[use.handle], use.access});
    KernelCall const& call = calls_[number].call;
    return {step.codelet, first_ + number, uses_, call.buffers, call.arguments, step.label};
  }

  /// For a replay whose tasks are called one at a time.
  bool over() const { return next_ == calls_.size(); }
  void advance() { ++next_; }
  support::TaskBody next() { return body(next_); }

  /// Drops the program, when the replay has ended.
  void finish() { program_.reset(); }

 private:
  bool is_bound(std::shared_ptr<Recording const> const& program,
                std::span<DataHandle const> handles) const {
    return !bound_.owner_before(program) && !program.owner_before(bound_) &&
           std::equal(handles.begin(), handles.end(), handles_.begin(), handles_.end());
  }

  void bind(std::shared_ptr<Recording const> const& program, std::span<DataHandle const> handles,
            std::span<support::Buffer* const> buffers, void* workspace) {
    bound_.reset();
    handles_.assign(handles.begin(), handles.end());
    buffers_.assign(buffers.begin(), buffers.end());
    uses_.reserve(program->most_uses);
    if (!program->patches.empty())
      patched_.assign(program->arguments.begin(), program->arguments.end());
    std::byte const* const arguments =
        program->patches.empty() ? program->arguments.data() : patched_.data();
    pointers_.clear();
    for (Use<Binding> const& use : program->uses) pointers_.push_back(buffers[use.handle]->pointer);
    calls_.clear();
    for (Recording::Step const& step : program->steps)
      calls_.push_back(
          {step.codelet->cpu,
           {pointers_.data() + step.first_use, arguments + step.arguments, text_, workspace}});
    bound_ = program;
  }

  std::shared_ptr<Recording const> program_;
  std::weak_ptr<Recording const> bound_;  // of the members from here on
  std::vector<DataHandle> handles_;
  std::vector<support::Buffer*> buffers_;  // by binding; null for one that is not used
  std::vector<void*> pointers_;            // of all uses in turn
  std::vector<std::byte> patched_;         // the arguments, if parameters change some
  std::vector<Call> calls_;
  std::vector<Use<support::Buffer*>> uses_;  // of the latest body
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::size_t next_ = 0;
  char text_[status_text_bytes];  // of a failure
};

}  // namespace nntile::detail::serial

namespace nntile {

/// A program that a Serial has recorded. Copies share it.
class SerialProgram {
 public:
  SerialProgram() = default;
  /// Tasks in it.
  std::size_t size() const { return recording_ == nullptr ? 0 : recording_->steps.size(); }

 private:
  friend class Serial;
  explicit SerialProgram(std::shared_ptr<support::Recording const> recording)
      : recording_(std::move(recording)) {}

  std::shared_ptr<support::Recording const> recording_;
};

}  // namespace nntile
