// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Atomics of a ring between whose operations something else can happen.

#include <atomic>
#include <cstddef>

namespace nntile::test {

/// What is about to be done, or has just been done, to an atomic of that many bytes.
enum class Operation { load, store, exchange, add, bits, compare };

/// As std::atomic. Calls Interrupt::before and Interrupt::after(operation, bytes, order) around
/// each operation.
template <class T, class Interrupt> class InterruptedAtomic {
  static constexpr auto seq_cst = std::memory_order_seq_cst;

 public:
  constexpr InterruptedAtomic() : value_() {}
  constexpr InterruptedAtomic(T value) : value_(value) {}
  InterruptedAtomic(InterruptedAtomic const&) = delete;
  InterruptedAtomic& operator=(InterruptedAtomic const&) = delete;

  T load(std::memory_order order = seq_cst) const {
    Around const around(Operation::load, order);
    return value_.load(order);
  }
  void store(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::store, order);
    value_.store(value, order);
  }
  T exchange(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::exchange, order);
    return value_.exchange(value, order);
  }
  T fetch_add(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::add, order);
    return value_.fetch_add(value, order);
  }
  T fetch_sub(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::add, order);
    return value_.fetch_sub(value, order);
  }
  T fetch_or(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::bits, order);
    return value_.fetch_or(value, order);
  }
  T fetch_and(T value, std::memory_order order = seq_cst) {
    Around const around(Operation::bits, order);
    return value_.fetch_and(value, order);
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order success = seq_cst,
                             std::memory_order failure = seq_cst) {
    Around const around(Operation::compare, success);
    return value_.compare_exchange_weak(expected, value, success, failure);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order order = seq_cst) {
    Around const around(Operation::compare, order);
    return value_.compare_exchange_strong(expected, value, order);
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order success,
                               std::memory_order failure) {
    Around const around(Operation::compare, success);
    return value_.compare_exchange_strong(expected, value, success, failure);
  }

 private:
  struct Around {
    Operation operation;
    std::memory_order order;
    Around(Operation what, std::memory_order how) : operation(what), order(how) {
      Interrupt::before(operation, sizeof(T), order);
    }
    ~Around() { Interrupt::after(operation, sizeof(T), order); }
  };

  std::atomic<T> value_;
};

}  // namespace nntile::test
