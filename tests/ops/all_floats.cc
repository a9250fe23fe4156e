// SPDX-License-Identifier: BSD-3-Clause
// A command, not a test: the library's functions on every float there is. Their largest error
// against libm in double, and whether each instruction set has the bits of the scalar definition.
//
// usage: all_floats [--slices FIRST END] [FUNCTION...]    of 64 slices; exp log tanh erf
// One thread, a minute or two a function. Progress on standard error, the outcome on standard
// output; ends with 1 if a bound is broken or a bit differs.

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

// The scalar definition. Compiled with -mfma on x86, or FMA is libm's: exact, and slow.
#define NNTILE_SCALAR_FMA
#include "kernels/cpu/functions.hh"
#include "nntile/ops/elementwise.hh"
#include "nntile/ops/kernel.hh"

namespace {

using namespace nntile;
namespace scalar = kernels::plain;
using V = scalar::Vec<float>;

struct NoAttrs {};

struct Function {
  char const* name;
  double (*exact)(double);
  float (*scalar)(float);
  double bound;  // ulp
};
constexpr Function functions[] = {
    {"exp", std::exp, [](float x) { return scalar::exp(V::raw(x)).v; }, 1.1},
    {"log", std::log, [](float x) { return scalar::log(V::raw(x)).v; }, 1.1},
    {"tanh", std::tanh, [](float x) { return scalar::tanh(V::raw(x)).v; }, 1.4},
    {"erf", std::erf, [](float x) { return scalar::erf(V::raw(x)).v; }, 1.1}};

/// |value - exact| in units of the last place of a float near `exact`.
double ulps(float value, double exact) {
  if (std::isnan(exact)) return std::isnan(value) ? 0 : INFINITY;
  auto const rounded = static_cast<float>(exact);
  if (std::isinf(value) || std::isinf(rounded)) return value == rounded ? 0 : INFINITY;
  int exponent = static_cast<int>(std::bit_cast<std::uint64_t>(exact) >> 52 & 0x7ff) - 1023;
  if (exponent < -126) exponent = -126;
  auto const inverse = static_cast<std::uint64_t>(1023 + 23 - exponent) << 52;  // 1 / ulp
  return std::fabs(static_cast<double>(value) - exact) * std::bit_cast<double>(inverse);
}

struct Outcome {
  double worst = 0;
  float where = 0;
  std::uint64_t different = 0;
};

class Check {
 public:
  explicit Check(Function const& function) : function_(function) {
    for (Isa const isa : {Isa::plain, Isa::v3, Isa::v4})
      if (kernels::available(isa)) isas_.push_back(isa);
  }

  /// Looks at `count` patterns from `first` on.
  void look(std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t at = first; at < first + count; at += chunk) look_at(at);
  }
  Outcome const& outcome() const { return outcome_; }
  std::string isas() const {
    std::string text;
    for (Isa const isa : isas_) text += std::string(text.empty() ? "" : ", ") + name_of(isa);
    return text;
  }

 private:
  static constexpr std::size_t chunk = 1 << 12;

  void look_at(std::uint64_t first) {
    for (std::size_t i = 0; i < chunk; ++i) {
      x_[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i));
      expected_[i] = function_.scalar(x_[i]);
    }
    for (std::size_t i = 0; i < chunk; ++i) {
      double const error = ulps(expected_[i], function_.exact(static_cast<double>(x_[i])));
      if (!(error <= outcome_.worst)) outcome_.worst = error, outcome_.where = x_[i];
    }
    for (Isa const isa : isas_) {
      run(isa);
      if (std::memcmp(y_, expected_, sizeof y_) == 0) continue;
      for (std::size_t i = 0; i < chunk; ++i)
        if (std::memcmp(y_ + i, expected_ + i, sizeof(float)) != 0 && outcome_.different++ < 5)
          std::fprintf(stderr, "%s(%a) is %a on %s, %a in scalar\n", function_.name,
                       static_cast<double>(x_[i]), static_cast<double>(y_[i]), name_of(isa),
                       static_cast<double>(expected_[i]));
    }
  }

  void run(Isa isa) {
    std::string const name = std::string("function_") + function_.name;
    auto const* const kernel = kernels::find(name, DType::fp32, DType::fp32, Mode::exact, isa);
    ElementwiseArgs<NoAttrs> const args{static_cast<Index>(chunk), {}};
    void* const buffers[] = {x_, y_};
    char text[status_text_bytes];
    if (kernel == nullptr || !kernel->cpu({buffers, &args, text}).ok()) {
      std::fprintf(stderr, "there is no %s for %s\n", name.c_str(), name_of(isa));
      std::exit(1);
    }
  }

  Function const& function_;
  std::vector<Isa> isas_;
  Outcome outcome_;
  alignas(64) float x_[chunk], y_[chunk], expected_[chunk];
};

/// Whether the function keeps its bound and its bits.
bool check(Function const& function, int first, int end) {
  constexpr int slices = 64;
  constexpr std::uint64_t size = (std::uint64_t{1} << 32) / slices;
  auto const check = std::make_unique<Check>(function);
  for (int slice = first; slice < end && slice < slices; ++slice) {
    check->look(static_cast<std::uint64_t>(slice) * size, size);
    std::fprintf(stderr, "%s: slice %d of %d, %.4f ulp so far\n", function.name, slice + 1, slices,
                 check->outcome().worst);
  }
  Outcome const& outcome = check->outcome();
  std::printf("%-4s slices %d to %d of %d: %.4f ulp at %a, bound %.1f; ", function.name, first + 1,
              end, slices, outcome.worst, static_cast<double>(outcome.where), function.bound);
  if (outcome.different == 0)
    std::printf("scalar = %s on every one\n", check->isas().c_str());
  else
    std::printf("%llu differ from scalar\n", static_cast<unsigned long long>(outcome.different));
  std::fflush(stdout);
  return outcome.worst <= function.bound && outcome.different == 0;
}

}  // namespace

int main(int argc, char** argv) {
  int first = 0, end = 64;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--slices") == 0 && i + 2 < argc) {
      first = std::atoi(argv[i + 1]);
      end = std::atoi(argv[i + 2]);
      i += 2;
    } else {
      wanted.push_back(argv[i]);
    }
  }
  bool well = true;
  std::size_t known = 0;
  for (Function const& function : functions) {
    bool take = wanted.empty();
    for (std::string const& name : wanted) take = take || name == function.name;
    if (!take) continue;
    ++known;
    well = check(function, first, end) && well;
  }
  if (!wanted.empty() && known != wanted.size()) {
    std::fprintf(stderr, "usage: %s [--slices FIRST END] [exp|log|tanh|erf...]\n", argv[0]);
    return 2;
  }
  return well ? 0 : 1;
}
