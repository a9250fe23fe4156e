// SPDX-License-Identifier: BSD-3-Clause
// The library's own functions: their error, and equal bits on every instruction set.
// A sample of all floats; all_floats.cc is a command that tries every one.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

// The scalar definition, with the FMA of libm, which is exact.
#define NNTILE_SCALAR_FMA
#include "kernels/cpu/functions.hh"
#include "nntile/ops/elementwise.hh"
#include "nntile/ops/kernel.hh"
#include "tests/support/catch.hh"

namespace {

using nntile::Index;
using nntile::Isa;
namespace scalar = nntile::kernels::plain;

struct NoAttrs {};

template <class T> struct Function {
  std::string name;
  double (*exact)(double);
  long double (*exact_long)(long double);
  scalar::Vec<T> (*scalar)(scalar::Vec<T>);
  double bound;  // ulp
};

template <class T> std::vector<Function<T>> functions() {
  using V = scalar::Vec<T>;
  return {{"exp", std::exp, std::exp, [](V x) { return scalar::exp(x); }, 1.1},
          {"log", std::log, std::log, [](V x) { return scalar::log(x); }, 1.1},
          {"tanh", std::tanh, std::tanh, [](V x) { return scalar::tanh(x); }, 1.4},
          {"erf", std::erf, std::erf, [](V x) { return scalar::erf(x); }, 1.1}};
}

std::vector<Isa> instruction_sets() {
  std::vector<Isa> result;
  for (Isa const isa : {Isa::plain, Isa::v2, Isa::v3, Isa::v4})
    if (nntile::kernels::available(isa)) result.push_back(isa);
  return result;
}

template <class T>
std::vector<T> evaluate(std::string const& function, Isa isa, std::vector<T> const& x) {
  auto const* kernel = nntile::kernels::find("function_" + function, nntile::dtype_of<T>,
                                             nntile::dtype_of<T>, nntile::Mode::exact, isa);
  REQUIRE(kernel != nullptr);
  std::vector<T> y(x.size());
  nntile::ElementwiseArgs<NoAttrs> const args{static_cast<Index>(x.size()), {}};
  void* const buffers[] = {const_cast<T*>(x.data()), y.data()};
  CHECK(kernel->cpu({buffers, &args, nullptr}).ok());
  return y;
}

/// Floats whose patterns are first, first + stride, ...
std::vector<float> patterns(std::uint64_t first, std::uint64_t stride, std::size_t count) {
  std::vector<float> result;
  for (std::uint64_t bits = first; bits < (1ull << 32) && result.size() < count; bits += stride)
    result.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  return result;
}

/// |value - exact| in units of the last place of a T near `exact`.
template <class T, class Wide> double ulps(T value, Wide exact) {
  if (std::isnan(exact)) return std::isnan(value) ? 0 : INFINITY;
  if (static_cast<T>(exact) == value) {
    if (std::isinf(value)) return 0;
  } else if (std::isinf(value) || std::isinf(static_cast<T>(exact))) {
    return INFINITY;
  }
  int exponent = 0;
  std::frexp(exact, &exponent);
  exponent =
      std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits;
  return static_cast<double>(std::fabs(std::ldexp(static_cast<Wide>(value) - exact, -exponent)));
}

template <class T> std::string worst_text(std::string const& name, double worst, T where) {
  return name + ": " + std::to_string(worst) + " ulp at " + std::to_string(where);
}

void check_floats(Function<float> const& function, std::vector<float> const& x, double& worst,
                  float& where) {
  std::vector<float> const y = evaluate(function.name, nntile::kernels::best(), x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const error = ulps(y[i], function.exact(static_cast<double>(x[i])));
    if (!(error <= worst)) worst = error, where = x[i];
  }
}

bool same(std::vector<float> const& a, std::vector<float> const& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> scalar_values(Function<float> const& function, std::vector<float> const& x) {
  std::vector<float> y;
  for (float const value : x) y.push_back(function.scalar(scalar::Vec<float>::raw(value)).v);
  return y;
}

void check_bits(Function<float> const& function, std::vector<float> const& x) {
  std::vector<float> const expected = scalar_values(function, x);
  for (Isa const isa : instruction_sets()) {
    if (isa == Isa::v2) continue;  // no FMA: bits of its own
    INFO(function.name << " on " << name_of(isa));
    if (!same(evaluate(function.name, isa, x), expected)) {
      std::vector<float> const y = evaluate(function.name, isa, x);
      std::size_t i = 0;
      while (std::memcmp(&y[i], &expected[i], 4) == 0) ++i;
      FAIL("x = " << x[i] << ": " << y[i] << ", scalar " << expected[i]);
    }
  }
}

}  // namespace

TEST_CASE("functions of floats stay within their bounds", "[ops][functions]") {
  for (auto const& function : functions<float>()) {
    double worst = 0;
    float where = 0;
    check_floats(function, patterns(0, 5'003, 900'000), worst, where);
    INFO(worst_text(function.name, worst, where));
    CHECK(worst <= function.bound);
  }
}

TEST_CASE("functions of doubles stay within 1.5 ulp", "[ops][functions]") {
  for (auto const& function : functions<double>()) {
    std::vector<double> x;
    for (int i = 0; i < 200'000; ++i) x.push_back((i - 100'000) * 7.3e-5);
    for (int i = 0; i < 20'000; ++i) x.push_back(std::ldexp(1 + i * 4.9e-5, i % 2000 - 1000));
    for (int i = 0; i < 20'000; ++i) x.push_back((i - 10'000) * 0.0745);
    std::vector<double> const y = evaluate(function.name, nntile::kernels::best(), x);
    double worst = 0;
    double where = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      double const error = ulps(y[i], function.exact_long(static_cast<long double>(x[i])));
      if (!(error <= worst)) worst = error, where = x[i];
    }
    INFO(worst_text(function.name, worst, where));
    CHECK(worst <= 1.5);
  }
}

TEST_CASE("functions of floats have the scalar definition's bits on every instruction set with FMA",
          "[ops][functions]") {
  for (auto const& function : functions<float>())
    check_bits(function, patterns(1, 20'011, 220'000));
}

TEST_CASE("functions without FMA stay within 3 ulp", "[ops][functions]") {
  if (!nntile::kernels::available(Isa::v2)) return nntile::test::skip("no kernels for v2");
  for (auto const& function : functions<float>()) {
    std::vector<float> const x = patterns(1, 50'021, 90'000);
    std::vector<float> const y = evaluate(function.name, Isa::v2, x);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!(ulps(y[i], function.exact(static_cast<double>(x[i]))) <= 3))
        FAIL(function.name << " of " << x[i] << " is " << y[i]);
  }
}

TEST_CASE("functions are exact where mathematics is", "[ops][functions]") {
  float const infinity = std::numeric_limits<float>::infinity();
  CHECK(evaluate<float>("exp", Isa::best, {0.0f, -infinity, infinity}) ==
        std::vector<float>{1.0f, 0.0f, infinity});
  CHECK(evaluate<float>("log", Isa::best, {1.0f, 0.0f, infinity}) ==
        std::vector<float>{0.0f, -infinity, infinity});
  CHECK(std::signbit(evaluate<float>("tanh", Isa::best, {-0.0f})[0]));
  CHECK(std::signbit(evaluate<float>("erf", Isa::best, {-0.0f})[0]));
  CHECK(evaluate<float>("tanh", Isa::best, {-infinity, 20.0f}) == std::vector<float>{-1.0f, 1.0f});
}
