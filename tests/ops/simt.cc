// SPDX-License-Identifier: BSD-3-Clause
// The kernels of kernels/cuda on the emulator, against those of the CPU; and what the emulator must
// notice.
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <array>
#include <cmath>

#include "kernels/cuda/launch.hh"
#include "tests/support/catch.hh"
#include "tests/support/every_op.hh"
#include "tests/support/simt/bits.hh"
#include "tests/support/simt/memory.hh"

namespace {

using namespace nntile;
using namespace nntile::test;
using kernels::cuda::launch;
using kernels::cuda::Shared;
using kernels::cuda::Thread;
using kernels::cuda::warp_size;

/// A kernel of one function, for 64 threads.
template <class Body> struct Lambda {
  static constexpr int threads = 64;
  Body body;
  void operator()(Thread& thread) const { body(thread); }
};

template <class Body> std::string run(Body body, std::size_t shared = 1024, Index blocks = 1) {
  Status const status = launch({blocks, shared}, nullptr, Lambda<Body>{body});
  return status.ok() ? "" : status.error;
}

/// What `run` says, without the numbers of threads and lines, which depend on the order.
template <class Body> std::string complaint(Body body, std::size_t shared = 1024) {
  std::string result;
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    simt::set_seed(seed);
    std::string text = run(body, shared);
    if (text.empty()) return "nothing";
    std::string const start = "block 0, thread ";
    if (text.starts_with(start)) text.erase(0, text.find(": ") + 2);
    result = text;
  }
  return result;
}

bool has(std::string const& text, char const* part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("the emulator runs each thread of each block once", "[ops][simt]") {
  std::vector<int> runs(7 * 64);
  CHECK(run(
            [&](Thread& thread) {
              ++runs[static_cast<std::size_t>(thread.block() * 64 + thread.rank())];
            },
            0, 7) == "");
  CHECK(std::count(runs.begin(), runs.end(), 1) == 7 * 64);
}

TEST_CASE("threads of the emulator exchange values through memory and lanes", "[ops][simt]") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    simt::set_seed(seed);
    std::vector<double> got(64);
    CHECK(run([&](Thread& thread) {
            Shared<double> const all = thread.shared<double>(0, 64);
            all[thread.rank()] = thread.rank();
            thread.sync();
            double value = all[63 - thread.rank()];
            thread.sync();
            all[thread.rank()] = 0;
            for (int mask = 16; mask > 0; mask /= 2) value += thread.exchange(value, mask);
            got[static_cast<std::size_t>(thread.rank())] = thread.from(value, 5);
            if (thread.ballot(thread.rank() % 3 == 0) !=
                (thread.rank() < 32 ? 0x49249249 : 0x92492492))
              got[0] = NAN;
          }) == "");
    CHECK(got[0] == 32 * 63 - 31 * 16);
    CHECK(got[63] == 31 * 16);
  }
}

TEST_CASE("the emulator refuses shared memory that is touched without a barrier between",
          "[ops][simt]") {
  CHECK(has(complaint([](Thread& thread) {
              Shared<float> const x = thread.shared<float>(0, 64);
              x[thread.rank()] = 1;
              float const next = x[(thread.rank() + 1) % 64];
              thread.sync();
              x[thread.rank()] = next;
            }),
            "of shared memory, which"));
  CHECK(has(complaint([](Thread& thread) {
              Shared<float> const x = thread.shared<float>(0, 64);
              x[thread.rank()] = 1;
              thread.sync();
              float const next = x[(thread.rank() + 1) % 64];
              x[thread.rank()] = next;
            }),
            "without a barrier between"));
  CHECK(has(complaint([](Thread& thread) { thread.shared<float>(0, 1)[0] = 1; }),
            "written without a barrier between"));
  // A barrier of the warp orders its own threads alone.
  auto const by_warps = [](int distance) {
    return [distance](Thread& thread) {
      Shared<float> const x = thread.shared<float>(0, 64);
      x[thread.rank()] = 1;
      thread.sync_warp();
      float const other = x[thread.rank() ^ distance];
      thread.sync_warp();
      x[thread.rank()] = other;
    };
  };
  CHECK(complaint(by_warps(1)) == "nothing");
  CHECK(complaint(by_warps(31)) == "nothing");
  CHECK(has(complaint(by_warps(32)), "without a barrier between"));
  // All of a warp have read; one of it writes.
  CHECK(has(complaint([](Thread& thread) {
              Shared<float> const x = thread.shared<float>(0, 1);
              if (thread.rank() == 0) x[0] = 1;
              thread.sync();
              float const value = x[0];
              if (thread.rank() == 33) x[0] = value + 1;
            }),
            "without a barrier between"));
}

