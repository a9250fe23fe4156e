// SPDX-License-Identifier: BSD-3-Clause
// An enum of operands is compared with its table, while compiling.
#include "nntile/ops/operand_names.hh"

#include "tests/support/catch.hh"

namespace {

using namespace nntile;

constexpr Operands table{{"a", "m n"}, {"b", "n"}, {"bcd", "n"}};

struct Same {
  enum class Operand : std::uint8_t { a, b, bcd };
  static constexpr Operands operands = table;
};
struct Swapped {
  enum class Operand : std::uint8_t { b, a, bcd };
  static constexpr Operands operands = table;
};
struct Longer {
  enum class Operand : std::uint8_t { a, b, bcd, e };
  static constexpr Operands operands = table;
};
struct Shorter {
  enum class Operand : std::uint8_t { a, b };
  static constexpr Operands operands = table;
};
struct EndsAlike {
  enum class Operand : std::uint8_t { a, b, abcd };
  static constexpr Operands operands = table;
};
struct Misspelt {
  enum class Operand : std::uint8_t { a, b, bce };
  static constexpr Operands operands = table;
};
struct FromOne {
  enum class Operand : std::uint8_t { a = 1, b, bcd };
  static constexpr Operands operands = table;
};
struct One {
  enum class Operand : std::uint8_t { x };
  static constexpr Operands operands{{"x", "i..."}};
};

}  // namespace

TEST_CASE("an enum has the names of its table, in its order, and no more", "[ops][op_struct]") {
  using detail::names_agree;
  STATIC_REQUIRE(names_agree<Same>());
  STATIC_REQUIRE(names_agree<One>());
  STATIC_REQUIRE_FALSE(names_agree<Swapped>());
  STATIC_REQUIRE_FALSE(names_agree<Longer>());
  STATIC_REQUIRE_FALSE(names_agree<Shorter>());
  STATIC_REQUIRE_FALSE(names_agree<EndsAlike>());
  STATIC_REQUIRE_FALSE(names_agree<Misspelt>());
  STATIC_REQUIRE_FALSE(names_agree<FromOne>());
}
