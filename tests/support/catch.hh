// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Catch2, version 2.13 or 3, under one name. Approx and SKIP differ between them: use
// WithinAbs, WithinRel and nntile::test::skip instead.
#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include "tests/support/skip.hh"