TEST_CASE("the emulator refuses what is outside of shared memory, or was never written",
          "[ops][simt]") {
  CHECK(complaint([](Thread& thread) { thread.shared<float>(0, 64)[64] = 1; }) ==
        "element 64 of 64 in shared memory");
  CHECK(complaint([](Thread& thread) { thread.shared<float>(0, 64)[-1] = 1; }) ==
        "element -1 of 64 in shared memory");
  CHECK(complaint([](Thread& thread) { thread.shared<float>(4, 256); }) ==
        "bytes 4 to 1028 of 1024 of shared memory");
  CHECK(complaint([](Thread& thread) { thread.shared<double>(4, 1); }) ==
        "shared memory from byte 4, which is not a multiple of 8");
  CHECK(complaint([](Thread& thread) {
          (void)static_cast<float>(thread.shared<float>(8, 1)[0]);
        }) == "reads byte 8 of shared memory, which nothing has written");
  CHECK(complaint([](Thread& thread) { thread.set_four(thread.shared<float>(0, 64), 64, {}); }) ==
        "element 67 of 64 in shared memory");
  CHECK(complaint([](Thread& thread) { (void)thread.four(thread.shared<float>(0, 64), 2); }) ==
        "four elements from byte 8, which is not a multiple of 16");
  alignas(16) static constexpr float memory[8] = {};
  CHECK(complaint([](Thread& thread) { (void)thread.four(memory, 1); }) ==
        "four elements of memory that begin at no multiple of 16 bytes");
  CHECK(complaint([](Thread& thread) { (void)thread.four(memory, 4); }) == "nothing");
  CHECK(complaint([](Thread&) {}, 1 << 20) == "1048576 bytes of shared memory; a block has 49152");
}

TEST_CASE("the emulator refuses threads that do not come together", "[ops][simt]") {
  CHECK(has(complaint([](Thread& thread) {
              if (thread.rank() < 63) thread.sync();
            }),
            "threads do not come together: thread 0 is at sync of simt.cc:"));
  auto const two_places = [](Thread& thread) {
    if (thread.rank() % 2 == 0)
      thread.sync();
    else
      thread.sync();
  };
  CHECK(has(complaint(two_places), "thread 0 is at sync of simt.cc:"));
  CHECK(has(complaint([](Thread& thread) {
              if (thread.rank() != 40) (void)thread.exchange(1.0f, 1);
            }),
            "thread 32 is at exchange of simt.cc:"));
  CHECK(has(complaint([](Thread& thread) {
              if (thread.rank() != 40) (void)thread.exchange(1.0f, 1);
            }),
            ", thread 40 has ended"));
  CHECK(has(complaint([](Thread& thread) {
              if (thread.rank() < 32)
                thread.sync();
              else
                thread.sync_warp();
            }),
            "threads do not come together"));
  CHECK(complaint([](Thread& thread) { (void)thread.exchange(1.0f, 32); }) ==
        "exchange with lanes xor 32");
  CHECK(has(complaint([](Thread& thread) {
              if (thread.rank() != 40) (void)thread.ballot(true);
            }),
            "thread 32 is at ballot of simt.cc:"));
  CHECK(complaint([](Thread& thread) { (void)thread.from(1.0f, -1); }) == "a value from lane -1");
  // Warps need not keep step.
  CHECK(run([](Thread& thread) {
          for (int i = 0; i < thread.rank() / warp_size; ++i) (void)thread.exchange(i, 1);
        }) == "");
}

TEST_CASE("a failure in a block ends its task, and the next one runs", "[ops][simt]") {
  CHECK(run([](Thread& thread) { thread.shared<float>(0, 64)[99] = 1; }) != "");
  CHECK(run([](Thread& thread) { thread.sync(); }) == "");
}

