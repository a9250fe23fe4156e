// SPDX-License-Identifier: BSD-3-Clause
// A user's kernel in the library's microbenchmark: figures, the check before them, and their file.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <unistd.h>

#include "nntile/ops/argmax.hh"
#include "nntile/ops/cast.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/testing/bench.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;
using testing::bench_kernel;
using testing::BenchRecord;

namespace {

/// c[m] += sum_k a[k,m], with a kernel that does what a test says.
struct ColumnSums {
  static constexpr char const* name = "columns";
  static constexpr std::span<DType const> dtypes{float_dtypes};
  enum class Operand : std::uint8_t { a, c };
  static constexpr Operands operands{{"a", "k m"}, {"c", "m", Access::update}};
  struct Attrs {
    double beta = 0;
  };
  struct Args {
    Index k, m;
    double beta;
  };
  static constexpr Fields fields{field<&Attrs::beta>("beta")};
  static Index flops(Attrs const&, TileRange const& range) {
    return 10 * range.extent('k') * range.extent('m');
  }
  static Codelet const* kernel(ElementTypes types);
  static constexpr Hooks<Attrs> hooks{.flops = &flops, .kernel = &kernel};
  static constexpr char const* no_gradient = "a test needs none";

  static Args args(Attrs const& attrs, TileRange const& range) {
    return {range.extent('k'), range.extent('m'), attrs.beta};
  }
  template <Element T>
  requires(is_float(dtype_of<T>))
  static void reference(Args const& args, Buffers<ColumnSums> buffers) {
    using V = compute_t<T>;
    for (Index m = 0; m < args.m; ++m) {
      V sum = 0;
      for (Index k = 0; k < args.k; ++k) sum += V(buffers.at<T>(Operand::a)[m * args.k + k]);
      T& c = buffers.at<T>(Operand::c)[m];
      c = T(updated(args.beta, c, sum));
    }
  }
};

/// What the kernel of fp32 does, and what it saw.
struct Deeds {
  int skipped = -1;  // a column that it leaves out
  float factor = 1;  // of its sums
  char const* error = nullptr;
  int calls = 0;
  float first = 0;  // c[0] before the last call
  bool aligned = true;
} deeds;

Status columns_fp32(KernelCall const& call) noexcept {
  auto const args = arguments<ColumnSums>(call);
  Buffers<ColumnSums> const buffers(call);
  ++deeds.calls;
  deeds.aligned = deeds.aligned && reinterpret_cast<std::uintptr_t>(call.buffers[0]) % 64 == 0;
  if (deeds.error != nullptr) return {deeds.error};
  float* const c = buffers.at<float>(ColumnSums::Operand::c);
  deeds.first = c[0];
  for (Index m = 0; m < args.m; ++m) {
    if (m == deeds.skipped) continue;
    float sum = 0;
    for (Index k = 0; k < args.k; ++k)
      sum += buffers.at<float>(ColumnSums::Operand::a)[m * args.k + k];
    c[m] = updated(args.beta, c[m], deeds.factor * sum);
  }
  return {};
}
Codelet const* ColumnSums::kernel(ElementTypes types) {
  static constexpr Codelet fp32{name, &columns_fp32, nullptr, nullptr};
  return types.element == DType::fp32 ? &fp32 : nullptr;
}

testing::KernelBenchOptions const brief{.runs = 3, .seconds = 0};

std::vector<BenchRecord> measured(Deeds const& given, ColumnSums::Attrs const& attrs = {},
                                  testing::KernelBenchOptions const& options = brief) {
  deeds = given;
  return bench_kernel<ColumnSums>(attrs, {{3, 5}}, options);
}
template <class E>
std::string refusal_of(std::vector<Shape> const& shapes, testing::KernelBenchOptions const& how) {
  return message_of<E>([&] { bench_kernel<ColumnSums>({}, shapes, how); });
}
std::string refusal(Deeds const& given) {
  return message_of<Error>([&] { measured(given); });
}

}  // namespace

TEST_CASE("a kernel's figures follow from its time and the op's own cost",
          "[testing][bench_kernel]") {
  auto const records = measured({});
  REQUIRE(records.size() == 3);
  for (BenchRecord const& record : records) {
    CHECK(record.bench == "kernel");
    CHECK(record.case_name == "columns fp32 {3, 5}");
    CHECK(record.runtime == "kernel_1");
    CHECK(record.runs == 3);
    CHECK(record.low <= record.value);
    CHECK(record.value <= record.high);
  }
  CHECK(records[0].metric == "wall");
  CHECK(records[0].unit == "us");
  CHECK(records[1].metric == "gbytes_per_second");
  CHECK(records[2].metric == "gflops");
  // Of an odd number of runs the median of a rate is that of the middle time.
  CHECK(std::abs(records[1].value * records[0].value / (4 * (15 + 5) * 1e-3) - 1) < 1e-12);
  CHECK(std::abs(records[2].value * records[0].value / (150 * 1e-3) - 1) < 1e-12);
  CHECK(deeds.aligned);
}

