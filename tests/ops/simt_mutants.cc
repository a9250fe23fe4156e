// SPDX-License-Identifier: BSD-3-Clause
// Mistakes seeded in copies of the kernels of kernels/cuda, by simt_mutants.py: each must be found,
// by the emulator's checks or by bits.
//   test_ops '[mutant_list]' -o /dev/null    prints the list, with what finds each
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <cmath>
#include <cstdio>
#include <map>

#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/simt/bits.hh"
#include "tests/support/simt/memory.hh"
#include "tests/support/simt/seeded.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

/// A call of a copied kernel, and what it should give.
struct Trial {
  OpCase c;
  DType element = DType::fp32;
  Cuts cuts;
  int multiprocessors = 1;
  std::vector<Array> operands = {}, want = {};
};

using Prepare = std::function<void(std::vector<Array>&)>;

/// The calls of each unit.
class Calls {
 public:
  Calls() {
    products();
    rows();
    attention();
    columns();
    others();
    for (auto& [unit, calls] : of_)
      for (Trial& call : calls) {
        call.operands = make_operands(call.c, call.element);
        call.want =
            run_kernel(call.c, call.element, call.operands, {.cuts = call.cuts, .isa = Isa::v3});
      }
  }
  std::vector<Trial> const& of(std::string const& unit) const { return of_.at(unit); }

 private:
  void add(std::string const& unit, OpCase c, Cuts cuts = {}, int multiprocessors = 1,
           DType element = DType::fp32) {
    of_[unit].push_back({std::move(c), element, std::move(cuts), multiprocessors});
  }

  void products() {
    for (int const multiprocessors : {1, 1000})  // large blocks, small ones
      for (bool const trans_a : {false, true})
        for (bool const trans_b : {false, true})
          // Whole fours whose operands end at a fence, and nothing that is a multiple of anything.
          for (auto const& [m, k, n] : {std::array<Index, 3>{132, 20, 132}, {67, 19, 65}}) {
            OpCase const c = op_case<ops::Gemm>(
                {.trans_a = trans_a, .trans_b = trans_b, .bias = true, .alpha = 3, .beta = 0.5},
                {trans_a ? Shape{k, m} : Shape{m, k},
                 trans_b ? Shape{n, k} : Shape{k, n},
                 {m},
                 {m, n}});
            add("gemm", c, {}, multiprocessors);
          }
    // Panels that come by copies: large rectangles, of which the last two share rows and columns,
    // and small ones; several panels, and steps beside them, or these alone.
    for (bool const trans_a : {false, true})
      for (bool const trans_b : {false, true})
        for (auto const& [m, k, n] :
             {std::array<Index, 3>{188, 69, 252}, {64, 35, 68}, {64, 13, 64}, {64, 5, 64}})
          add("gemm", op_case<ops::Gemm>(
                          {.trans_a = trans_a, .trans_b = trans_b, .bias = true, .beta = 0.5},
                          {trans_a ? Shape{k, m} : Shape{m, k},
                           trans_b ? Shape{n, k} : Shape{k, n},
                           {m},
                           {m, n}}));
    // Results whose columns begin at no multiple of four, and infinities where beta is 0.
    OpCase odd = op_case<ops::Gemm>({.trans_a = true}, {{33, 67}, {33, 66}, {67, 66}});
    odd.prepare = [](std::vector<Array>& x) { set_all(x[2], INFINITY); };
    add("gemm", odd);
    OpCase pair =
        op_case<ops::Gemm>({.trans_a = true, .ndim = 2}, {{9, 7, 70}, {9, 7, 67}, {70, 67}});
    pair.groups = {{"k1", 2}};
    add("gemm", pair);
    pair = op_case<ops::Gemm>({.trans_b = true}, {{70, 32}, {68, 32}, {70, 68}});
    pair.groups = {{"k0", 2}};
    add("gemm", pair);
    add("gemm", op_case<ops::Gemm>({}, {{67, 19}, {19, 65}, {67, 65}}), {{"k0", {8, 11}}}, 1,
        DType::bf16);
  }

