// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Atomics whose operations are events of the exploration.

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/runtime/model/history.hh"
#include "tests/runtime/model/mutant.hh"
#include "tests/runtime/model/site.hh"

namespace nntile::test::model {

/// As std::atomic<T>; weak exchanges fail only where strong ones do. Before the first thread starts
/// and after the last has ended, operations are no events.
template <class T> class Atomic {
  static constexpr auto seq_cst = std::memory_order_seq_cst;
  static_assert(sizeof(T) <= sizeof(std::uint64_t));

 public:
  Atomic(T value = T{}) : value_(value), made_(stamp()) {}
  Atomic(Atomic const&) = delete;
  Atomic& operator=(Atomic const&) = delete;

  T load(std::memory_order order = seq_cst, Site site = Site::here()) const {
    Mutation const as = mutation(site, Kind::load, order);
    if (!concurrent()) return as.changed(value_);
    begin();
    std::size_t const index = pick(as.order, [](T) { return true; });
    history_->read(index, as.order);
    end(Effect::look);
    return as.changed(value_of((*history_)[index].value));
  }
  void store(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    Mutation const as = mutation(site, Kind::store, order);
    if (as.dropped) return;
    value = as.changed(value);
    if (!concurrent()) return set(value);
    begin();
    history_->write(bits_of(value), as.order, false);
    end(Effect::change);
    value_ = value;
    if (as.again) store(value, as.order, Site{"", ""});
  }
  T exchange(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    return modify(mutation(site, Kind::exchange, order), [value](T) { return value; });
  }
  T fetch_add(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    return modify(mutation(site, Kind::add, order),
                  [value](T old) { return static_cast<T>(old + value); });
  }
  T fetch_sub(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    return modify(mutation(site, Kind::add, order),
                  [value](T old) { return static_cast<T>(old - value); });
  }
  T fetch_or(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    return modify(mutation(site, Kind::bits, order),
                  [value](T old) { return static_cast<T>(old | value); });
  }
  T fetch_and(T value, std::memory_order order = seq_cst, Site site = Site::here()) {
    return modify(mutation(site, Kind::bits, order),
                  [value](T old) { return static_cast<T>(old & value); });
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order success,
                             std::memory_order failure, Site site = Site::here()) {
    return compare(expected, wanted, failure, mutation(site, Kind::compare, success));
  }
  bool compare_exchange_weak(T& expected, T wanted, std::memory_order order = seq_cst,
                             Site site = Site::here()) {
    return compare(expected, wanted, on_failure(order), mutation(site, Kind::compare, order));
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order success,
                               std::memory_order failure, Site site = Site::here()) {
    return compare(expected, wanted, failure, mutation(site, Kind::compare, success));
  }
  bool compare_exchange_strong(T& expected, T wanted, std::memory_order order = seq_cst,
                               Site site = Site::here()) {
    return compare(expected, wanted, on_failure(order), mutation(site, Kind::compare, order));
  }

 private:
  static bool concurrent() {
    return Exploration::current != nullptr && Exploration::current->concurrent();
  }
  static Stamp stamp() { return concurrent() ? Exploration::current->now() : Stamp{}; }
  static std::memory_order on_failure(std::memory_order order) {
    return order == std::memory_order_acq_rel   ? std::memory_order_acquire
           : order == std::memory_order_release ? std::memory_order_relaxed
                                                : order;
  }
  static std::uint64_t bits_of(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
  }
  static T value_of(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }

  void begin() const {
    if (history_ == nullptr) history_ = std::make_unique<History>(bits_of(value_), made_);
    Exploration::current->begin_operation();
  }
  void end(Effect effect) const { Exploration::current->end_operation(&object_, effect); }

  /// A store that may be read and whose value is `wanted`, or the newest.
  template <class Wanted> std::size_t pick(std::memory_order order, Wanted wanted) const {
    static std::vector<std::size_t> found;
    history_->list(order, found);
    std::size_t count = 1;
    for (std::size_t i = 1; i < found.size(); ++i)
      if (wanted(value_of((*history_)[found[i]].value))) found[count++] = found[i];
    return found[Exploration::current->choose(count)];
  }

  void set(T value) {
    value_ = value;
    history_.reset();
    made_ = {};
  }

  template <class Change> T modify(Mutation const& as, Change change) {
    T const old = value_;
    if (as.dropped) return old;
    T const next = as.changed(change(old));
    if (!concurrent()) return set(next), old;
    if (as.split) {  // a load and a store instead
      T const read = load(as.order, Site{"", ""});
      store(as.changed(change(read)), as.order, Site{"", ""});
      return read;
    }
    begin();
    T const before = value_;
    history_->read(history_->newest(), as.order);
    value_ = as.changed(change(before));
    history_->write(bits_of(value_), as.order, true);
    end(Effect::change);
    if (as.again) (void)modify({as.order}, change);
    return before;
  }

  bool compare(T& expected, T wanted, std::memory_order failure, Mutation const& as) {
    if (!concurrent()) {
      bool const equal = value_ == expected;
      expected = value_;
      if (equal) set(wanted);
      return equal;
    }
    begin();
    std::size_t const index = pick(failure, [&](T value) { return !(value == expected); });
    T const read = value_of((*history_)[index].value);
    bool const equal = index == history_->newest() && (read == expected || as.split);
    history_->read(index, equal ? as.order : failure);
    if (equal) {
      value_ = as.changed(wanted);
      history_->write(bits_of(value_), as.order, true);
    }
    end(equal ? Effect::change : Effect::look);
    if (!equal) expected = read;
    return equal;
  }

  T value_;
  Stamp made_;
  mutable Object object_;
  mutable std::unique_ptr<History> history_;
};

}  // namespace nntile::test::model
