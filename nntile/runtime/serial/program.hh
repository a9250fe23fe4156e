#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program of Serial, and one replay of it: the kernels to call in turn, looked up.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/recording.hh"

namespace nntile::detail::serial {

/// An immutable program: the recording, and the uses of each binding, so that a binding that
/// changes between two replays costs what depends on it.
struct Image : support::Recording {
  /// Throws what Recording does.
  Image(std::span<ProgramTask const> tasks, std::uint32_t bindings,
        std::span<ProgramParameter const> parameters)
      : Recording(tasks, bindings, parameters),
        users_(uses.size()),
        first_user_(std::size_t{bindings} + 1) {
    for (Use<Binding> const& use : uses) ++first_user_[use.handle + 1];
    for (std::size_t b = 0; b < bindings; ++b) first_user_[b + 1] += first_user_[b];
    DynamicArray<std::uint32_t> next(first_user_);
    for (std::uint32_t u = 0; u < uses.size(); ++u) users_[next[uses[u].handle]++] = u;
  }

  /// Positions in `uses`.
  std::span<std::uint32_t const> users_of(std::size_t binding) const {
    return {users_.data() + first_user_[binding], first_user_[binding + 1] - first_user_[binding]};
  }

 private:
  DynamicArray<std::uint32_t> users_;       // of all bindings in turn
  DynamicArray<std::uint32_t> first_user_;  // of a binding; one more ends the last
};

/// The stream of a task that has not been looked up; 0: none, it runs on the host.
inline constexpr std::uint32_t unknown_stream = ~0u;

/// A task that was started or queued; its token knows it by its address.
struct Pending {
  support::TaskBody body;
  std::uint32_t stream = unknown_stream;  // its number
  std::atomic<bool> ended{false};         // the thread that ends the task stores it last
};

/// One replay: the program with its bindings and parameters. Stays where it is.
class Flight {
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
  void reserve(Image const& program) {
    handles_.reserve(program.binding_count);
    buffers_.reserve(program.binding_count);
    pointers_.reserve(program.uses.size());
    calls_.reserve(program.steps.size());
    uses_.reserve(program.most_uses);
    if (!program.patches.empty()) patched_.reserve(program.arguments.size());
  }

  /// Looks up what has changed since the last replay: nothing, usually, or the bindings of a batch.
  /// Throws std::bad_alloc.
  void set_up(std::shared_ptr<Image const> const& program, std::span<DataHandle const> handles,
              DynamicArray<support::Buffer*> const& buffers, std::span<std::byte const> block,
              std::uint64_t sequence, void* workspace) {
    if (is_bound(program))
      rebind(*program, handles, buffers);
    else
      bind(program, handles, buffers, workspace);
    program_ = program;
    program->patch(patched_.data(), block);
    next_ = 0;
    first_ = sequence;
    last_ = sequence + (program->steps.empty() ? 0 : program->steps.size() - 1);
  }

  /// Sequences of its tasks; an empty program takes one, too.
  std::uint64_t first() const { return first_; }
  std::uint64_t last() const { return last_; }

  DynamicArray<Call> const& calls() const { return calls_; }
  /// The body of a task. Lives until that of another one is asked for.
  support::TaskBody body(std::size_t number) {
    Image::Step const& step = program_->steps[number];
    uses_.clear();
    for (Use<Binding> const& use : program_->uses_of(step))
      uses_.push_back({buffers_[use.handle], use.access});
    KernelCall const& call = calls_[number].call;
    return {step.codelet, first_ + number, {uses_.data(), uses_.size()},
            call.buffers, call.arguments,  step.label};
  }

