#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A few values in place, more on the heap, kept from use to use.

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace nntile::support {

/// An array that is sized anew for each use. Up to N values are in place; what the heap gave is
/// kept.
template <class T, std::size_t N>
requires std::is_trivially_copyable_v<T>
class ScratchArray {
 public:
  /// Holds `size` values afterwards, all of them undefined. Throws std::bad_alloc, having changed
  /// nothing.
  T* resize(std::size_t size) {
    if (size > capacity_) {
      heap_.reset(new T[size]);
      capacity_ = size;
    }
    size_ = size;
    return data();
  }
  T* data() noexcept { return heap_ ? heap_.get() : in_place_; }
  std::size_t size() const noexcept { return size_; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  operator std::span<T const>() noexcept { return {data(), size_}; }

 private:
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
  std::unique_ptr<T[]> heap_;
  alignas(16) T in_place_[N];  // arguments are any plain struct
};

}  // namespace nntile::support