TEST_CASE("the emulator refuses memory beside a task's operands, and writes to what it reads",
          "[ops][simt]") {
  if (sanitized) return skip("a sanitizer ends the program at such an access");
  std::vector<float> x(100), y(160), z(3);
  auto const bytes = [](std::vector<float>& of) { return reinterpret_cast<std::byte*>(of.data()); };
  simt::Operand const operands[] = {{bytes(x), 400, true},
                                    {bytes(y), 640, false},
                                    {bytes(z), 12, true},
                                    {bytes(x) + 16, 200, false},
                                    {bytes(z), 0, false}};
  for (bool const aligned : {false, true}) {
    simt::Fenced const memory(operands, aligned);
    auto const read = [&](std::size_t o, Index at) {
      auto const* const of = static_cast<float const volatile*>(memory.at(o));
      return complaint([=](Thread& thread) {
        if (thread.rank() == 40) (void)of[at];
      });
    };
    auto const write = [&](std::size_t o, Index at) {
      auto* const of = static_cast<float volatile*>(memory.at(o));
      return complaint([=](Thread& thread) {
        if (thread.rank() == 40) of[at] = 7;
      });
    };
    auto const refused = [](std::size_t o, Index at) {
      return concat("byte ", 4 * at, " of buffer ", o, ", of ",
                    o == 0   ? 400
                    : o == 1 ? 640
                             : 12,
                    " bytes");
    };
    // An end is at a page's: the other one of each by the other alignment.
    if (aligned) {
      CHECK(read(0, -1) == "touches " + refused(0, -1));
      CHECK(read(1, 160) == "touches " + refused(1, 160));
      CHECK(read(2, -1) == "touches " + refused(2, -1));
      CHECK(read(2, -4) == "touches " + refused(2, -4));
    } else {
      CHECK(read(0, 100) == "touches " + refused(0, 100));
      CHECK(read(1, -1) == "touches " + refused(1, -1));
      CHECK(read(2, 3) == "touches " + refused(2, 3));
    }
    for (std::size_t const o : {0u, 1u, 2u}) CHECK(read(o, 2) == "nothing");
    CHECK(reinterpret_cast<std::uintptr_t>(memory.at(0)) % 4 == 0);
    if (aligned) CHECK(reinterpret_cast<std::uintptr_t>(memory.at(0)) % 64 == 0);
    CHECK(static_cast<std::byte*>(memory.at(3)) - static_cast<std::byte*>(memory.at(0)) == 16);
    CHECK(write(1, 5) == "touches a byte that the task does not write, of buffer 1, of 640 bytes");
    CHECK(write(0, 5) == "nothing");
    CHECK(memory.copy_back() == "");
    CHECK(x[5] == 7);
    if (aligned) {  // on its own page
      auto const* const of = static_cast<float const*>(memory.at(2));
      CHECK(complaint([=](Thread& thread) { (void)thread.four(of, 0); }) ==
            "touches byte 15 of buffer 2, of 12 bytes");
    }
    CHECK(write(2, aligned ? 3 : -1) == "nothing");  // likewise
    CHECK(memory.copy_back() == "writes " + refused(2, aligned ? 3 : -1));
    x[5] = 0;
  }
}

TEST_CASE("faults are handled in the next test case, too", "[ops][simt]") {
  if (sanitized) return skip("a sanitizer ends the program at such an access");
  float x[16] = {};
  simt::Operand const operands[] = {{reinterpret_cast<std::byte*>(x), sizeof x, false}};
  simt::Fenced const memory(operands, true);
  auto const* const of = static_cast<float const volatile*>(memory.at(0));
  CHECK(complaint([=](Thread&) { (void)of[16]; }) == "touches byte 64 of buffer 0, of 64 bytes");
}

TEST_CASE("every kernel of the device has the bits of the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  int checked = 0;
  for (OpCase const& c : every_op()) {
    checked += check_bits(c);
    check_bits(c, canonical_cuts(c));
    check_bits(with_groups(c, 3), canonical_cuts(c));
    AxisTable const table = axes_of(c);
    for (std::size_t axis = 0; axis < table.axes.size(); ++axis)
      if (OpCase const empty = without(c, axis); !means_nothing(empty)) check_bits(empty);
  }
  CHECK(checked > 60);
}

