#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Programs in flight: the counters, bindings and ready tasks of one replay.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "nntile/core/dynamic_array.hh"
#include "nntile/runtime/device.hh"
#include "nntile/runtime/ring/capacities.hh"
#include "nntile/runtime/ring/lane.hh"
#include "nntile/runtime/ring/program.hh"
#include "nntile/runtime/ring/ready_task.hh"
#include "nntile/runtime/support/buffer.hh"

namespace nntile::detail::ring {

template <class Policy> struct Pending;
template <class Policy> class Flight;

/// The task of a token: a pending one, or one of a program in flight.
template <class Policy> struct TokenTask {
  Flight<Policy>* flight = nullptr;  // that it belongs to, or that it starts if it is a replay
  std::uint32_t offset = 0;          // of the task in its image
  bool is_pending = false;
};

/// A task whose operands were unpacked when its program was replayed.
template <class Policy> struct Prepared : TokenTask<Policy> {
  Stream stream{-1, 0};  // that it is launched into, if any
  support::TaskBody body;
  DynamicArray<Use<support::Buffer*>> uses;
  DynamicArray<void*> pointers;
};

/// One replay. The submitter sets it up, the workers run it, the submitter recycles it. Workers
/// look at the lanes of any flight at any time; the rest is for the workers that run its tasks.
template <class Policy> class Flight {
  template <class T> using Atomic = typename Policy::template Atomic<T>;

 public:
  Flight(std::uint32_t number, bool one_worker) : number_(number), one_worker_(one_worker) {}

  std::uint32_t number() const { return number_; }
  Image const& image() const { return *image_; }
  Pending<Policy>& pending() const { return *pending_; }
  std::uint64_t sequence() const { return sequence_; }

  Lane<Policy>& lane(std::uint32_t level) { return lanes_[level]; }
  Lane<Policy> const& lane(std::uint32_t level) const { return lanes_[level]; }
  /// One bit a level that has tasks.
  std::uint32_t levels() const { return levels_.load(std::memory_order_relaxed); }
  /// Whether no task has a priority: then workers may keep to themselves what they make ready.
  bool local() const { return levels() == 1u << normal_level; }

  /// Whether it ran this program last, and so is set up faster.
  bool ran_last(std::shared_ptr<Image const> const& image) const {
    return !last_.owner_before(image) && !image.owner_before(last_);
  }

  /// Makes room for programs no larger than this one. Before the first of them. Throws
  /// std::bad_alloc.
  void reserve(ProgramCapacity const& program) {
    make_room(program.tasks, program.lines);
    varying_.reserve(program.varying);
    make_prepared(program.prepared);
    for (auto& prepared : prepared_) {
      prepared->uses.reserve(program.operands);
      prepared->pointers.reserve(program.operands);
    }
    buffers_.reserve(program.bindings);
    pointers_.reserve(program.bindings);
  }
  /// Times that memory was taken.
  std::uint64_t growths() const { return growths_; }

  /// Makes it ready for a replay. `buffers` are those of the bindings, null where none is used.
  /// Throws std::bad_alloc; it can be used again then.
  void set_up(std::shared_ptr<Image const> image, std::span<support::Buffer* const> buffers,
              std::span<std::byte const> block) {
    if (!ran_last(image)) adapt(image);
    image_ = std::move(image);
    if (buffers_.capacity() < buffers.size()) ++growths_;
    buffers_.assign(buffers);
    pointers_.resize(buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i)
      pointers_[i] = buffers[i] == nullptr ? nullptr : buffers[i]->pointer;
    image_->patch(varying_.data(), block);
    for (std::uint32_t i = 0; i < image_->prepared.size(); ++i) unpack(i);
    ++epoch_;
    for (std::uint32_t level = 0; level < level_count; ++level) {
      std::uint32_t position = 0;
      for (std::uint32_t const root : image_->roots_of(level))
        lanes_[level].put(epoch_, position++, root);
      if (image_->count_at(level) != 0) lanes_[level].begin(epoch_, position);
    }
    sinks_.store(image_->sinks + 1, std::memory_order_relaxed);
  }

  /// Opens the roots to workers; all tails have begun in `set_up`. The caller holds a sink of the
  /// flight until it is done with it: a preempted worker may still look at lanes that are not
  /// active, and may end all tasks before this returns.
  void open_lanes() {
    for (std::uint32_t level = 0; level < level_count; ++level)
      if ((levels() >> level & 1u) != 0) lanes_[level].open(epoch_);
  }

  /// Drops the program, when the replay has ended.
  void finish() { image_.reset(); }

  /// The memory of a task's operands and its arguments, if it is not prepared.
  void bind(RecordedTask const& task, void** pointers) const {
    for (std::uint32_t i = 0; i < task.use_count; ++i) pointers[i] = pointers_[task.binding(i)];
  }
  std::byte const* arguments(RecordedTask const& task) const {
    return (task.varying ? varying_ : image_->constant).data() + task.arguments;
  }
  /// All of that task. `uses` is filled in; `pointers` are what `bind` gave.
  support::TaskBody body(RecordedTask const& task, Use<support::Buffer*>* uses,
                         void* const* pointers) const {
    for (std::uint32_t i = 0; i < task.use_count; ++i)
      uses[i] = {buffers_[task.binding(i)], task.access(i)};
    return {task.codelet, sequence_ + task.number, {uses, task.use_count},
            pointers,     arguments(task),         image_->labels[task.number]};
  }
  Prepared<Policy>& prepared(std::uint32_t index) { return *prepared_[index]; }
  /// Behind `set_up`, where tasks run ahead: looks up the streams of those that are prepared.
  template <class StreamOf> void find_streams(StreamOf stream_of) {
    for (std::uint32_t i = 0; i < image_->prepared.size(); ++i)
      prepared_[i]->stream = stream_of(prepared_[i]->body);
  }
  /// Whether the second task is launched into the stream of the first, and so waits for no more
  /// than its launch.
  bool is_behind(RecordedTask const& first, std::uint32_t second) {
    Stream const stream = prepared(first.arguments).stream;
    RecordedTask const& next = image_->task(second);
    return stream.device >= 0 && next.prepared && prepared(next.arguments).stream == stream;
  }
  /// Sets the sequence of the replay's first task; the others follow.
  void begin(Pending<Policy>& replay, std::uint64_t sequence) {
    pending_ = &replay;
    sequence_ = sequence;
    for (std::uint32_t i = 0; i < image_->prepared.size(); ++i)
      prepared_[i]->body.sequence = sequence + image_->prepared[i].number;
  }

  /// Counts one producer of a task down; true if it was the last.
  bool count_down(std::uint32_t offset) {
    auto& counter = counters_[offset];
    if (!alone_) return counter.fetch_sub(1, std::memory_order_acq_rel) == 1;
    std::uint32_t const left = counter.load(std::memory_order_relaxed) - 1;
    counter.store(left, std::memory_order_relaxed);  // a locked instruction would cost the most
    return left == 0;
  }
  /// Resets the running task's dependency counter for the next replay; no other thread accesses it
  /// in this one.
  void rewind(std::uint32_t offset, RecordedTask const& task) {
    counters_[offset].store(task.producer_count, std::memory_order_relaxed);
  }
  /// Prefetches the counters of a task's successors: in a large program they are not in cache.
  void prefetch_successors(RecordedTask const& task) const {
    std::uint32_t const* const successors = task.successors();
    std::uint32_t const count = task.successor_count;
    for (std::uint32_t i = 0; i < count && i < prefetched; ++i)
      fetch_to_write(&counters_[successors[i] >> 1]);
  }

  /// Counts ended tasks without successors, and the launch; true if these were the last.
  bool count_sinks(std::uint32_t count) {
    return sinks_.fetch_sub(count, std::memory_order_acq_rel) == count;
  }

 private:
  static constexpr std::uint32_t prefetched = 8;

  void adapt(std::shared_ptr<Image const> const& image) {
    last_.reset();
    make_room(image->size(), image->storage.size());
    reset_counters(*image);
    alone_ = one_worker_ && !image->asynchronous;
    if (varying_.capacity() < image->varying.size()) ++growths_;
    varying_.assign(image->varying);
    make_prepared(image->prepared.size());
    std::uint32_t levels = 0;
    for (std::uint32_t level = 0; level < level_count; ++level) {
      if (image->count_at(level) == 0) continue;
      levels |= 1u << level;
      lanes_[level].set_entries(entries_.back().get() + image->tasks_at[level]);
    }
    levels_.store(levels, std::memory_order_relaxed);
    last_ = image;
  }

  void make_room(std::size_t count, std::size_t units) {
    if (units > counter_room_) {
      counters_ = std::make_unique<Atomic<std::uint32_t>[]>(units);
      counter_room_ = units;
      ++growths_;
    }
    if (count <= entry_room_) return;
    // Twice as many: a preempted worker adds a stale position to the lane's present entries.
    entries_.push_back(std::make_unique<typename Lane<Policy>::Entry[]>(2 * count + lane_batch));
    entry_room_ = count;
    ++growths_;
  }
  void make_prepared(std::size_t count) {
    for (; prepared_.size() < count; ++growths_)
      prepared_.push_back(std::make_unique<Prepared<Policy>>());
  }

  void reset_counters(Image const& image) {
    for (std::uint32_t offset = 0; offset < image.storage.size();) {
      RecordedTask const& task = image.task(offset);
      counters_[offset].store(task.producer_count, std::memory_order_relaxed);
      offset +=
          static_cast<std::uint32_t>(RecordedTask::units(task.use_count, task.successor_count));
    }
  }

  void unpack(std::uint32_t index) {
    PreparedTask const& task = image_->prepared[index];
    Prepared<Policy>& prepared = *prepared_[index];
    prepared.flight = this;
    prepared.offset = task.offset;
    if (prepared.uses.capacity() < task.uses.size()) ++growths_;
    prepared.uses.clear();
    prepared.pointers.clear();
    for (Use<Binding> const& use : task.uses) {
      prepared.uses.push_back({buffers_[use.handle], use.access});
      prepared.pointers.push_back(pointers_[use.handle]);
    }
    prepared.body = {image_->task(task.offset).codelet,
                     0,
                     prepared.uses,
                     prepared.pointers.data(),
                     (task.varying ? varying_ : image_->constant).data() + task.arguments,
                     image_->labels[task.number]};
  }

  std::uint32_t const number_;
  std::uint32_t epoch_ = 0;
  Pending<Policy>* pending_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::shared_ptr<Image const> image_;
  std::weak_ptr<Image const> last_;
  DynamicArray<support::Buffer*> buffers_;
  DynamicArray<void*> pointers_;
  DynamicArray<std::byte> varying_;
  DynamicArray<std::unique_ptr<Prepared<Policy>>> prepared_;
  std::unique_ptr<Atomic<std::uint32_t>[]> counters_;
  std::size_t counter_room_ = 0;
  std::size_t entry_room_ = 0;
  std::uint64_t growths_ = 0;
  bool const one_worker_;
  bool alone_ = false;  // one thread ends all tasks
  // All that were ever in use: a preempted worker may still look at an old one.
  DynamicArray<std::unique_ptr<typename Lane<Policy>::Entry[]>> entries_;
  Atomic<std::uint32_t> levels_{0};
  alignas(apart) Atomic<std::uint32_t> sinks_{0};
  Lane<Policy> lanes_[level_count];
};

/// The flights of one ring. They are made when needed and never freed before the ring.
template <class Policy> class Flights {
  template <class T> using Atomic = typename Policy::template Atomic<T>;
  static constexpr std::uint32_t most = Policy::Sizes::flights;
  static_assert(most <= 64, "active flights are the bits of one word");

 public:
  explicit Flights(bool one_worker) : one_worker_(one_worker) {}

  /// Makes `count` flights with room for programs no larger than `program`; no more are made as
  /// long as one of them is free. Before the first is taken. Throws std::bad_alloc.
  void reserve(std::uint32_t count, ProgramCapacity const& program) {
    reserved_ = count;
    flights_.reserve(count);
    while (flights_.size() < count) {
      Flight<Policy>* const flight = make();
      flight->reserve(program);
      free_.push_back(flight);
    }
  }
  /// Times that memory was taken. Submitter only.
  std::uint64_t growths() const {
    std::uint64_t growths = flights_.size();
    for (auto const& flight : flights_) growths += flight->growths();
    return growths;
  }

  /// A free one, if possible one that ran this program last; null if all are in use.
  /// Submitter only. Throws std::bad_alloc.
  Flight<Policy>* take(std::shared_ptr<Image const> const& image) {
    auto at = std::find_if(free_.begin(), free_.end(),
                           [&](auto const* flight) { return flight->ran_last(image); });
    if (at == free_.end()) {
      if (flights_.size() < most && (reserved_ == 0 || free_.empty())) return make();
      if (free_.empty()) return nullptr;
      at = free_.begin();  // the one that has been free for longest
    }
    Flight<Policy>* const flight = *at;
    free_.erase(at);
    return flight;
  }
  void give_back(Flight<Policy>& flight) {
    flight.finish();
    free_.push_back(&flight);
  }

  Flight<Policy>& operator[](std::uint32_t number) {
    return *table_[number].load(std::memory_order_acquire);
  }

  /// Flights whose lanes may hold ready tasks, a bit each.
  std::uint64_t active() const { return active_.load(std::memory_order_seq_cst); }
  void activate(Flight<Policy> const& flight) {
    if ((flight.levels() & ~levels_.load(std::memory_order_relaxed)) != 0)
      levels_.fetch_or(flight.levels(), std::memory_order_relaxed);
    active_.fetch_or(std::uint64_t{1} << flight.number(), std::memory_order_seq_cst);
  }
  void deactivate(Flight<Policy> const& flight) {
    active_.fetch_and(~(std::uint64_t{1} << flight.number()), std::memory_order_seq_cst);
  }

  /// Whether a program that was ever active has a level of `mask`. To be asked behind `active`.
  bool ever_had(std::uint32_t mask) const {
    return (levels_.load(std::memory_order_relaxed) & mask) != 0;
  }

  /// Calls visit(flight, level) for each lane of the active flights with a level of `mask`, the
  /// highest level first, until it returns true; whether it did.
  template <class Visit> bool any_lane(std::uint32_t mask, Visit visit) {
    std::uint64_t const active = this->active();
    if (active == 0 || !ever_had(mask)) return false;
    std::uint32_t used = 0;
    for (std::uint64_t rest = active; rest != 0; rest &= rest - 1) used |= at(rest).levels();
    used &= mask;
    for (std::uint32_t level = level_count; used != 0 && level-- > 0;) {
      if ((used >> level & 1u) == 0) continue;
      for (std::uint64_t rest = active; rest != 0; rest &= rest - 1)
        if ((at(rest).levels() >> level & 1u) != 0 && visit(at(rest), level)) return true;
    }
    return false;
  }

 private:
  Flight<Policy>* make() {
    free_.reserve(most);
    flights_.push_back(
        std::make_unique<Flight<Policy>>(static_cast<std::uint32_t>(flights_.size()), one_worker_));
    Flight<Policy>* const flight = flights_.back().get();
    table_[flight->number()].store(flight, std::memory_order_release);
    return flight;
  }
  Flight<Policy>& at(std::uint64_t bits) {
    return (*this)[static_cast<std::uint32_t>(std::countr_zero(bits))];
  }

  bool const one_worker_;
  DynamicArray<std::unique_ptr<Flight<Policy>>> flights_;
  DynamicArray<Flight<Policy>*> free_;
  std::uint32_t reserved_ = 0;
  Atomic<Flight<Policy>*> table_[most] = {};
  alignas(apart) Atomic<std::uint64_t> active_{0};
  Atomic<std::uint32_t> levels_{0};  // of the programs that were ever active, a bit each
};

}  // namespace nntile::detail::ring
