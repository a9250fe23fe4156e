#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Submission: who a task has to wait for, and who will have to wait for it.

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/runtime/ring/driver.hh"

namespace nntile::detail::ring {

/// The submitter of one ring.
template <class Policy> class Submitter {
  using Hot = HotSlot<Policy>;

 public:
  Submitter(Domain<Policy>& domain, Driver<Policy>& driver) : domain_(domain), driver_(driver) {}

  std::uint64_t joins() const { return joins_; }
  std::uint64_t blocked() const { return blocked_; }

  /// Submits a task and returns its sequence. Throws what BufferTable::bind does, and
  /// std::bad_alloc; nothing is submitted then.
  std::uint64_t submit(Task<DataHandle> const& task) {
    std::size_t const count = task.uses.size();
    common::BufferUse few[usual_operands];
    void* few_pointers[usual_operands];
    common::BufferUse* uses = few;
    void** pointers = few_pointers;
    if (count > usual_operands) {
      uses_.resize(count);
      pointers_.resize(count);
      uses = uses_.data();
      pointers = pointers_.data();
    }
    domain_.table.bind(task, uses, pointers);
    if (task.codelet->cpu == nullptr) return submit_asynchronous(task, {uses, count}, pointers);
    auto const [level, wish] = place(task.hints);
    std::size_t const bytes = Arguments::block_bytes(count, task.attributes.size());
    make_room();
    std::uint32_t const edges = collect({uses, count});
    std::byte* const block = bytes == 0 ? nullptr : take_block(bytes);
    Hot& slot = domain_.window.open(SlotKind::task, level, wish);
    ColdSlot& cold = domain_.window.cold(slot.id);
    cold.work = task.codelet;
    cold.tensor = task.label.tensor;
    slot.operands = static_cast<std::uint32_t>(count);
    slot.spilled = block != nullptr;
    if (block == nullptr) {
      slot.attribute_bytes = static_cast<std::uint8_t>(Arguments::padded(task.attributes.size()));
      Arguments::put(cold, task.attributes, {uses, count}, pointers, task.label.tile);
    } else {
      Arguments::put_block(cold, block, task.attributes, {uses, count}, pointers, task.label.tile);
    }
    std::uint64_t const sequence = slot.sequence();
    note({uses, count}, reference_to(sequence), sequence);
    publish(slot, edges);
    return sequence;
  }

  /// Submits a record, whose body is filled in, as one task over the body's uses.
  std::uint64_t submit_record(Record<Policy>& record, Hints const& hints) {
    auto const [level, wish] = place(hints);
    make_room();
    std::uint32_t const edges = collect(record.body.uses);
    Hot& slot = domain_.window.open(SlotKind::record, level, wish);
    std::uint64_t const sequence = slot.sequence();
    domain_.window.cold(slot.id).work = &record;
    record.body.sequence = sequence;
    if (record.flight != nullptr) record.flight->begin(record, sequence);
    domain_.records.open(record, sequence);
    note(record.body.uses, reference_to_record(record.index), sequence);
    for (common::BufferUse const& use : record.body.uses)
      ++reclaim().datum(*use.buffer).record_count;
    publish(slot, edges);
    return sequence;
  }

 private:
  static constexpr std::size_t usual_operands = 16;
  struct Placement {
    std::uint8_t level;
    std::int16_t wish;
  };

  Reclaim<Policy>& reclaim() { return driver_.reclaim(); }

  std::uint64_t submit_asynchronous(Task<DataHandle> const& task,
                                    std::span<common::BufferUse const> uses,
                                    void* const* pointers) {
    Record<Policy>& record = domain_.records.take();
    try {
      record.uses.assign(uses.begin(), uses.end());
      record.pointers.assign(pointers, pointers + uses.size());
      record.attributes.assign(task.attributes.begin(), task.attributes.end());
      record.body = {task.codelet, 0, record.uses, record.pointers.data(), record.attributes.data(),
                     task.label};
      return submit_record(record, task.hints);
    } catch (...) {
      domain_.records.give_back(record);
      throw;
    }
  }

  /// Where a task of these hints will wait, prepared.
  Placement place(Hints const& hints) {
    bool const known =
        hints.worker >= 0 && static_cast<std::uint32_t>(hints.worker) < domain_.scheduler.workers();
    Placement const result{level_of(hints.priority),
                           static_cast<std::int16_t>(known ? hints.worker : -1)};
    domain_.scheduler.prepare(result.level, result.wish);
    return result;
  }

  /// Blocks until there is a free slot. Looks for finished tasks now and then in any case, so that
  /// what they held comes back early.
  void make_room() {
    if ((domain_.window.head() & 63) == 0) {
      reclaim().collect();
      reclaim().sweep_if_due();
    }
    if (!domain_.window.full()) [[likely]]
      return;
    ++blocked_;
    driver_.block_until([this] { return !domain_.window.full(); },
                        [this] { return driver_.oldest(); });
  }

  std::byte* take_block(std::size_t bytes) {
    std::byte* block = nullptr;
    driver_.block_until(
        [&] {
          block = reclaim().take(bytes, domain_.window.head());
          return block != nullptr;
        },
        [this] { return driver_.oldest(); });
    return block;
  }

  /// Lists the producers that a task with these operands has to wait for, at most as many as a slot
  /// has edges: beyond that, joins stand for them. Afterwards there is a free slot still.
  std::uint32_t collect(std::span<common::BufferUse const> uses) {
    for (common::BufferUse const& use : uses)
      if (!writes(use.access)) make_reader_room(reclaim().datum(*use.buffer));
    producers_.clear();
    if (++tag_ == 0) ++tag_;
    for (common::BufferUse const& use : uses) {
      Datum const& datum = reclaim().datum(*use.buffer);
      // Readers have waited for the writer, so whoever waits for them need not.
      if (!writes(use.access) || datum.reader_count == 0) consider(datum.writer);
      if (writes(use.access))
        for (std::uint32_t i = 0; i < datum.reader_count; ++i) consider(datum.readers[i]);
    }
    std::size_t first = 0;
    while (producers_.size() - first > edges_per_slot) {
      producers_.push_back(join({producers_.data() + first, edges_per_slot}));
      first += edges_per_slot;
    }
    producers_.erase(producers_.begin(), producers_.begin() + static_cast<std::ptrdiff_t>(first));
    return static_cast<std::uint32_t>(producers_.size());
  }

  /// Adds a producer unless it has ended or is listed.
  void consider(Reference producer) {
    if (is_record(producer)) {
      if (producer == no_reference) return;
      auto& record = domain_.records[producer];
      if (record.seen == tag_ || record.consumers.is_closed()) return;
      record.seen = tag_;
    } else {
      if (!domain_.window.live(producer) || !domain_.window.first_meeting(producer, tag_)) return;
      if (domain_.window.hot(producer).consumers.is_closed()) return;
    }
    producers_.push_back(producer);
  }

  /// Submits a task that does nothing and ends once all of these have. Leaves a free slot.
  Reference join(std::span<Reference const> producers) {
    Reference waited[edges_per_slot];  // the list may move while this blocks
    std::copy(producers.begin(), producers.end(), waited);
    Hot& slot = domain_.window.open(SlotKind::join, normal_level, -1);
    Reference const self = reference_to(slot.sequence());
    ++joins_;
    std::uint32_t edges = 0;
    for (std::size_t i = 0; i < producers.size(); ++i)
      if (link(waited[i], slot, edges)) ++edges;
    if (domain_.window.publish(slot, edges)) {
      NoSuccessors none;
      domain_.window.complete(slot, none);
    }
    make_room();
    return self;
  }
  struct NoSuccessors {
    void ended(Reference) {}
    void ready(Hot&) {}
  };

  /// Room for one more reader by name.
  void make_reader_room(Datum& datum) {
    if (datum.reader_count < readers_per_datum) return;
    Datums::sweep(datum, [this](Reference reference) { return !driver_.finished(reference); });
    if (datum.reader_count < readers_per_datum) return;
    Reference const all = join({datum.readers, datum.reader_count});
    datum.readers[0] = all;
    datum.reader_count = 1;
  }

  bool link(Reference producer, Hot& consumer, std::uint32_t place) {
    if (is_record(producer))
      return domain_.window.link(domain_.records[producer].consumers, consumer, place);
    // It may have left the window while a join waited for room.
    return domain_.window.live(producer) &&
           domain_.window.link(domain_.window.hot(producer).consumers, consumer, place);
  }

  /// Enters a task into the datums of its operands.
  void note(std::span<common::BufferUse const> uses, Reference self, std::uint64_t sequence) {
    for (common::BufferUse const& use : uses) {
      Datum& datum = reclaim().datum(*use.buffer);
      if (writes(use.access)) {
        datum.writer = self;
        datum.reader_count = 0;
      } else if (datum.reader_count == 0 || datum.readers[datum.reader_count - 1] != self) {
        datum.readers[datum.reader_count++] = self;
      }
    }
    common::BufferTable::commit(uses, sequence);
  }

  /// Links a task to the listed producers and lets it go.
  void publish(Hot& slot, std::uint32_t listed) {
    std::uint32_t edges = 0;
    for (std::uint32_t i = 0; i < listed; ++i)
      if (link(producers_[i], slot, edges)) ++edges;
    if (domain_.window.publish(slot, edges)) domain_.give(slot);
  }

  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
  std::vector<Reference> producers_;
  std::uint32_t tag_ = 0;  // of the current collection
  std::vector<common::BufferUse> uses_;
  std::vector<void*> pointers_;
  std::uint64_t joins_ = 0;
  std::uint64_t blocked_ = 0;
};

}  // namespace nntile::detail::ring
