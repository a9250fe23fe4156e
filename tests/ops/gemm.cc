// SPDX-License-Identifier: BSD-3-Clause
// Matrix products against their definition, bit for bit.
#include "nntile/ops/gemm.hh"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "nntile/ops/kernel.hh"
#include "nntile/runtime/support/workspaces.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;

std::vector<Isa> sets_with_fma() {
  std::vector<Isa> result;
  for (Isa const isa : {Isa::plain, Isa::v3, Isa::v4})
    if (kernels::available(isa)) result.push_back(isa);
  return result;
}

/// A product with gaps between the columns of all three matrices.
template <class T> struct Problem {
  using V = compute_t<T>;
  using Operand = ops::Gemm::Operand;
  ops::Gemm::Args args{};
  bool biased = false, carried = false;
  std::vector<T> a, b, bias, c;
  std::vector<V> carry;

  Problem(Index m, Index n, Index k, bool trans_a, bool trans_b, unsigned seed = 1) {
    args.m = m, args.n = n, args.k = k, args.batch = 1;
    args.trans_a = trans_a, args.trans_b = trans_b;
    args.alpha = 1, args.beta = 0;
    args.lda = (trans_a ? k : m) + 3;
    args.ldb = (trans_b ? n : k) + 1;
    args.ldc = m + 2;
    std::mt19937 engine(seed);
    auto const fill = [&](std::vector<T>& x, Index count) {
      std::uniform_real_distribution<float> uniform(-1, 1);
      for (Index i = 0; i < count; ++i) x.push_back(T(static_cast<V>(uniform(engine))));
    };
    fill(a, args.lda * (trans_a ? m : k));
    fill(b, args.ldb * (trans_b ? k : n));
    fill(bias, m);
    fill(c, args.ldc * n);
    carry.assign(c.size(), V(0));
  }
  std::vector<void*> buffers() {
    std::vector<void*> list{a.data(), b.data()};
    if (biased) list.push_back(bias.data());
    list.push_back(c.data());
    if (carried) list.push_back(carry.data());
    return list;
  }
  Arguments<ops::Gemm> arguments() const {
    OperandSet present{Operand::a, Operand::b, Operand::c};
    if (biased) present.add(Operand::bias);
    if (carried) present.add(Operand::carry);
    return {args, present};
  }
  void run(Isa isa) {
    Codelet const* const kernel = kernels::find("gemm", dtype_of<T>, dtype_of<T>, Mode::exact, isa);
    REQUIRE(kernel != nullptr);
    auto const list = buffers();
    support::Workspaces const workspace(1);
    auto const given = arguments();
    CHECK(kernel->cpu({list.data(), &given, nullptr, workspace[0]}).ok());
  }
  void define() {
    auto const list = buffers();
    auto const given = arguments();
    ops::Gemm::reference<T>(args, Buffers<ops::Gemm>({list.data(), &given, nullptr}));
  }
  /// The same product in pieces of k, one after the other.
  void run_split(Isa isa, std::vector<Index> const& pieces) {
    ops::Gemm::Args const whole = args;
    Index p = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      args.k = pieces[i];
      args.a_offset = whole.trans_a ? p : p * whole.lda;
      args.b_offset = whole.trans_b ? p * whole.ldb : p;
      args.chain = {i == 0, i + 1 == pieces.size()};
      run(isa);
      p += pieces[i];
    }
    args = whole;
  }
};

template <class T> bool same_bits(std::vector<T> const& x, std::vector<T> const& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class T> std::string text(Problem<T> const& x) {
  return concat(name_of(dtype_of<T>), " m=", x.args.m, " n=", x.args.n, " k=", x.args.k,
                x.args.trans_a ? " T" : " N", x.args.trans_b ? "T" : "N", " alpha=", x.args.alpha,
                " beta=", x.args.beta);
}

template <class T>
void check_definition(Problem<T> problem, std::vector<Index> const& pieces = {}) {
  Problem<T> expected = problem;
  expected.define();
  for (Isa const isa : sets_with_fma()) {
    INFO(text(problem) << " on " << name_of(isa));
    Problem<T> got = problem;
    if (pieces.empty())
      got.run(isa);
    else
      got.run_split(isa, pieces);
    CHECK(same_bits(got.c, expected.c));
  }
}

/// Products of all four kinds with extents around the sizes of tiles.
template <class T> void check_shapes(unsigned count, Index largest) {
  std::mt19937 engine(7);
  auto const extent = [&] {
    return static_cast<Index>(1 + engine() % static_cast<unsigned>(largest));
  };
  for (unsigned i = 0; i < count; ++i) {
    Problem<T> problem(extent(), extent(), extent(), i % 2 == 1, i % 4 >= 2, i);
    double const factors[] = {0, 1, -0.7};
    problem.args.alpha = i % 5 == 0 ? 0.3 : 1;
    problem.args.beta = factors[i % 3];
    problem.biased = i % 7 == 0;
    check_definition(std::move(problem));
  }
}

}  // namespace

