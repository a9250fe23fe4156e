#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The typed errors of the library, and the one way to compose their text.

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nntile {

namespace detail {

/// A text, a character or a number that becomes part of a text: plain data, whatever it was.
class Piece {
 public:
  Piece(std::string_view text) : text_(text.data()), size_(text.size()), kind_(Kind::text) {}
  Piece(std::string const& text) : Piece(std::string_view(text)) {}
  Piece(char const* text) : Piece(std::string_view(text)) {}
  Piece(char value) : signed_(value), kind_(Kind::character) {}
  Piece(double value) : real_(value), kind_(Kind::real) {}
  template <std::signed_integral I> Piece(I value) : signed_(value), kind_(Kind::signed_number) {}
  template <std::unsigned_integral I>
  requires(!std::same_as<I, bool>)
  Piece(I value) : unsigned_(value), kind_(Kind::unsigned_number) {}

  void append_to(std::string& text) const {
    char digits[32];
    auto* const end = digits + sizeof digits;
    switch (kind_) {
      case Kind::text:
        text.append(text_, size_);
        return;
      case Kind::character:
        text += static_cast<char>(signed_);
        return;
      case Kind::signed_number:
        text.append(digits, std::to_chars(digits, end, signed_).ptr);
        return;
      case Kind::unsigned_number:
        text.append(digits, std::to_chars(digits, end, unsigned_).ptr);
        return;
      case Kind::real:
        if (real_ != real_) {  // the sign of a NaN says nothing
          text += "nan";
          return;
        }
        text.append(digits, std::to_chars(digits, end, real_, std::chars_format::general, 6).ptr);
        return;
    }
  }

 private:
  enum class Kind : std::uint8_t { text, character, signed_number, unsigned_number, real };

  union {
    char const* text_;
    std::int64_t signed_;
    std::uint64_t unsigned_;
    double real_;
  };
  std::size_t size_ = 0;  // of a text
  Kind kind_;
};

inline std::string join(std::initializer_list<Piece> pieces) {
  std::string text;
  for (Piece const& piece : pieces) piece.append_to(text);
  return text;
}

}  // namespace detail

/// Joins strings, characters and numbers: concat("k=", 512, " ('h1')").
// One function for all: what is joined is mostly an error's text, and a function for each list of
// types would be compiled hundreds of times.
template <class... Pieces>
[[gnu::always_inline]] inline std::string concat(Pieces const&... pieces) {
  return detail::join({detail::Piece(pieces)...});
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
/// A device that is lost, or a call of it that failed.
class DeviceError : public Error {
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