TEST_CASE("large blocks of products begin anywhere, and apply bias and activation", "[ops][simt]") {
  if (!comparable()) return;
  for (bool const trans_a : {false, true})
    for (bool const trans_b : {false, true}) {
      Index const m = 201, k = 27, n = 133;  // a cut begins at no multiple of four
      Shape const a = trans_a ? Shape{k, m} : Shape{m, k};
      Shape const b = trans_b ? Shape{n, k} : Shape{k, n};
      OpCase const c = op_case<ops::Gemm>({.trans_a = trans_a,
                                           .trans_b = trans_b,
                                           .bias = true,
                                           .activation = Activation::gelu_tanh,
                                           .beta = trans_b ? 0.0 : 1.0},
                                          {a, b, {m}, {m, n}});
      check_bits(c, {{"m0", {70, 131}}, {"n0", {65, 68}}, {"k0", {8, 19}}});
    }
  // Whole fours at places that are no multiples of them, and batches.
  check_bits(op_case<ops::Gemm>({.batch_ndim = 1}, {{66, 9, 3}, {9, 66, 3}, {66, 66, 3}}));
  check_bits(op_case<ops::Gemm>({.beta = 0.5}, {{128, 16}, {16, 128}, {128, 128}}));
}

TEST_CASE("pairs of groups are summed in one task of the device", "[ops][simt]") {
  if (!comparable()) return;
  for (double const beta : {0.0, 1.0, 0.5}) {
    auto product = op_case<ops::Gemm>({.trans_a = true, .bias = true, .ndim = 2, .beta = beta},
                                      {{9, 7, 70}, {9, 7, 67}, {70}, {70, 67}});
    auto table = op_case<ops::EmbeddingBackward>({.beta = beta}, {{40, 5}, {33, 40, 5}, {33, 17}});
    table.prepare = [](std::vector<Array>& x) { set_classes(x[0], 13); };
    for (int const groups : {2, 3, 4}) {
      product.groups = {{"k1", groups}};
      table.groups = {{"i1", groups}};
      for (Cuts const& cuts : {Cuts{}, Cuts{{"k1", {4, 3}}}}) check_bits(product, cuts);
      for (Cuts const& cuts : {Cuts{}, Cuts{{"v0", {9, 8}}, {"i1", {4, 1}}}})
        check_bits(table, cuts);
    }
  }
}

TEST_CASE("long rows are a block's on the device, with the bits of the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const n : {1025, 1500}) {
    check_bits(op_case<ops::SumSlice>({.axis = 0, .beta = 0.5}, {{n, 3}, {3}}));
    check_bits(op_case<ops::Softmax>({}, {{n, 3}, {n, 3}}));
    check_bits(op_case<ops::Softmax>({}, {{n, 3}, {n, 3}}), {{"v0", {64, n - 64}}});
    check_bits(op_case<ops::SoftmaxBackward>({.beta = 0.5}, {{n, 3}, {n, 3}, {n, 3}}));
    check_bits(op_case<ops::LayerNorm>({}, {{n, 3}, {n}, {n}, {n, 3}, {3}, {3}}));
    check_bits(op_case<ops::LayerNormBackward>({}, {{n, 3}, {n, 3}, {n}, {3}, {3}, {n, 3}}));
    check_bits(op_case<ops::Argmax>({}, {{n, 3}, {3}}), {{"v0", {64, n - 64}}});
    check_bits(op_case<ops::SumSquares>({}, {{n, 3}, {3}}));
    OpCase loss = op_case<ops::CrossEntropy>({}, {{n, 3}, {3}, {3}, {3}, {3}});
    OpCase sample = op_case<ops::Sample>({.top_k = 99, .top_p = 0.9}, {{n, 3}, {}, {3}});
    OpCase rows = op_case<ops::Embedding>({}, {{3}, {n, 5}, {n, 3}});
    OpCase sums = op_case<ops::EmbeddingBackward>({.beta = 0.5}, {{40}, {n, 40}, {n, 5}});
    loss.prepare = [](std::vector<Array>& x) { set_classes(x[1], x[0].shape[0]); };
    rows.prepare = sums.prepare = [](std::vector<Array>& x) { set_classes(x[0], 4); };
    for (OpCase const& c : {loss, sample, rows, sums}) check_bits(c);
    sums.prepare = [](std::vector<Array>& x) { x[0].set(39, 4); };  // a row of the last token alone
    check_bits(sums);
    check_bits(loss, {{"v0", {64, n - 64}}});
  }
}