TEST_CASE("a product has the bits of its definition at every small shape", "[ops][gemm]") {
  for (Index m = 1; m <= 5; ++m)
    for (Index n = 1; n <= 9; ++n)
      check_definition(Problem<float>(m, n, m + n, m % 2 == 0, n % 2 == 0));
}

TEST_CASE("products of floats have the bits of their definition", "[ops][gemm]") {
  check_shapes<float>(240, 100);
}
TEST_CASE("products of doubles have the bits of their definition", "[ops][gemm]") {
  check_shapes<double>(80, 80);
}
TEST_CASE("products of bf16 are widened, summed in fp32 and rounded once", "[ops][gemm]") {
  check_shapes<bf16_t>(60, 80);
}
TEST_CASE("products of fp16 are widened, summed in fp32 and rounded once", "[ops][gemm]") {
  check_shapes<fp16_t>(60, 80);
}

TEST_CASE("products larger than a block have the bits of their definition", "[ops][gemm]") {
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      check_definition(Problem<float>(310, 33, 530, trans_a, trans_b));
      check_definition(Problem<float>(49, 451, 270, trans_a, trans_b));
    }
  check_definition(Problem<double>(130, 260, 300, true, false));
  check_definition(Problem<bf16_t>(250, 270, 300, true, false));
}

/// Products of one column, whose A is read in place: rows and chains that end anywhere in a
/// register, and rows that do not fit into the first cache.
template <class T> void check_vectors() {
  unsigned number = 0;
  double const factors[] = {0, 1, -0.7};
  for (Index const m : {1, 3, 4, 7, 8, 15, 16, 17, 33, 100, 4109})
    for (Index const k : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 70}) {
      if (m > 1000 && k > 17) continue;
      Problem<T> problem(m, 1, k, number % 2 == 1, number % 4 >= 2, number);
      problem.args.beta = factors[number % 3];
      problem.args.alpha = number % 11 == 0 ? 0.3 : 1;
      problem.biased = number % 5 == 0;
      bool const cut = sizeof(T) >= 4 && k > 1 && number % 7 == 0;  // others need a carry
      check_definition(problem, cut ? std::vector<Index>{k / 2, k - k / 2} : std::vector<Index>{});
      ++number;
    }
}
TEST_CASE("products of one column have the bits of their definition", "[ops][gemm]") {
  check_vectors<float>();
  check_vectors<double>();
  check_vectors<bf16_t>();
}

TEST_CASE("a product cut along k has the bits of the uncut one", "[ops][gemm]") {
  for (auto const& pieces : {std::vector<Index>{1, 69}, {64, 6}, {20, 17, 33}, {69, 1}}) {
    Problem<float> problem(53, 41, 70, true, false);
    problem.args.beta = 0.5;
    problem.biased = true;
    check_definition(problem, pieces);
  }
}

TEST_CASE("a narrow product cut along k goes through its carry", "[ops][gemm]") {
  Problem<bf16_t> whole(53, 41, 70, false, true);
  whole.args.beta = 0.5;
  whole.biased = true;
  Problem<bf16_t> expected = whole;
  expected.define();
  for (Isa const isa : sets_with_fma()) {
    Problem<bf16_t> cut = whole;
    cut.carried = true;
    cut.run_split(isa, {16, 50, 4});
    CHECK(same_bits(cut.c, expected.c));
  }
}

TEST_CASE("beta 0 does not look at the result", "[ops][gemm]") {
  Problem<float> problem(50, 20, 30, false, false);
  Problem<float> dirty = problem;
  for (float& value : dirty.c) value = std::numeric_limits<float>::quiet_NaN();
  problem.run(Isa::best);
  dirty.run(Isa::best);
  for (Index j = 0; j < 20; ++j)
    for (Index i = 0; i < 50; ++i)
      REQUIRE(dirty.c[static_cast<std::size_t>(i + j * 52)] ==
              problem.c[static_cast<std::size_t>(i + j * 52)]);
}

