#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What CLI11 lets pass of an option's text: empty ones, wrapped numbers, octal ones.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"

namespace gpt2 {

/// What can't be less than 0; CLI11's own says a range of 600 digits, its sizes wrap, and a number
/// of more digits than there can be becomes the largest.
inline CLI::Validator not_negative(std::size_t digits = 18) {
  return {[digits](std::string& given) {
            given.erase(0, given.find_first_not_of(" \t"));  // from wc, for example
            if (given.starts_with('-')) return given + " is less than 0";
            std::string_view number = given;
            auto const skip = [&number](std::string_view characters) {
              number.remove_prefix(std::min(number.find_first_not_of(characters), number.size()));
            };
            skip("+");
            bool const hexadecimal = number.starts_with("0x");
            if (hexadecimal) number.remove_prefix(2), skip("0");
            std::size_t const most = hexadecimal ? digits * 5 / 6 : digits;  // 4 bits, not 3.3
            auto const other =
                number.find_first_not_of(hexadecimal ? "0123456789abcdefABCDEF" : "0123456789");
            if (number.size() > most && other == number.npos)
              return nntile::concat(given, " has more than ", most, " digits");
            return std::string();
          },
          ""};
}
/// What has a default or is off when it is left out: an empty text is a variable that was not set.
inline CLI::Validator not_empty() {
  return {[](std::string& given) {
            return given.empty() ? "is empty; give one, or leave the option out" : std::string();
          },
          ""};
}

/// Whole numbers from `least` to `most`: of others CLI11 says no more than that its type has none.
inline CLI::Validator within(std::int64_t least, std::int64_t most) {
  return {[least, most](std::string& given) {
            std::int64_t number = 0;  // of larger ones the largest
            bool const is = CLI::detail::lexical_cast(given, number);
            return is && (number < least || number > most)
                       ? nntile::concat(given, " is outside ", least, " to ", most)
                       : std::string();
          },
          ""};
}

/// Whole numbers and others, which CLI11 takes for 0 where nothing is given, and for octal where
/// they begin with 0; of others it does not say what it needs.
inline void check_numbers(CLI::App& command) {
  auto const unfit = [](std::string& given) {
    std::string_view digits = given;
    digits.remove_prefix(std::min(digits.find_first_not_of("+- \t"), digits.size()));
    bool const is = digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9';
    if (is && digits.find_first_not_of("0123456789") == digits.npos)
      return given + " begins with 0; leave that out";
    std::int64_t number = 0;
    return CLI::detail::lexical_cast(given, number) ? std::string()
                                                    : "'" + given + "' is no whole number";
  };
  auto const no_number = [](std::string& given) {
    double number = 0;
    return CLI::detail::lexical_cast(given, number)
               ? std::string()
               : "'" + given + "' is no number; write it as 0.003 or 3e-3";
  };
  for (CLI::Option* const option : command.get_options()) {
    bool const whole = option->get_type_name().find("INT") != std::string::npos;
    bool const real = option->get_type_name().starts_with("FLOAT");
    if (whole || real) option->check(not_empty());
    if (whole) option->check({unfit, ""});
    if (real) option->check({no_number, ""});
  }
}

/// Bytes: 400MB, 2GB, each unit 1024 of the one before.
inline void add_bytes(CLI::App& app, char const* name, std::uint64_t& bytes, char const* text) {
  app.add_option(name, bytes, text)
      ->transform(CLI::AsSizeValue(false))
      ->transform({[](std::string& given) {
                     return given.find('.') == given.npos
                                ? std::string()
                                : given +
                                      " is no whole number; take a smaller unit, as 512MB for "
                                      "0.5GB";
                   },
                   ""})
      ->transform(not_negative());  // the later is the first
}

}  // namespace gpt2