TEST_CASE("an updated result counts twice, and is what it was before each run",
          "[testing][bench_kernel]") {
  auto const records = measured({}, {.beta = 1});
  CHECK(std::abs(records[1].value * records[0].value / (4 * (15 + 10) * 1e-3) - 1) < 1e-12);
  // Each run has one call that is not timed and one that is, from the same number on.
  float const after = deeds.first;
  (void)measured({}, {.beta = 1}, {.runs = 7, .seconds = 0});
  CHECK(deeds.first == after);
}

TEST_CASE("a short kernel is called until a run is long enough", "[testing][bench_kernel]") {
  (void)measured({}, {}, {.runs = 1, .seconds = 0});
  int const least = deeds.calls;
  auto const records = measured({}, {}, {.runs = 1, .seconds = 0.02});
  CHECK(deeds.calls > 100 * least);
  CHECK(records[0].value < 20);  // us, of one of them
}

TEST_CASE("a kernel that is wrong is refused before it is timed", "[testing][bench_kernel]") {
  CHECK(
      contains(refusal({.skipped = 4}), "bench: columns: c {4} is NaN where the reference gives "));
  CHECK(deeds.calls == 1);
  CHECK(contains(refusal({.factor = 1.0001f}), "bench: columns: c {0} is "));
  CHECK(refusal({.error = "no such column"}) == "bench: columns: no such column");
  CHECK_NOTHROW(measured({.factor = 1.0001f}, {}, {.runs = 1, .seconds = 0, .tolerance = 2e-4}));
  CHECK_NOTHROW(measured({.factor = 1 + 0x1.8p-22f}));  // of 6.9 roundings for 3 terms 6
  CHECK(contains(refusal({.factor = 1 + 0x1p-20f}), "bench: columns: c {"));
}

TEST_CASE("an infinite result is near to itself alone", "[testing][bench_kernel]") {
  auto how = brief;
  how.prepare = [](std::span<testing::Array> operands) { operands[0].set(0, HUGE_VAL); };
  CHECK_NOTHROW(measured({}, {}, how));
  CHECK(contains(message_of<Error>([&] { measured({.factor = -1}, {}, how); }),
                 "bench: columns: c {0} is -inf where the reference gives inf"));
}

TEST_CASE("other dtypes, the library's kernels and a codelet by itself are measured",
          "[testing][bench_kernel]") {
  auto narrow = brief;
  narrow.dtype = DType::bf16;
  CHECK(bench_kernel<ColumnSums>({}, {{3, 5}}, narrow)[0].case_name == "columns bf16 {3, 5}");
  for (DType const dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    auto options = brief;
    options.dtype = dtype;
    INFO(name_of(dtype));
    CHECK_NOTHROW(bench_kernel<ops::Gelutanh>({}, {{70, 3}}, options));
    auto const product = bench_kernel<ops::Gemm>({}, {{33, 17}, {17, 9}}, options);
    CHECK(std::abs(product[2].value * product[0].value / (2 * 33 * 17 * 9 * 1e-3) - 1) < 1e-12);
  }
  deeds = {};
  auto by_itself = brief;
  by_itself.kernel = op_info<ColumnSums>.reference({DType::fp32, DType::fp32});
  by_itself.name = "definition";
  CHECK(bench_kernel<ColumnSums>({}, {{3, 5}}, by_itself)[0].case_name == "definition");
  CHECK(deeds.calls == 0);
}

TEST_CASE("operands that mean something are set by the caller", "[testing][bench_kernel]") {
  auto options = brief;
  std::vector<Shape> seen;
  options.prepare = [&](std::span<testing::Array> operands) {
    for (testing::Array const& operand : operands) seen.push_back(operand.shape);
    for (Index i = 0; i < operands[1].count(); ++i) operands[1].set(i, static_cast<double>(i % 7));
  };
  auto const records = bench_kernel<ops::CrossEntropy>({}, {{7, 12}, {12}}, options);
  REQUIRE(seen.size() >= 2);
  CHECK(seen[0] == Shape{7, 12});
  CHECK(records[0].value > 0);
  CHECK_NOTHROW(bench_kernel<ops::Argmax>({}, {{7, 12}}, brief));
}

