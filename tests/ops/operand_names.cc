// SPDX-License-Identifier: BSD-3-Clause
// An enum of operands is compared with its table, while compiling.
#include "nntile/ops/operand_names.hh"

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

constexpr Operands table{{"a", "m n"}, {"b", "n"}, {"bcd", "n"}};

/// An op of that enum and the table.
template <class Enum> struct Of {
  using Operand = Enum;
  static constexpr Operands operands = table;
};

enum class Same : std::uint8_t { a, b, bcd };
enum class Swapped : std::uint8_t { b, a, bcd };
enum class Longer : std::uint8_t { a, b, bcd, e };
enum class Shorter : std::uint8_t { a, b };
enum class EndsAlike : std::uint8_t { a, b, abcd };
enum class Misspelt : std::uint8_t { a, b, bce };
enum class FromOne : std::uint8_t { a = 1, b, bcd };

struct One {
  enum class Operand : std::uint8_t { x };
  static constexpr Operands operands{{"x", "i..."}};
};

template <class T, int number> struct InTemplate {
  enum class Operand : std::uint8_t { x, y2 };
  static constexpr Operands operands{{"x", "i..."}, {"y2", "i..."}};
};
template <class T> struct SwappedInTemplate {
  enum class Operand : std::uint8_t { y, x };
  static constexpr Operands operands{{"x", "i..."}, {"y", "i..."}};
};

}  // namespace

TEST_CASE("an enum has the names of its table, in its order, and no more", "[ops][op_struct]") {
  using detail::names_agree;
  STATIC_REQUIRE(names_agree<Of<Same>>());
  STATIC_REQUIRE(names_agree<One>());
  STATIC_REQUIRE_FALSE(names_agree<Of<Swapped>>());
  STATIC_REQUIRE_FALSE(names_agree<Of<Longer>>());
  STATIC_REQUIRE_FALSE(names_agree<Of<Shorter>>());
  STATIC_REQUIRE_FALSE(names_agree<Of<EndsAlike>>());
  STATIC_REQUIRE_FALSE(names_agree<Of<Misspelt>>());
  STATIC_REQUIRE_FALSE(names_agree<Of<FromOne>>());
}

TEST_CASE("an op may be a template", "[ops][op_struct]") {
  using detail::names_agree;
  STATIC_REQUIRE(names_agree<InTemplate<int, 2>>());
  STATIC_REQUIRE(names_agree<InTemplate<InTemplate<One, 3>, 4>>());
#ifndef __clang__  // which spells no enumerators there
  STATIC_REQUIRE_FALSE(names_agree<SwappedInTemplate<int>>());
#else
  STATIC_REQUIRE(names_agree<SwappedInTemplate<int>>());
#endif
}
