// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Memory of a device, in which a kernel cannot touch what is beside its operands.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace nntile::test::simt {

/// An operand of a task, in the memory of the host.
struct Operand {
  std::byte* data;
  std::size_t bytes;
  bool written;
};

/// Copies of a task's operands, between pages without access; operands that overlap stay so. What
/// is only read is in pages that cannot be written. While it lives, a thread of the emulator that
/// touches such a page fails. What is left of an operand's own pages is NaN, poisoned under the
/// address sanitizer.
///
/// An operand begins where its pages begin, or ends where they end: with `aligned` it begins at a
/// multiple of 64 bytes, and ends there if its size allows that; without, the other way round.
/// So both ends are met by two runs, and operands that are aligned to no more than their elements.
class Fenced {
 public:
  Fenced(std::span<Operand const> operands, bool aligned);
  Fenced(Fenced const&) = delete;
  Fenced& operator=(Fenced const&) = delete;
  ~Fenced();

  void* at(std::size_t operand) const { return places_[operand]; }
  /// Copies back what may be written. What was changed beside an operand, in words, or "".
  std::string copy_back() const;

  /// What this byte is to the task, in words; "" if it is not in these pages.
  std::string describe(void const* address) const;
  /// Whether it is in these pages, but of no operand.
  bool is_beside(void const* address) const;

 private:
  /// Operands that overlap, and their pages.
  struct Part {
    std::byte *from, *from_end;
    bool written;
    std::size_t operand;  // the first of them
    std::byte *pages = nullptr, *pages_end = nullptr, *data = nullptr;
    std::size_t bytes() const { return static_cast<std::size_t>(from_end - from); }
  };
  std::vector<Part> parts_;
  std::vector<void*> places_;
  std::byte* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  Fenced const* outer_ = nullptr;
};

}  // namespace nntile::test::simt