TEST_CASE("a kernel that cannot be measured is refused with the reason",
          "[testing][bench_kernel]") {
  CHECK(contains(message_of<ShapeError>([] { bench_kernel<ops::Gemm>({}, {{3, 4}, {5, 6}}); }),
                 "gemm: a[k]=4"));
  CHECK(refusal_of<ShapeError>({{3, 4}, {4}, {4}}, brief) ==
        "bench: columns: 3 shapes are given, but it takes 2 operands");
  CHECK(contains(refusal_of<TypeError>({{3, 4}}, {.dtype = DType::int64}),
                 "columns: no kernel for int64"));
  CHECK(message_of<ValueError>([] { bench_kernel<ops::Cast>({}, {{3, 4}}, brief); }) ==
        "bench: cast: it has no reference to be checked against");
  static constexpr Codelet device{"device", nullptr, nullptr, nullptr};
  CHECK(refusal_of<ValueError>({{3, 4}}, {.kernel = &device}) ==
        "bench: columns: 'device' has no entry for the CPU");
  CHECK(refusal_of<ValueError>({{3, 4}}, {.runs = 0}) == "bench: columns: 0 runs; 1 or more");
  double const none = std::nan("");
  for (double const wrong : {-1.0, none, HUGE_VAL}) {
    CHECK(contains(refusal_of<ValueError>({{3, 4}}, {.seconds = wrong}), "columns: runs of "));
    CHECK(contains(refusal_of<ValueError>({{3, 4}}, {.tolerance = wrong}), "a tolerance of "));
  }
}

TEST_CASE("a kernel of instructions that are not there is refused, as its task would be",
          "[testing][bench_kernel]") {
  for (Isa const isa : {Isa::plain, Isa::v2, Isa::v3, Isa::v4}) {
    INFO(name_of(isa));
    auto how = brief;
    how.isa = isa;
    auto const refusal =
        message_of<ValueError>([&] { bench_kernel<ops::Gelutanh>({}, {{70, 3}}, how); });
    CHECK(contains(refusal, kernels::available(isa) ? "nothing" : "bench: gelutanh: this "));
  }
}

TEST_CASE("operands that were exchanged for others are refused", "[testing][bench_kernel]") {
  auto how = brief;
  auto const refusal = [&](testing::Array const& other) {
    how.prepare = [&](std::span<testing::Array> operands) { operands[0] = other; };
    return refusal_of<ValueError>({{3, 5}}, how);
  };
  CHECK(refusal({DType::fp32, {2}}) ==
        "bench: columns: prepare made 8 bytes of fp32 {2} of a, which is fp32 {3, 5}; it may set "
        "elements alone");
  CHECK(contains(refusal({DType::fp64, {3, 5}}), "prepare made 120 bytes of fp64 {3, 5} of a"));
  testing::Array cut(DType::fp32, {3, 5});
  cut.bytes.pop_back();
  CHECK(contains(refusal(cut), "prepare made 59 bytes of fp32 {3, 5} of a"));
  CHECK(contains(refusal({DType::fp32, {3, 5}}), "nothing"));
}

TEST_CASE("there is no figure of no samples, nor a quantile beyond them",
          "[testing][bench_kernel]") {
  CHECK(message_of<ValueError>([] { testing::quantile({}, 0.5); }) ==
        "quantile 0.5 of 0 samples; one from 0 to 1, of 1 sample or more");
  CHECK_THROWS_AS(testing::bench_record("b", "c", "r", "m", "us", {}), ValueError);
  for (double const q : {-0.1, 1.1, std::nan("")})
    CHECK_THROWS_AS(testing::quantile({1, 2}, q), ValueError);
  CHECK(testing::quantile({2, 1}, 0) == 1);
  CHECK(testing::quantile({2, 1}, 1) == 2);
}

TEST_CASE("records are written as the benches write theirs, the machine's first",
          "[testing][bench_kernel]") {
  auto const path = std::filesystem::temp_directory_path() /
                    concat("nntile_records_", static_cast<std::int64_t>(getpid()), ".json");
  testing::write_records(
      path.string(),
      {testing::bench_record("kernel", "one \"case\"", "kernel_1", "wall", "us", {4, 1, 2, 3, 5})},
      io::Json::object({{"cpu", "a"}}));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  CHECK(text.str() ==
        "[\n {\n  \"cpu\": \"a\"\n },\n"
        " {\n  \"bench\": \"kernel\",\n  \"case\": \"one \\\"case\\\"\",\n  \"high\": 4.8,\n"
        "  \"low\": 1.2,\n  \"metric\": \"wall\",\n  \"runs\": 5,\n  \"runtime\": \"kernel_1\",\n"
        "  \"unit\": \"us\",\n  \"value\": 3.0\n }\n]\n");
  io::Json const machine = testing::machine_record();
  for (char const* const key : {"compiler", "cores", "cpu", "date", "kernels"})
    CHECK(machine.find(key) != nullptr);
  CHECK(message_of<Error>([] {
          testing::write_records("/no/such/folder/x.json", io::Json::array());
        }) == "cannot write records to '/no/such/folder/x.json'");
}

TEST_CASE("records with a number that no file holds leave the file as it was",
          "[testing][bench_kernel]") {
  auto const path = std::filesystem::temp_directory_path() /
                    concat("nntile_kept_", static_cast<std::int64_t>(getpid()), ".json");
  std::ofstream(path) << "of another run";
  BenchRecord const of_none = testing::bench_record("b", "c", "r", "m", "ratio", {HUGE_VAL});
  CHECK_THROWS_AS(testing::write_records(path.string(), {of_none}), ValueError);
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  CHECK(text.str() == "of another run");
}
