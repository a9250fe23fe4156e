#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A vector of fixed capacity that never allocates.

#include <cstddef>
#include <initializer_list>

#include "nntile/core/error.hh"
#include "nntile/core/traits.hh"

namespace nntile {

namespace detail {

// A function of its own, since push_back is inlined where it is called.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_full(std::size_t capacity) {
  throw ShapeError(concat("inplace_vector: more than ", capacity, " elements"));
}

}  // namespace detail

/// Holds up to N trivially copyable values in place. Throws ShapeError when a value beyond the
/// capacity is added.
template <TriviallyCopyable T, std::size_t N> class inplace_vector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = T const*;

  constexpr inplace_vector() = default;
  constexpr inplace_vector(std::initializer_list<T> values) {
    for (T const& value : values) push_back(value);
  }
  constexpr inplace_vector(std::size_t count, T const& value) {
    for (std::size_t i = 0; i < count; ++i) push_back(value);
  }

  constexpr void push_back(T const& value) {
    if (size_ == N) detail::fail_full(N);
    values_[size_++] = value;
  }
  constexpr void pop_back() { --size_; }
  constexpr void clear() { size_ = 0; }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  static constexpr std::size_t capacity() { return N; }

  constexpr T& operator[](std::size_t i) { return values_[i]; }
  constexpr T const& operator[](std::size_t i) const { return values_[i]; }
  constexpr T& back() { return values_[size_ - 1]; }
  constexpr T const& back() const { return values_[size_ - 1]; }

  constexpr T* data() { return values_; }
  constexpr T const* data() const { return values_; }
  constexpr T* begin() { return data(); }
  constexpr T* end() { return data() + size_; }
  constexpr T const* begin() const { return data(); }
  constexpr T const* end() const { return data() + size_; }

  constexpr bool operator==(inplace_vector const& other) const {
    if (size_ != other.size_) return false;
    for (std::size_t i = 0; i < size_; ++i)
      if (!(values_[i] == other.values_[i])) return false;
    return true;
  }

 private:
  T values_[N]{};
  std::size_t size_ = 0;
};

}  // namespace nntile