  void rows() {
    Prepare const zeros = [](std::vector<Array>& x) {
      set_all(x[0], -0.0);
      set_classes(x[1], 3);
    };
    add("sum_slice", op_case<ops::SumSlice>({.axis = 0}, {{66000, 1}, {1}}));
    for (Index const n : {70, 128, 1500, 1950}) {
      OpCase loss = op_case<ops::CrossEntropy>({}, {{n, 3}, {3}, {3}, {3}, {3}});
      Prepare const labels = [](std::vector<Array>& x) { set_classes(x[1], 3); };
      Prepare const odd = [=](std::vector<Array>& x) {
        labels(x);
        x[0].set(7, NAN);
        x[0].set(n + 20, NAN);
      };
      for (Prepare const& prepare : {labels, zeros, odd}) {
        loss.prepare = prepare;
        add("cross_entropy", loss);
      }
      for (Index const columns : {1, 3}) {  // runs of elements, and one by one
        OpCase slope = op_case<ops::CrossEntropyBackward>(
            {.beta = 0.5},
            {{n, columns}, {columns}, {columns}, {columns}, {columns}, {n, columns}});
        slope.prepare = [](std::vector<Array>& x) { set_all(x[1], 7); };
        add("cross_entropy", slope, {}, 1, DType::bf16);
      }
      add("sum_slice", op_case<ops::SumSlice>({.axis = 0, .beta = 0.5}, {{n, 3}, {3}}));
      add("sum_slice", op_case<ops::SumSlice>({.axis = 1, .alpha = 3, .beta = 0.5}, {{3, n}, {3}}));
      for (Index const rows : {1, 3})
        add("layer_norm",
            op_case<ops::LayerNorm>({}, {{n, rows}, {n}, {n}, {n, rows}, {rows}, {rows}}));
      OpCase largest = op_case<ops::Argmax>({}, {{n, 3}, {3}});
      largest.prepare = [=](std::vector<Array>& x) {
        for (Index i = 0; i < 2 * n; ++i) x[0].set(i, i % n < 5 ? 0 : static_cast<double>(i % 11));
      };
      add("argmax", largest);
      add("argmax", largest, {{"v0", {64, n - 64}}});
    }
  }