  /// A task of a replay that is queued. Those that have begun are kept until they have ended.
  struct Step : Pending {
    DynamicArray<Use<support::Buffer*>> uses;
  };
  /// For a replay that is queued. Throws std::bad_alloc.
  void queue() {
    steps_.clear();
    steps_.resize(calls_.size());
    ended_.assign(calls_.size(), false);
    streams_.assign(calls_.size(), unknown_stream);
  }
  std::size_t size() const { return calls_.size(); }
  bool over() const { return next_ == calls_.size(); }
  /// The first task that has not ended.
  std::size_t next() const { return next_; }
  bool has_ended(std::size_t number) const { return ended_[number]; }
  /// The number of a task's stream, where `stream_of(body)` tells; it is asked once.
  template <class StreamOf> std::uint32_t stream(std::size_t number, StreamOf stream_of) {
    if (streams_[number] == unknown_stream) streams_[number] = stream_of(body(number));
    return streams_[number];
  }
  /// Null before `begin`.
  Step* step(std::size_t number) const { return steps_[number].get(); }
  /// Throws std::bad_alloc.
  Step& begin(std::size_t number) {
    auto step = std::make_unique<Step>();
    step->body = body(number);
    step->uses.assign(uses_);
    step->body.uses = step->uses;
    return *(steps_[number] = std::move(step));
  }
  void end(std::size_t number) {
    steps_[number].reset();
    ended_[number] = true;
    while (next_ != ended_.size() && ended_[next_]) ++next_;
  }
  std::span<Use<Binding> const> uses_of(std::size_t number) const {
    return program_->uses_of(program_->steps[number]);
  }
  support::Buffer& buffer(Binding binding) const { return *buffers_[binding]; }

  /// Drops the program, when the replay has ended.
  void finish() { program_.reset(); }

 private:
  bool is_bound(std::shared_ptr<Image const> const& program) const {
    return !bound_.owner_before(program) && !program.owner_before(bound_);
  }

  /// Replaces the bindings that differ in the uses that name them.
  void rebind(Image const& program, std::span<DataHandle const> handles,
              DynamicArray<support::Buffer*> const& buffers) {
    for (std::size_t b = 0; b < handles.size(); ++b) {
      if (handles[b] == handles_[b]) continue;
      handles_[b] = handles[b];
      buffers_[b] = buffers[b];
      for (std::uint32_t const use : program.users_of(b)) pointers_[use] = buffers[b]->pointer;
    }
  }

  void bind(std::shared_ptr<Image const> const& program, std::span<DataHandle const> handles,
            DynamicArray<support::Buffer*> const& buffers, void* workspace) {
    bound_.reset();
    handles_.assign(handles);
    buffers_.assign(buffers);
    uses_.reserve(program->most_uses);
    if (!program->patches.empty()) patched_ = program->arguments;
    std::byte const* const arguments =
        program->patches.empty() ? program->arguments.data() : patched_.data();
    pointers_.clear();
    for (Use<Binding> const& use : program->uses) pointers_.push_back(buffers[use.handle]->pointer);
    calls_.clear();
    for (Image::Step const& step : program->steps)
      calls_.push_back(
          {step.codelet->cpu,
           {pointers_.data() + step.first_use, arguments + step.arguments, text_, workspace}});
    bound_ = program;
  }

  std::shared_ptr<Image const> program_;
  std::weak_ptr<Image const> bound_;  // of the members from here on
  DynamicArray<DataHandle> handles_;
  DynamicArray<support::Buffer*> buffers_;  // by binding; null for one that is not used
  DynamicArray<void*> pointers_;            // of all uses in turn
  DynamicArray<std::byte> patched_;         // the arguments, if parameters change some
  DynamicArray<Call> calls_;
  DynamicArray<Use<support::Buffer*>> uses_;  // of the latest body
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  DynamicArray<std::unique_ptr<Step>> steps_;
  DynamicArray<bool> ended_;
  DynamicArray<std::uint32_t> streams_;
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
  std::size_t size() const { return image_ == nullptr ? 0 : image_->steps.size(); }

 private:
  template <RequiredDevice D> friend class BasicSerial;
  explicit SerialProgram(std::shared_ptr<detail::serial::Image const> image)
      : image_(std::move(image)) {}

  std::shared_ptr<detail::serial::Image const> image_;
};

}  // namespace nntile
