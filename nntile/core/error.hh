#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The typed errors of the library, and the one way to compose their text.

#include <charconv>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace nntile {

namespace detail {

inline void append(std::string& text, std::string_view piece) { text += piece; }

template <std::integral I>
requires(!std::same_as<I, bool> && !std::same_as<I, char>)
void append(std::string& text, I value) {
  char digits[24];
  auto const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  text.append(digits, end);
}

inline void append(std::string& text, char value) { text += value; }

inline void append(std::string& text, double value) {
  char digits[32];
  auto const end =
      std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 6).ptr;
  text.append(digits, end);
}

}  // namespace detail

/// Joins strings, characters and numbers: concat("k=", 512, " ('h1')").
template <class... Pieces> std::string concat(Pieces const&... pieces) {
  std::string text;
  (detail::append(text, pieces), ...);
  return text;
}

/// Base of everything that nntile throws. The text names op, operands, values and what was
/// expected.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Extents that do not fit together.
class ShapeError : public Error {
  using Error::Error;
};
/// A dtype that an op or a file does not take.
class TypeError : public Error {
  using Error::Error;
};
/// A graph that cannot be built or differentiated.
class GraphError : public Error {
  using Error::Error;
};
/// A plan that cannot exist as asked; the text says what would.
class PlanError : public Error {
  using Error::Error;
};
/// A handle, scope or lock used outside its life.
class LifetimeError : public Error {
  using Error::Error;
};
/// Memory that could not be allocated; the text says how much was asked.
class OutOfMemory : public Error {
  using Error::Error;
};
/// Memory that only the blocked thread itself could make available.
class DeadlockError : public OutOfMemory {
  using OutOfMemory::OutOfMemory;
};
/// A malformed or changed file.
class FormatError : public Error {
  using Error::Error;
};
/// A communicator's failure.
class CommError : public Error {
  using Error::Error;
};
/// A value outside its domain: a worker count, a name, an option.
class ValueError : public Error {
  using Error::Error;
};

/// A task that failed, or was cancelled because what it needed had failed.
class TaskError : public Error {
 public:
  TaskError(std::string const& text, std::uint64_t sequence, bool cancelled)
      : Error(text), sequence_(sequence), cancelled_(cancelled) {}

  /// Position of the failed task in the submission order of its runtime.
  std::uint64_t sequence() const noexcept { return sequence_; }
  /// Whether the task that was waited for never ran its body.
  bool cancelled() const noexcept { return cancelled_; }

 private:
  std::uint64_t sequence_;
  bool cancelled_;
};

}  // namespace nntile