  void columns() {
    // Strips beside whole ones, a tile's rows, and those beside them.
    for (Index const k : {64, 256, 257, 512, 530})
      for (Index const m : {7, 17})
        add("sum_slice",
            op_case<ops::SumSlice>({.axis = 1, .alpha = 3, .beta = 0.5}, {{m, k, 2}, {m, 2}}));
    for (Index const tokens : {1, 127, 128, 129, 300})
      add("layer_norm",
          op_case<ops::LayerNormWeightBackward>(
              {.beta_dgamma = 0.5}, {{17, tokens}, {17, tokens}, {tokens}, {tokens}, {17}, {17}}));
    // Runs of tokens, and indices whose first token is in a later one.
    OpCase late = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{5200}, {3, 5200}, {3, 17}});
    late.prepare = [](std::vector<Array>& x) {
      for (Index i = 0; i < 5200; ++i) x[0].set(i, i / 300 == 4 || i == 20 ? 1 : 0);
      for (Index const i : {255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4116, 5000})
        for (Index const again : {0, 20}) x[0].set(i + again, static_cast<double>(i % 15) + 2);
    };
    add("embedding", late);
    OpCase wide = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{41}, {257, 41}, {257, 17}});
    wide.prepare = [](std::vector<Array>& x) { set_classes(x[0], 3); };
    add("embedding", wide);
    add("embedding", wide, {}, 1, DType::bf16);  // rows without a token are scaled alone
    OpCase twice = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{34}, {30, 34}, {30, 17}});
    twice.prepare = [](std::vector<Array>& x) {
      for (Index i = 0; i < 34; ++i) x[0].set(i, static_cast<double>(i / 2));
    };
    add("embedding", twice);
    OpCase pair = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{8, 5}, {30, 8, 5}, {30, 17}});
    pair.prepare = [](std::vector<Array>& x) { set_classes(x[0], 2); };
    pair.groups = {{"i1", 2}};
    add("embedding", pair);
  }

  void attention() {
    OpCase below =
        op_case<ops::Attention>({}, {{5, 1, 4}, {5, 1, 3}, {5, 1, 3}, {5, 1, 4}, {4, 1}, {4, 1}});
    below.prepare =
        [](std::vector<Array>& x) {  // no score is above that of a key that is not there
          for (Index i = 0; i < x[0].count(); ++i) x[0].set(i, 1 + static_cast<double>(i % 7));
          for (Index i = 0; i < x[1].count(); ++i) x[1].set(i, -2 - static_cast<double>(i % 3));
        };
    add("attention", below);
    for (auto const& [d, queries, keys] :
         {std::array<Index, 3>{5, 65, 129}, {2, 3, 65}, {64, 64, 64}})
      for (bool const causal : {false, true}) {
        Shape const q{d, 1, queries}, k{d, 1, keys}, row{queries, 1};
        ops::AttentionAttrs const attrs{.causal = causal};
        OpCase c = op_case<ops::Attention>(attrs, {q, k, k, q, row, row});
        add("attention", c);
        c.prepare = [at = keys / 2](std::vector<Array>& x) {
          x[1].set(x[1].count() / 2 + at % 2, NAN);
        };
        add("attention", c);
        OpCase back = op_case<ops::AttentionBackward>(attrs, {q, k, k, q, row, row, q, q, k, k});
        back.prepare = [attrs](std::vector<Array>& x) {
          run_before<ops::Attention>(attrs, x, {0, 1, 2, 3, 4, 5});
        };
        add("attention", back);
      }
  }

  void others() {
    OpCase narrow = op_case<ops::Cast>({}, {{320}, {320}});
    narrow.second = DType::fp64;
    narrow.prepare = [](std::vector<Array>& x) {  // ties, but for what fp32 has no place for
      for (Index i = 0; i < 320; ++i)
        x[0].set(i, 1 + static_cast<double>(2 * i + 1) * (i % 2 == 0 ? 0x1p-8 : 0x1p-11) +
                        static_cast<double>(i % 3 - 1) * 0x1p-40);
    };
    add("cast", narrow, {}, 1, DType::bf16);
    add("cast", narrow, {}, 1, DType::fp16);
    OpCase weights = op_case<ops::Cast>({}, {{323}, {323}});
    weights.second = DType::fp32;
    add("cast", weights, {}, 1, DType::bf16);
    for (Index const n : {40, 64}) {
      OpCase rows = op_case<ops::Embedding>({}, {{n}, {16, 17}, {16, n}});
      OpCase sums = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{n}, {16, n}, {16, 17}});
      rows.prepare = sums.prepare = [](std::vector<Array>& x) { set_classes(x[0], 17); };
      for (Cuts const& cuts : {Cuts{}, Cuts{{"v0", {9, 8}}}, Cuts{{"v0", {16, 1}}}}) {
        add("embedding", rows, cuts);
        add("embedding", sums, cuts);
      }
    }
    OpCase step = op_case<ops::AdamwStep>({}, {{5, 7}, {5, 7}, {5, 7}, {5, 7}, {}, {}});
    step.prepare = [](std::vector<Array>& x) {
      for (Index i = 0; i < x[3].count(); ++i) x[3].set(i, std::fabs(x[3].get(i)));
      set_all(x[5], 3);
    };
    add("adamw_step", step);
  }

  std::map<std::string, std::vector<Trial>> of_;
};

/// While it lives, kernels of these units are the copies, with this mistake.
struct Seeded {
  Seeded(simt::Unit const& unit, int number) {
    run_instead(unit.codelets);
    simt::seeded_mistake = number;
  }
  ~Seeded() {
    run_instead({});
    simt::seeded_mistake = 0;
  }
};

/// What is wrong with a call, in words, or "".
std::string wrong_in(Trial const& call) {
  simt::set_multiprocessors(call.multiprocessors);
  std::string what;
  for (std::uint64_t seed = 1; what.empty() && seed <= 2; ++seed) {
    simt::set_seed(seed);
    try {
      auto const got = run_kernel(call.c, call.element, call.operands,
                                  {.cuts = call.cuts, .isa = Isa::v3, .runtime = "simt"});
      if (std::string const bits = difference(call.c, got, call.want); !bits.empty())
        what = "bits: " + bits;
    } catch (TaskError const& error) {
      what = error.what();
      std::string const start = "failed: ";
      what.erase(0, what.find(start) + start.size());
    }
  }
  simt::set_multiprocessors(1);
  return what;
}

