#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Replaying a program: one task over the union of its accesses, which starts a flight.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/ring/submit.hh"

namespace nntile::detail::ring {

/// The driver's side of replays.
template <class Policy> class Replayer {
 public:
  Replayer(Domain<Policy>& domain, Driver<Policy>& driver, Submitter<Policy>& submitter)
      : domain_(domain), driver_(driver), submitter_(submitter) {}

  /// Submits one run of the program and returns its first sequence. Throws ValueError (no program;
  /// the wrong number of bindings; too few parameters; two bindings that name one buffer),
  /// LifetimeError (a handle; a locked buffer; one that is read before anything wrote it) and
  /// std::bad_alloc; nothing is submitted then.
  std::uint64_t replay(std::shared_ptr<Image const> const& image,
                       std::span<DataHandle const> bindings, std::span<std::byte const> block) {
    check_sizes(image.get(), bindings.size(), block.size());
    forget_ended();
    bind(*image, bindings);
    Record<Policy>& record = domain_.records.take();
    Flight<Policy>* flight = nullptr;
    try {
      flight = take_flight(image);
      flight->set_up(image, buffers_, block);
      record.flight = flight;
      record.uses.assign(uses_.begin(), uses_.end());
      record.body = {};
      record.body.uses = record.uses;
      std::uint64_t const count = image->size() == 0 ? 1 : image->size();
      if (log_.size() == log_.capacity()) log_.reserve(2 * log_.size() + 64);
      std::uint64_t const first = submitter_.submit_record(record, {}, count);
      log_.push_back({first, count});
      return first;
    } catch (...) {
      if (flight != nullptr) domain_.scheduler.flights.give_back(*flight);
      record.flight = nullptr;
      domain_.records.give_back(record);
      throw;
    }
  }

  /// How many sequences belong to the task or replay whose first one this is.
  std::uint64_t sequences(std::uint64_t first) const {
    auto const at = std::lower_bound(log_.begin(), log_.end(), first,
                                     [](Entry const& e, std::uint64_t f) { return e.first < f; });
    return at != log_.end() && at->first == first ? at->count : 1;
  }

 private:
  struct Entry {
    std::uint64_t first;
    std::uint64_t count;
  };

  /// While nothing is to be told of failures, replays that have ended need not be remembered.
  void forget_ended() {
    if (log_.size() < forget_from_ || domain_.failures.unreported() != 0) return;
    std::erase_if(log_, [this](Entry const& e) { return !domain_.records.is_open(e.first); });
    forget_from_ = 2 * log_.size() + 64;
  }

  static void check_sizes(Image const* image, std::size_t bindings, std::size_t bytes) {
    if (image == nullptr) throw ValueError("replay: the program is empty: record one first");
    if (bindings != image->binding_count)
      throw ValueError(
          concat("replay: ", bindings, " bindings where the program has ", image->binding_count));
    if (bytes < image->parameter_bytes)
      throw ValueError(concat("replay: ", bytes, " bytes of parameters where the program takes ",
                              image->parameter_bytes));
  }

  /// Looks every binding up, as BufferTable::bind does for a task.
  void bind(Image const& image, std::span<DataHandle const> bindings) {
    buffers_.assign(bindings.size(), nullptr);
    uses_.clear();
    ++tag_;
    for (BindingUse const& use : image.binding_uses) {
      common::Buffer& buffer = domain_.table.find(bindings[use.binding], "replay");
      std::uint32_t& tag = driver_.reclaim().datum(buffer).tag;
      if (tag == tag_) throw_alias(image, bindings, use.binding);
      if (buffer.is(common::Buffer::locked) ||
          (reads(use.access) && buffer.is(common::Buffer::unwritten)))
        throw_unfit(buffer, use);
      tag = tag_;
      buffers_[use.binding] = &buffer;
      uses_.push_back({&buffer, use.access});
    }
  }

  [[noreturn]] static void throw_alias(Image const& image, std::span<DataHandle const> bindings,
                                       std::uint32_t second) {
    std::uint32_t first = second;
    for (BindingUse const& use : image.binding_uses)
      if (use.binding != second && bindings[use.binding] == bindings[second]) first = use.binding;
    throw ValueError(concat("replay: bindings ", first < second ? first : second, " and ",
                            first < second ? second : first,
                            " name one buffer, but the recording kept them apart"));
  }
  [[noreturn]] static void throw_unfit(common::Buffer const& buffer, BindingUse const& use) {
    std::string const who = concat("replay: binding ", use.binding, " (", name_of(use.access), ")");
    if (buffer.is(common::Buffer::locked))
      throw LifetimeError(
          concat(who, ": ", common::BufferTable::describe(buffer), " is locked: unlock it first"));
    throw LifetimeError(concat(who, ": nothing has written ", common::BufferTable::describe(buffer),
                               ": submit a task that writes it, lock it for write, or adopt "
                               "written memory"));
  }

  Flight<Policy>* take_flight(std::shared_ptr<Image const> const& image) {
    Flight<Policy>* flight = nullptr;
    driver_.block_until(
        [&] {
          driver_.reclaim().collect();
          flight = domain_.scheduler.flights.take(image);
          return flight != nullptr;
        },
        [this] { return domain_.records.oldest(); });
    return flight;
  }

  Domain<Policy>& domain_;
  Driver<Policy>& driver_;
  Submitter<Policy>& submitter_;
  std::vector<Entry> log_;  // ascending
  std::size_t forget_from_ = 64;
  std::uint32_t tag_ = 0;
  std::vector<common::Buffer*> buffers_;  // by binding
  std::vector<common::BufferUse> uses_;   // of the used ones
};

}  // namespace nntile::detail::ring
