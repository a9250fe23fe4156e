// SPDX-License-Identifier: BSD-3-Clause
// What each kernel of a device should take at best, from the op's own cost and a machine's peaks:
//   tests/test_ops '[roofline]' -o /dev/null >bench/results/device_roofline.txt
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/ops.hh"
#include "nntile/ops/all.hh"
#include "tests/support/catch.hh"
#include "tests/support/op_driver.hh"
#include "tests/support/simt/runtime.hh"

namespace {

using namespace nntile;
using test::op_case;

/// Of a data sheet: bytes and flops a second, those in fp32 on FMA units, in fp64 likewise.
struct Machine {
  char const* name;
  double bytes, fp32, fp64;
};
constexpr Machine machines[] = {
    {"H100 SXM", 3.35e12, 66.9e12, 33.5e12},  // NVIDIA H100 data sheet
    {"H200", 4.8e12, 66.9e12, 33.5e12},       // NVIDIA H200 data sheet
};

/// A call of a step of GPT-2 124M, 16 sequences of 1,024 tokens, and what its kernel does beyond
/// the op's cost: reads that miss the cache once more, work that is done again.
struct Case {
  test::OpCase call;
  double bytes = 1, flops = 1;
  char const* why = "";
  double fp64 = 0;  // operations in fp64, which the cost does not count
};

std::vector<Case> cases() {
  Index const n = 16 * 1024, e = 768, v = 50257, d = 64, h = 12, t = 1024, b = 16;
  Shape const x{e, n}, q{d, h, t, b}, rows{t, h, b}, logits{v, n}, token{n};
  std::vector<Case> all;
  auto const add = [&](test::OpCase c, double bytes = 1, double flops = 1, char const* why = "",
                       double fp64 = 0) { all.push_back({std::move(c), bytes, flops, why, fp64}); };
  char const* const issued = "an FMA takes 1.17 instructions: 7 a step, and what brings panels";
  for (auto const& [m, k] : {std::pair{3 * e, e}, {e, e}, {4 * e, e}, {e, 4 * e}, {v, e}})
    add(op_case<ops::Gemm>({}, {{m, k}, {k, n}, {m, n}}), 1, 1.17, issued);
  add(op_case<ops::Attention>({.causal = true}, {q, q, q, q, rows, rows}), 1, 1.2,
      "whole blocks on the diagonal, and powers");
  Shape const one{d, h, 1, b}, of_one{1, h, b};
  add(op_case<ops::Attention>({.cached = true}, {one, q, q, {}, one, of_one, of_one}));
  add(op_case<ops::KvCacheAppend>({}, {one, {}, q}));
  add(op_case<ops::AttentionBackward>({.causal = true}, {q, q, q, q, rows, rows, q, q, q, q}), 1,
      1.7, "7 products for 5, whole blocks on the diagonal");
  add(op_case<ops::LayerNorm>({}, {x, {e}, {e}, x, token, token}));
  add(op_case<ops::LayerNormBackward>({}, {x, x, {e}, token, token, x}));
  add(op_case<ops::Gelutanh>({}, {{4 * e, n}, {4 * e, n}}));
  add(op_case<ops::GelutanhBackward>({}, {{4 * e, n}, {4 * e, n}, {4 * e, n}}));
  add(op_case<ops::Add>({.alpha = 1, .beta = 1}, {x, x, x}));
  add(op_case<ops::AddFiber>({.axis = 0}, {x, {e}, x}));
  add(op_case<ops::SumSlice>({.axis = 1}, {x, {e}}));
  add(op_case<ops::Softmax>({}, {logits, logits}));
  add(op_case<ops::CrossEntropy>({}, {logits, token, token, token, token}));
  add(op_case<ops::CrossEntropyBackward>({}, {logits, token, token, token, token, logits}));
  add(op_case<ops::Embedding>({}, {token, {e, v}, x}));
  add(op_case<ops::EmbeddingBackward>({}, {token, x, {e, v}}), 1, 1,
      "and 8e8 comparisons by threads");
  add(op_case<ops::AdamwStep>({}, {{e, v}, {e, v}, {e, v}, {e, v}, {}, {}}));
  add(op_case<ops::SumSquares>({}, {{e, v}, {v}}));
  add(op_case<ops::ScaleBy>({}, {{}, {e, v}}));
  add(op_case<ops::Copy>({}, {{e, v}, {e, v}}));
  add(op_case<ops::Cast>({}, {{e, v}, {e, v}}));
  add(op_case<ops::Fill>({}, {{e, v}}));
  add(op_case<ops::Randn>({}, {{e, v}}), 1, 1, "60 operations in fp64 for an element",
      60 * static_cast<double>(e * v));
  add(op_case<ops::Argmax>({}, {logits, token}));
  add(op_case<ops::AddSlice>({.axis = 2}, {{e, t, b}, {e, t}, {e, t, b}}));
  add(op_case<ops::BroadcastSlice>({.axis = 1}, {{e}, x}));
  add(op_case<ops::Scale>({.alpha = 2}, {{e, v}, {e, v}}));
  add(op_case<ops::SoftmaxBackward>({}, {logits, logits, logits}));
  add(op_case<ops::LayerNormWeightBackward>({}, {x, x, token, token, {e}, {e}}));
  add(op_case<ops::CountLabels>({}, {token, {}}));
  add(op_case<ops::Sample>({}, {logits, {}, token}), 6, 1,
      "a row is read for its maximum, its sum, and 4 digits of the choice");
  char const* const launch = "nothing beside the microseconds of a launch";
  add(op_case<ops::GlobalNormAdd>({}, {{}, {}}), 1, 1, launch);
  add(op_case<ops::ClipScale>({}, {{}, {}}), 1, 1, launch);
  return all;
}

/// The dtypes for which a case is listed: where the device has neither of the usual two, all of it.
std::vector<DType> elements_of(test::OpCase const& call) {
  std::vector<DType> usual, all;
  for (DType const element : call.op->dtypes) {
    if (test::on_device(call.op->name, element, call.types(element).second) == nullptr) continue;
    all.push_back(element);
    if (element == DType::fp32 || element == DType::bf16) usual.push_back(element);
  }
  return usual.empty() ? all : usual;
}

}  // namespace

