#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// An array that grows, for the library's own lists.

#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <new>
#include <utility>

#include "nntile/core/traits.hh"

namespace nntile {

/// A std::vector, under its names, of what the library's own lists need: each type of elements
/// costs the compiler a fifth. What users hand over or get is std::vector and std::span. Throws
/// std::bad_alloc; moves of T throw nothing.
template <class T> class DynamicArray {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = T const*;

  DynamicArray() = default;
  /// Of value-initialised elements.
  explicit DynamicArray(std::size_t count) : DynamicArray() { resize(count); }
  DynamicArray(std::size_t count, T const& value) : DynamicArray() { assign(count, value); }
  DynamicArray(std::initializer_list<T> values) : DynamicArray() {
    append(values.begin(), values.size());
  }
  DynamicArray(DynamicArray const& other) : DynamicArray() { append(other.begin_, other.size()); }
  DynamicArray(DynamicArray&& other) noexcept { swap(other); }
  DynamicArray& operator=(DynamicArray const& other) {
    if (this != &other) assign(other);
    return *this;
  }
  DynamicArray& operator=(DynamicArray&& other) noexcept {
    DynamicArray taken(static_cast<DynamicArray&&>(other));
    swap(taken);
    return *this;
  }
  ~DynamicArray() {
    clear();
    if constexpr (is_overaligned)
      ::operator delete(begin_, std::align_val_t{alignof(T)});
    else
      ::operator delete(begin_);
  }

  void push_back(T value) { emplace_back(static_cast<T&&>(value)); }
  /// Of T's constructor or of its members; no element of this array is among them.
  template <class... Arguments> T& emplace_back(Arguments&&... arguments) {
    if (end_ == room_) make_room(1);
    T* const made = ::new (static_cast<void*>(end_)) T{static_cast<Arguments&&>(arguments)...};
    ++end_;
    return *made;
  }
  /// Adds an element before a place; those from there on move up.
  T* insert(T const* before, T value) {
    auto const at = static_cast<std::size_t>(before - begin_);
    emplace_back(static_cast<T&&>(value));
    for (std::size_t i = size() - 1; i > at; --i) std::swap(begin_[i], begin_[i - 1]);
    return begin_ + at;
  }
  /// Adds copies of the elements of another array, vector or span.
  template <class Values> void append(Values const& values) {
    append(values.data(), values.size());
  }
  template <class Values> void assign(Values const& values) {
    clear();
    append(values.data(), values.size());
  }
  void assign(std::size_t count, T const& value) {
    clear();
    resize(count, value);
  }
  /// Elements that are new are value-initialised, or copies of what is no element of this array.
  void resize(std::size_t count) {
    if (count <= size()) return shrink(count);
    make_room(count - size());
    for (; size() < count; ++end_) ::new (static_cast<void*>(end_)) T();
  }
  void resize(std::size_t count, T const& value) {
    if (count <= size()) return shrink(count);
    make_room(count - size());
    for (; size() < count; ++end_) ::new (static_cast<void*>(end_)) T(value);
  }
  void reserve(std::size_t room) {
    if (room > capacity()) grow(room);
  }
  T* erase(T const* place) { return erase(place, place + 1); }
  T* erase(T const* first, T const* last) {
    T* const result = begin_ + (first - begin_);
    if (first == last) return result;
    T* to = result;
    for (T* from = begin_ + (last - begin_); from != end_; ++from, ++to)
      *to = static_cast<T&&>(*from);
    shrink(static_cast<std::size_t>(to - begin_));
    return result;
  }
  void pop_back() { shrink(size() - 1); }
  void clear() { shrink(0); }
  void swap(DynamicArray& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(end_, other.end_);
    std::swap(room_, other.room_);
  }

  std::size_t size() const noexcept { return static_cast<std::size_t>(end_ - begin_); }
  std::size_t capacity() const noexcept { return static_cast<std::size_t>(room_ - begin_); }
  bool empty() const noexcept { return begin_ == end_; }
  T* data() noexcept { return begin_; }
  T const* data() const noexcept { return begin_; }
  T* begin() noexcept { return begin_; }
  T* end() noexcept { return end_; }
  T const* begin() const noexcept { return begin_; }
  T const* end() const noexcept { return end_; }
  T& operator[](std::size_t position) { return begin_[position]; }
  T const& operator[](std::size_t position) const { return begin_[position]; }
  T& front() { return *begin_; }
  T const& front() const { return *begin_; }
  T& back() { return end_[-1]; }
  T const& back() const { return end_[-1]; }

  bool operator==(DynamicArray const& other) const {
    if (size() != other.size()) return false;
    for (std::size_t i = 0; i < size(); ++i)
      if (!(begin_[i] == other.begin_[i])) return false;
    return true;
  }

 private:
  static constexpr bool is_overaligned = alignof(T) > __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  void append(T const* values, std::size_t count) {
    make_room(count);
    if constexpr (TriviallyCopyable<T>) {
      if (count != 0) std::memcpy(static_cast<void*>(end_), values, count * sizeof(T));
      end_ += count;
    } else {
      for (std::size_t i = 0; i < count; ++i, ++end_) ::new (static_cast<void*>(end_)) T(values[i]);
    }
  }
  void shrink(std::size_t count) {
    if constexpr (TriviallyCopyable<T>)
      end_ = begin_ + count;
    else
      while (size() > count) (--end_)->~T();
  }
  void make_room(std::size_t more) {
    if (more <= static_cast<std::size_t>(room_ - end_)) return;
    std::size_t const needed = size() + more, twice = 2 * capacity();
    grow(needed > twice ? needed : twice);
  }
  void grow(std::size_t room) {
    DynamicArray grown;
    if constexpr (is_overaligned)
      grown.begin_ =
          static_cast<T*>(::operator new(room * sizeof(T), std::align_val_t{alignof(T)}));
    else
      grown.begin_ = static_cast<T*>(::operator new(room * sizeof(T)));
    grown.end_ = grown.begin_;
    grown.room_ = grown.begin_ + room;
    if constexpr (TriviallyCopyable<T>)
      grown.append(begin_, size());
    else
      for (T& each : *this) ::new (static_cast<void*>(grown.end_++)) T(static_cast<T&&>(each));
    swap(grown);
  }

  T* begin_ = nullptr;
  T* end_ = nullptr;
  T* room_ = nullptr;  // behind the last that fits
};

/// Takes out the elements for which a predicate holds; the others keep their order.
template <class T, class Predicate> void erase_if(DynamicArray<T>& array, Predicate predicate) {
  T* kept = array.begin();
  for (T& each : array)
    if (!predicate(each)) {
      if (kept != &each) *kept = static_cast<T&&>(each);
      ++kept;
    }
  array.erase(kept, array.end());
}

}  // namespace nntile
