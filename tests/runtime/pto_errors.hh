#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What a wrong PTO call leaves: a code and words, and a runtime that goes on.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "nntile/runtime/ring/pto.h"
#include "tests/runtime/pto_program.hh"
#include "tests/support/catch.hh"

namespace nntile::test {

/// Checks code and words of the error that the last calls have left, and that tasks still run.
inline void check_error(PtoProgram const& pto, PtoCode code, std::string const& words) {
  CHECK(std::string(pto_code_name(pto_last_error(pto))) == pto_code_name(code));
  CHECK_THAT(std::string(pto_error_message(pto)), Catch::Contains(words));
  pto_clear_error(pto);
  CHECK(std::string(pto_error_message(pto)).empty());
  long x = 0;
  CHECK(pto.submit(PtoProgram::set, {{PARAM_OUTPUT, &x, 8}}, 3) >= 0);
  CHECK(pto_wait_all(pto) == PTO_OK);
  CHECK(x == 3);
  CHECK(pto_last_error(pto) == PTO_OK);
}

/// One submission that is refused.
inline void check_refused(PtoProgram const& pto, std::int32_t kernel,
                          std::initializer_list<PtoProgram::Param> params, PtoCode code,
                          std::string const& words) {
  CAPTURE(words);
  CHECK(pto.submit(kernel, params) == -code);
  check_error(pto, code, words);
}

}  // namespace nntile::test
