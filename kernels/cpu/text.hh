#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Builds the message of a kernel's failure without allocating.

#include "kernels/cpu/kernel.hh"

namespace nntile::kernels::NNTILE_ISA {

/// Writes pieces into the text of a call, cut off where it ends.
class FailureText {
 public:
  NNTILE_ALWAYS_INLINE explicit FailureText(KernelCall const& call) : text_(call.text) {}

  NNTILE_ALWAYS_INLINE FailureText& operator<<(char const* piece) {
    while (*piece != 0) put(*piece++);
    return *this;
  }
  NNTILE_ALWAYS_INLINE FailureText& operator<<(Index value) {
    char digits[20];
    int count = 0;
    auto magnitude =
        value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
    do digits[count++] = static_cast<char>('0' + magnitude % 10);
    while ((magnitude /= 10) != 0);
    if (value < 0) put('-');
    while (count > 0) put(digits[--count]);
    return *this;
  }
  NNTILE_ALWAYS_INLINE operator Status() const {
    text_[size_] = 0;
    return {text_};
  }

 private:
  NNTILE_ALWAYS_INLINE void put(char c) {
    if (size_ + 1 < status_text_bytes) text_[size_++] = c;
  }

  char* text_;
  std::size_t size_ = 0;
};

}  // namespace nntile::kernels::NNTILE_ISA