TEST_CASE("products on the device have the bits of the CPU's at ragged shapes", "[ops][simt]") {
  if (!comparable()) return;
  for (int const multiprocessors : {1, 1000}) {  // large blocks, small ones
    Multiprocessors const of_device(multiprocessors);
    for (Index const k : {1, 8, 16, 17, 35})
      for (bool const trans_a : {false, true})
        for (bool const trans_b : {false, true}) {
          Index const m = 67, n = 65;
          Shape const a = trans_a ? Shape{k, m} : Shape{m, k};
          Shape const b = trans_b ? Shape{n, k} : Shape{k, n};
          check_bits(op_case<ops::Gemm>(
              {.trans_a = trans_a, .trans_b = trans_b, .alpha = 3, .beta = 0.5}, {a, b, {m, n}}));
        }
  }
  // A result of -0 is no sum with +0.
  OpCase zeros = op_case<ops::Gemm>({.beta = 1}, {{3, 5}, {5, 3}, {3, 3}});
  zeros.prepare = [](std::vector<Array>& x) {
    for (Array& each : x) set_all(each, -0.0);
    set_all(x[1], 1);
  };
  check_bits(zeros);
}

TEST_CASE("attention on the device takes wide heads piece by piece, and what no multiple is",
          "[ops][simt]") {
  if (!comparable()) return;
  for (auto const& [d, queries, keys] :
       {std::array<Index, 3>{140, 3, 70}, {65, 66, 67}, {1, 1, 1}, {2, 3, 65}, {5, 65, 129}}) {
    Shape const q{d, 1, queries}, k{d, 1, keys}, rows{queries, 1};
    for (bool const causal : {false, true}) {
      ops::AttentionAttrs const attrs{.causal = causal, .beta_dk = 0.5};
      OpCase const forward = op_case<ops::Attention>(attrs, {q, k, k, q, rows, rows});
      OpCase back = op_case<ops::AttentionBackward>(attrs, {q, k, k, q, rows, rows, q, q, k, k});
      back.prepare = [attrs](std::vector<Array>& x) {
        run_before<ops::Attention>(attrs, x, {0, 1, 2, 3, 4, 5});
      };
      for (OpCase const& c : {forward, back}) {
        if (d != 140 || !causal) check_bits(c);
        if (keys > 64 && causal == (d == 140)) check_bits(c, {{"j", {64, keys - 64}}});
      }
    }
  }
}

TEST_CASE("attention on the device meets NaN, infinite and masked scores as the CPU does",
          "[ops][simt]") {
  if (!comparable()) return;
  double const odd[] = {NAN, INFINITY, -INFINITY, 1e38, -1e38};
  for (bool const causal : {false, true}) {
    OpCase c =
        op_case<ops::Attention>({.causal = causal, .scale = 1},
                                {{2, 1, 70}, {2, 1, 70}, {2, 1, 70}, {2, 1, 70}, {70, 1}, {70, 1}});
    for (double const value : odd) {
      c.prepare = [value](std::vector<Array>& x) {
        for (Index const key : {7, 66})
          for (Index e = 0; e < 2; ++e) x[1].set(2 * key + e, value), x[2].set(2 * key + e, value);
      };
      check_bits(c);
    }
    c.prepare = [](std::vector<Array>& x) {  // whole rows, and blocks, of -inf
      for (Index at = 0; at < x[0].count(); ++at) x[0].set(at, at % 4 < 2 ? 1 : -1);
      for (Index at = 0; at < 128; ++at) x[1].set(at, -INFINITY);
    };
    check_bits(c, {{"j", {64, 6}}});
  }
}

TEST_CASE("the device samples as the CPU does among equal, infinite and a single logit",
          "[ops][simt]") {
  if (!comparable()) return;
  for (ops::SampleAttrs const& attrs :
       {ops::SampleAttrs{.top_k = 3}, ops::SampleAttrs{.temperature = 0},
        ops::SampleAttrs{.temperature = 30, .top_k = 20, .top_p = 0.5}})
    for (Index const n : {1, 17, 1100}) {
      OpCase c = op_case<ops::Sample>(attrs, {{n, 4}, {}, {4}});
      c.prepare = [=](std::vector<Array>& x) {
        for (Index i = 0; i < n; ++i) {
          x[0].set(i, 1);
          x[0].set(n + i, i % 3 == 2 ? 5 : 0);
          x[0].set(2 * n + i, i % 5 != 0 ? -INFINITY : -static_cast<double>(i / 10));
          x[0].set(3 * n + i, i % 2 == 0 ? 0.0 : -0.0);
        }
      };
      check_bits(c);
    }
}