TEST_CASE("each roofline is that of a device's kernel, and of some work", "[ops]") {
  for (Case const& each : cases()) {
    CAPTURE(each.call.op->name);
    CHECK_FALSE(elements_of(each.call).empty());
    for (DType const element : elements_of(each.call))
      CHECK(test::total_cost(each.call, {}, element).bytes > 0);
  }
}

TEST_CASE("each op that a device has has a roofline", "[ops]") {
  std::vector<Case> const all = cases();
  for (OpInfo const* const op : all_ops) {
    bool on_device = false;
    for (DType const element : op->dtypes)
      for (DType const second : {element, DType::fp32, DType::int64})
        on_device = on_device || test::on_device(op->name, element, second) != nullptr;
    CAPTURE(op->name);
    CHECK(on_device == std::any_of(all.begin(), all.end(), [&](Case const& each) {
            return std::string_view(each.call.op->name) == op->name;
          }));
  }
}

TEST_CASE("rooflines of the device's kernels", "[.][roofline]") {
  std::printf(
      "# test_ops '[roofline]' -o /dev/null: a prediction, not a measurement. Seconds are what "
      "bytes or flops "
      "take at the\n# data sheet's peak, whichever is longer, for a step of GPT-2 124M, 16 "
      "sequences of 1,024 tokens.\n");
  for (Machine const& machine : machines) {
    std::printf("\n%s: %.2f TB/s, %.1f TFLOP/s in fp32 on FMA units\n", machine.name,
                machine.bytes / 1e12, machine.fp32 / 1e12);
    std::printf("%-26s %-5s %10s %10s %10s %-18s %s\n", "op", "dtype", "MB", "GFLOP", "us",
                "first operand", "bound");
    for (Case const& each : cases())
      for (DType const element : elements_of(each.call)) {
        Cost const cost = test::total_cost(each.call, {}, element);
        double const bytes = each.bytes * static_cast<double>(cost.bytes);
        double const flops = static_cast<double>(cost.flops);
        double const by_bytes = bytes / machine.bytes;
        // An operation takes the time of an FMA, two flops.
        double const by_flops = each.flops * flops / machine.fp32 + 2 * each.fp64 / machine.fp64;
        std::printf("%-26s %-5s %10.1f %10.2f %10.1f %-18s %s%s%s\n", each.call.op->name,
                    std::string(name_of(element)).c_str(), bytes / 1e6, flops / 1e9,
                    1e6 * std::max(by_bytes, by_flops), to_string(each.call.shapes.front()).c_str(),
                    by_bytes > by_flops ? "bytes" : "FMA", *each.why != 0 ? ": " : "", each.why);
      }
  }
  CHECK(cases().size() > 20);
}
