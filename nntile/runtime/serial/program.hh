#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A recorded program of Serial: the kernels to call one after the other, looked up.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "nntile/core/later.hh"
#include "nntile/runtime/common/program.hh"

namespace nntile::detail::serial {

/// One task of a program.
struct Step {
  Codelet const* codelet;
  std::uint32_t first_use;
  std::uint32_t use_count;
  std::size_t attributes;  // offset
};

/// An immutable program. `Use` is ProgramUse: nothing is compiled in programs that do not record.
template <std::same_as<ProgramUse> Use> struct Image {
  std::vector<later_t<Step, Use>> steps;
  std::vector<Use> uses;  // of all steps in turn
  std::vector<later_t<TaskLabel, Use>> labels;
  std::vector<std::byte> attributes;  // of all steps, as recorded, aligned to 16
  struct Patch {
    std::size_t to;
    std::uint32_t from;
    std::uint32_t bytes;
  };
  std::vector<Patch> patches;
  std::vector<later_t<common::BindingUse, Use>> binding_uses;
  std::uint32_t binding_count = 0;
  std::uint32_t most_uses = 0;  // of one step
  std::size_t parameter_bytes = 0;
  bool asynchronous = false;

  /// Throws ValueError: a task without an entry for a CPU worker; a binding or a parameter that is
  /// out of bounds.
  Image(std::span<ProgramTask const> tasks, std::uint32_t bindings,
        std::span<ProgramParameter const> parameters)
      : binding_count(bindings) {
    common::check_recorded(tasks, bindings);
    parameter_bytes = common::check_parameters(tasks, parameters);
    binding_uses = common::binding_uses(tasks, bindings);
    for (ProgramTask const& task : tasks) add(task);
    for (ProgramParameter const& parameter : parameters)
      patches.push_back({steps[parameter.task].attributes + parameter.attribute_offset,
                         parameter.parameter_offset, parameter.bytes});
  }

 private:
  void add(ProgramTask const& task) {
    auto const count = static_cast<std::uint32_t>(task.uses.size());
    steps.push_back(
        {task.codelet, static_cast<std::uint32_t>(uses.size()), count, attributes.size()});
    uses.insert(uses.end(), task.uses.begin(), task.uses.end());
    labels.push_back(task.label);
    attributes.insert(attributes.end(), task.attributes.begin(), task.attributes.end());
    attributes.resize((attributes.size() + 15) & ~std::size_t{15});
    most_uses = std::max(most_uses, count);
    asynchronous = asynchronous || task.codelet->cpu == nullptr;
  }
};

/// One replay: the program with its bindings and parameters. Stays where it is.
template <std::same_as<ProgramUse> Use> class Flight {
  using Image = serial::Image<Use>;

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
  void reserve(Image const& image) {
    handles_.reserve(image.binding_count);
    buffers_.reserve(image.binding_count);
    pointers_.reserve(image.uses.size());
    calls_.reserve(image.steps.size());
    uses_.reserve(image.most_uses);
    if (!image.patches.empty()) patched_.reserve(image.attributes.size());
  }

  /// Makes ready what has changed since the last replay: nothing, usually. Throws std::bad_alloc.
  void set_up(std::shared_ptr<Image const> const& image, std::span<DataHandle const> handles,
              std::span<common::Buffer* const> buffers, std::span<std::byte const> block,
              std::uint64_t sequence, void* workspace) {
    if (!knows(image, handles)) bind(image, handles, buffers, workspace);
    image_ = image;
    for (typename Image::Patch const& patch : image->patches)
      std::memcpy(patched_.data() + patch.to, block.data() + patch.from, patch.bytes);
    next_ = 0;
    first_ = sequence;
    last_ = sequence + (image->steps.empty() ? 0 : image->steps.size() - 1);
  }

  /// Sequences of its tasks; an empty program takes one, too.
  std::uint64_t first() const { return first_; }
  std::uint64_t last() const { return last_; }

  std::span<Call const> calls() const { return calls_; }
  /// All of a task. Lives until that of another one is asked for.
  common::TaskBody body(std::size_t number) {
    Step const& step = image_->steps[number];
    uses_.clear();
    for (std::uint32_t i = 0; i < step.use_count; ++i) {
      ProgramUse const use = image_->uses[step.first_use + i];
      uses_.push_back({buffers_[use.binding], use.access});
    }
    KernelCall const& call = calls_[number].call;
    return {step.codelet, first_ + number, uses_,
            call.buffers, call.attributes, image_->labels[number]};
  }

  /// For a replay whose tasks are called one at a time.
  bool over() const { return next_ == calls_.size(); }
  void advance() { ++next_; }
  common::TaskBody next() { return body(next_); }

  /// Drops the program, when the replay has ended.
  void finish() { image_.reset(); }

 private:
  bool knows(std::shared_ptr<Image const> const& image, std::span<DataHandle const> handles) const {
    return !known_.owner_before(image) && !image.owner_before(known_) &&
           std::equal(handles.begin(), handles.end(), handles_.begin(), handles_.end());
  }

  void bind(std::shared_ptr<Image const> const& image, std::span<DataHandle const> handles,
            std::span<common::Buffer* const> buffers, void* workspace) {
    known_.reset();
    handles_.assign(handles.begin(), handles.end());
    buffers_.assign(buffers.begin(), buffers.end());
    uses_.reserve(image->most_uses);
    if (!image->patches.empty())
      patched_.assign(image->attributes.begin(), image->attributes.end());
    std::byte const* const attributes =
        image->patches.empty() ? image->attributes.data() : patched_.data();
    pointers_.clear();
    for (ProgramUse const& use : image->uses) pointers_.push_back(buffers[use.binding]->pointer);
    calls_.clear();
    for (Step const& step : image->steps)
      calls_.push_back(
          {step.codelet->cpu,
           {pointers_.data() + step.first_use, attributes + step.attributes, text_, workspace}});
    known_ = image;
  }

  std::shared_ptr<Image const> image_;
  std::weak_ptr<Image const> known_;  // what the rest was made for, with these
  std::vector<later_t<DataHandle, Use>> handles_;
  std::vector<later_t<common::Buffer, Use>*> buffers_;  // by binding; null for one that is not used
  std::vector<later_t<void, Use>*> pointers_;           // of all uses in turn
  std::vector<std::byte> patched_;                      // the attributes, if parameters change some
  std::vector<Call> calls_;
  std::vector<later_t<common::BufferUse, Use>> uses_;  // of the body that was asked for
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::size_t next_ = 0;
  char text_[status_text_bytes];  // of a failure
};

}  // namespace nntile::detail::serial

namespace nntile {

template <std::same_as<DataHandle> H> class BasicSerial;

/// A program that a Serial has recorded. Copies share it.
template <std::same_as<ProgramUse> Use> class BasicSerialProgram {
 public:
  BasicSerialProgram() = default;
  /// Tasks in it.
  std::size_t size() const { return image_ == nullptr ? 0 : image_->steps.size(); }

 private:
  template <std::same_as<DataHandle> H> friend class BasicSerial;
  explicit BasicSerialProgram(std::shared_ptr<detail::serial::Image<Use> const> image)
      : image_(std::move(image)) {}

  std::shared_ptr<detail::serial::Image<Use> const> image_;
};
using SerialProgram = BasicSerialProgram<ProgramUse>;

}  // namespace nntile