TEST_CASE("data that the CPU's kernels refuse gives NaN on the device, and no other access",
          "[ops][simt]") {
  if (!comparable()) return;
  auto const run_on_device = [](OpCase const& c) {
    return run_kernel(c, DType::fp32, make_operands(c, DType::fp32), {.runtime = "simt"});
  };
  auto const set_labels = [](std::vector<Array>& x, std::size_t labels) {
    for (Index i = 0; i < 4; ++i) x[labels].set(i, i == 1 ? -1 : i == 2 ? 7 : 3);
  };
  OpCase loss = op_case<ops::CrossEntropy>({}, {{7, 4}, {4}, {4}, {4}, {4}});
  loss.prepare = [=](std::vector<Array>& x) { set_labels(x, 1); };
  OpCase slope = op_case<ops::CrossEntropyBackward>({}, {{7, 4}, {4}, {4}, {4}, {4}, {7, 4}});
  slope.prepare = loss.prepare;
  OpCase rows = op_case<ops::Embedding>({}, {{4}, {5, 7}, {5, 4}});
  rows.prepare = [=](std::vector<Array>& x) { set_labels(x, 0); };
  OpCase sums = op_case<ops::EmbeddingBackward>({}, {{4}, {5, 4}, {5, 7}});
  sums.prepare = rows.prepare;
  for (OpCase const& c : {loss, slope, rows}) {
    auto const got = run_on_device(c);
    Array const& result = c.op == loss.op ? got[2] : got.back();
    Index const each = result.count() / 4;
    for (Index i = 0; i < result.count(); ++i)
      CHECK(std::isnan(result.get(i)) == (i / each == 1 || i / each == 2));
  }
  auto const table = run_on_device(sums)[2];
  for (Index i = 0; i < table.count(); ++i) CHECK((table.get(i) != 0) == (i / 5 == 3));
  OpCase draw = op_case<ops::Sample>({}, {{7, 3}, {}, {3}});
  draw.prepare = [](std::vector<Array>& x) {
    x[0].set(3, NAN);
    for (Index i = 7; i < 14; ++i) x[0].set(i, -INFINITY);
  };
  auto const drawn = run_on_device(draw)[2];
  CHECK(drawn.get(0) == -1);
  CHECK(drawn.get(1) == -1);
  CHECK(drawn.get(2) >= 0);
  OpCase step = op_case<ops::AdamwStep>({}, {{3}, {3}, {3}, {3}, {}, {}});
  step.prepare = [](std::vector<Array>& x) { set_all(x[5], 0); };
  CHECK(std::isnan(run_on_device(step)[0].get(0)));
}

TEST_CASE("zeros, NaNs and the smallest powers on the device are the CPU's", "[ops][simt]") {
  if (!comparable()) return;
  for (Index const n : {16, 64, 65, 128, 1200}) {
    OpCase c = op_case<ops::SumSlice>({.axis = 0, .beta = 1}, {{n, 2}, {2}});
    c.prepare = [](std::vector<Array>& x) {
      for (Array& each : x) set_all(each, -0.0);
    };
    check_bits(c);
    OpCase top = op_case<ops::Softmax>({}, {{n, 2}, {n, 2}});
    top.prepare = [](std::vector<Array>& x) { x[0].set(7, NAN); };
    check_bits(top);
    OpCase largest = op_case<ops::Argmax>({}, {{n, 5}, {5}});
    largest.prepare = [=](std::vector<Array>& x) {  // equal ones, two NaNs, nothing but -inf
      for (Index i = 0; i < n; ++i) {
        x[0].set(i, i % 2 == 0 ? 0.0 : -0.0);
        x[0].set(n + i, i > n / 2 ? 1 : -1);
        x[0].set(3 * n + i, -INFINITY);
      }
      x[0].set(2 * n + n / 3, NAN);
      x[0].set(2 * n + n / 2, NAN);
      x[0].set(5 * n - 1, 2);
    };
    check_bits(largest);
    check_bits(largest, {{"v0", {n / 3, n - n / 3}}});
    OpCase spread = op_case<ops::Softmax>({}, {{n, 2}, {n, 2}});
    spread.prepare = [](std::vector<Array>& x) {  // powers that are 0, subnormal and normal
      for (Index i = 0; i < x[0].count(); ++i) x[0].set(i, -static_cast<double>(i % 110));
    };
    check_bits(spread);
  }
}