TEMPLATE_TEST_CASE("a beta that fp32 rounds to 0 looks at the result", "[ops][gemm]", float,
                   bf16_t) {
  auto const becomes_nan = [](Index n, std::uint16_t left_terms, bool finishing) {
    for (Isa const isa : sets_with_fma()) {
      Problem<TestType> problem(50, n, 30, false, false);
      problem.args.beta = 1e-60;
      problem.args.left_terms = left_terms;
      problem.args.finishing = problem.carried = finishing;
      problem.c.assign(problem.c.size(), TestType(std::numeric_limits<float>::infinity()));
      problem.run(isa);
      for (Index i = 0; i < 50; ++i)
        CHECK(std::isnan(static_cast<float>(problem.c[static_cast<std::size_t>(i)])));
    }
  };
  becomes_nan(20, 0, false);
  becomes_nan(1, 0, false);  // a vector
  becomes_nan(20, 10, false);
  becomes_nan(20, 0, true);
}

TEST_CASE("a fused activation has the bits of the separate op", "[ops][gemm]") {
  for (Isa const isa : sets_with_fma()) {
    Problem<float> fused(70, 19, 40, true, false);
    fused.biased = true;
    Problem<float> apart = fused;
    fused.args.activation = Activation::gelu_tanh;
    fused.run(isa);
    apart.run(isa);
    Codelet const* const gelu =
        kernels::find("gelutanh", DType::fp32, DType::fp32, Mode::exact, isa);
    ops::Gelutanh::Args const args{70, {}};
    for (Index j = 0; j < 19; ++j) {
      float* const column = apart.c.data() + j * apart.args.ldc;
      void* const buffers[] = {column, column};
      gelu->cpu({buffers, &args, nullptr});
    }
    CHECK(same_bits(fused.c, apart.c));
  }
}

TEST_CASE("batches of a product follow one another at their strides", "[ops][gemm]") {
  Problem<float> problem(10, 36, 12, false, false);
  problem.args.n = 12;
  problem.args.batch = 3;
  problem.args.a_stride = 0;
  problem.args.b_stride = 12 * problem.args.ldb;
  problem.args.c_stride = 12 * problem.args.ldc;
  check_definition(problem);
}

TEST_CASE("a product without FMA is within the bound of its sums", "[ops][gemm]") {
  if (!kernels::available(Isa::v2)) return test::skip("no kernels for v2");
  Problem<float> problem(37, 29, 90, true, false);
  Problem<float> expected = problem;
  problem.run(Isa::v2);
  expected.define();
  // 4 sqrt(k) u |A||B|, and |A||B| is at most k here.
  float const bound = 4 * std::sqrt(90.0f) * 6e-8f * 90;
  for (std::size_t i = 0; i < problem.c.size(); ++i)
    REQUIRE(std::fabs(problem.c[i] - expected.c[i]) <= bound);
}

TEST_CASE("the product of a vendor agrees with ours", "[ops][gemm]") {
  Codelet const* const exact =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::exact, Isa::best);
  Codelet const* const fast =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best);
  if (fast == exact) return test::skip("built without a GEMM library");
  for (int kind = 0; kind < 8; ++kind) {
    Problem<float> ours(75, 40, kind < 4 ? 90 : 0, kind % 2 == 1, kind / 2 % 2 == 1);
    ours.args.alpha = 0.5;
    ours.args.beta = 0.25;
    ours.biased = true;
    ours.args.activation = Activation::gelu_tanh;
    Problem<float> theirs = ours;
    ours.run(Isa::best);
    auto const list = theirs.buffers();
    auto const given = theirs.arguments();
    REQUIRE(fast->cpu({list.data(), &given, nullptr}).ok());
    for (std::size_t i = 0; i < ours.c.size(); ++i)
      REQUIRE(std::fabs(ours.c[i] - theirs.c[i]) <= 1e-5f);
  }
}

TEST_CASE("a vendor that counts in 32 bits refuses longer products", "[ops][gemm]") {
  Codelet const* const fast =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, Isa::best);
  std::ifstream maps("/proc/self/maps");
  std::string const loaded{std::istreambuf_iterator<char>(maps), {}};
  if (loaded.find("libopenblas") == loaded.npos) return test::skip("built without OpenBLAS");
  using Args = ops::Gemm::Args;
  for (Index Args::* const extent : {&Args::m, &Args::n, &Args::k, &Args::lda, &Args::ldb}) {
    Problem<float> problem(1, 1, 1, false, false);
    problem.args.*extent += Index{1} << 32;  // the same in 32 bits
    auto const list = problem.buffers();
    auto const given = problem.arguments();
    CHECK_FALSE(fast->cpu({list.data(), &given, nullptr}).ok());
  }
}
