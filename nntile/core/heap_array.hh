#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Objects on the heap, as many as are known when they are made.

#include <cstddef>
#include <utility>

namespace nntile {

/// Owns an array of value-initialised objects, or none. As std::unique_ptr<T[]>, but cheaper to
/// compile in headers that nntile.hh includes.
template <class T> class HeapArray {
 public:
  HeapArray() = default;
  /// Throws std::bad_alloc.
  explicit HeapArray(std::size_t count) : objects_(new T[count]()) {}
  HeapArray(HeapArray&& other) noexcept : objects_(std::exchange(other.objects_, nullptr)) {}
  HeapArray& operator=(HeapArray other) noexcept {
    std::swap(objects_, other.objects_);
    return *this;
  }
  ~HeapArray() { delete[] objects_; }

  /// The first object; null for none.
  T* get() const noexcept { return objects_; }
  T& operator[](std::size_t position) const noexcept { return objects_[position]; }

 private:
  T* objects_ = nullptr;
};

}  // namespace nntile