/// What is wrong where matrices have gaps between their lines and none after the last one, or "".
std::string wrong_in_gaps(Index m) {
  Codelet const* const gemm = on_device("gemm", DType::fp32, DType::fp32);
  Index const n = m + 4, k = 16, gap = 2;
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      auto const elements = [&](Index lines, Index of) { return lines * (of + gap) - gap; };
      std::vector<float> a(static_cast<std::size_t>(trans_a ? elements(m, k) : elements(k, m)), 1);
      std::vector<float> b(static_cast<std::size_t>(trans_b ? elements(k, n) : elements(n, k)), 1);
      std::vector<float> c(static_cast<std::size_t>(elements(n, m)), -1);
      Arguments<ops::Gemm> call{};
      call.operands = {};
      for (auto const operand :
           {ops::Gemm::Operand::a, ops::Gemm::Operand::b, ops::Gemm::Operand::c})
        call.operands.add(operand);
      ops::Gemm::Args& args = call.args;
      args.m = m, args.n = n, args.k = k, args.batch = 1;
      args.trans_a = trans_a, args.trans_b = trans_b;
      args.lda = (trans_a ? k : m) + gap, args.ldb = (trans_b ? n : k) + gap, args.ldc = m + gap;
      args.alpha = 1;
      auto const bytes = [](std::vector<float>& of, bool written) {
        return simt::Operand{reinterpret_cast<std::byte*>(of.data()), 4 * of.size(), written};
      };
      simt::Operand const operands[] = {bytes(a, false), bytes(b, false), bytes(c, true)};
      for (bool const aligned : {false, true}) {
        simt::Fenced const memory(operands, aligned);
        void* const buffers[] = {memory.at(0), memory.at(1), memory.at(2)};
        Status const status = gemm->cuda({buffers, &call, nullptr}, nullptr);
        if (!status.ok()) return status.error;
        if (std::string const wrong = memory.copy_back(); !wrong.empty()) return wrong;
      }
      for (std::size_t i = 0; i < c.size(); ++i)
        if (c[i] != (static_cast<Index>(i) % (m + gap) < m ? static_cast<float>(k) : -1.0f))
          return concat("bits: c[", i, "]");
    }
  return {};
}
/// With lines that are whole fours, and others.
std::string wrong_in_gaps() {
  std::string const wrong = wrong_in_gaps(66);
  return wrong.empty() ? wrong_in_gaps(68) : wrong;
}

/// What finds a mistake in one of the units that have it; "" if nothing does.
std::string killer_of(simt::Mutant const& mutant, Calls const& calls) {
  for (simt::Unit const& unit : simt::seeded_units()) {
    if (std::find(mutant.units.begin(), mutant.units.end(), unit.name) == mutant.units.end())
      continue;
    Seeded const seeded(unit, mutant.number);
    for (Trial const& call : calls.of(unit.name))
      if (std::string what = wrong_in(call); !what.empty()) return unit.name + ": " + what;
    if (std::string what = unit.name == "gemm" ? wrong_in_gaps() : ""; !what.empty())
      return unit.name + ", gaps: " + what;
  }
  return {};
}

}  // namespace

TEST_CASE("a product touches nothing between its operands' lines, and after the last one",
          "[ops][simt_mutants]") {
  if (comparable()) CHECK(wrong_in_gaps() == "");
}

TEST_CASE("copies of kernels without a mistake have the bits of the CPU's", "[ops][simt_mutants]") {
  if (!comparable()) return;
  Calls const calls;
  for (simt::Unit const& unit : simt::seeded_units()) {
    Seeded const seeded(unit, 0);
    for (Trial const& call : calls.of(unit.name)) {
      INFO(unit.name << " " << to_string(call.c.shapes[0]));
      REQUIRE(on_device(call.c.op->name, call.element, call.c.types(call.element).second) >=
              unit.codelets.data());
      CHECK(wrong_in(call) == "");
    }
  }
}

TEST_CASE("each mistake in a kernel is found by the emulator's checks or by bits",
          "[ops][simt_mutants]") {
  if (!comparable()) return;
  if (sanitized) return skip("a sanitizer ends the program at such an access");
  Calls const calls;
  for (simt::Mutant const& mutant : simt::mutants()) {
    INFO(mutant.source << ", " << mutant.kind << ": " << mutant.change);
    CHECK(killer_of(mutant, calls) != "");
  }
}

TEST_CASE("mistakes in kernels, and what finds each", "[.][mutant_list]") {
  if (!comparable()) return;
  Calls const calls;
  std::printf(
      "# test_ops '[mutant_list]' -o /dev/null: mistakes seeded in kernels/cuda, what finds "
      "each\n");
  for (simt::Mutant const& mutant : simt::mutants()) {
    std::string change = mutant.change, killer = killer_of(mutant, calls);
    for (std::size_t at; (at = change.find('\n')) != change.npos;) change.replace(at, 1, " ");
    std::printf("\n%d %s, %s: %s\n   %s\n", mutant.number, mutant.source.c_str(),
                mutant.kind.c_str(), change.c_str(), killer.empty() ? "SURVIVES" : killer.c_str());
  }
}
