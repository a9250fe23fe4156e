// SPDX-License-Identifier: BSD-3-Clause
// Faults that the emulator of devices must notice.
#define NNTILE_SIMT "tests/support/simt/simt.hh"

#include <cmath>

#include "kernels/cuda/launch.hh"
#include "tests/support/catch.hh"
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
        "4 elements of memory that begin at no multiple of 16 bytes");
  CHECK(complaint([](Thread& thread) { (void)thread.four(memory, 4); }) == "nothing");
  CHECK(complaint([](Thread& thread) { (void)thread.pack(memory + 2); }) ==
        "4 elements of memory that begin at no multiple of 16 bytes");
  CHECK(complaint([](Thread& thread) { CHECK(thread.pack(memory + 4).of[3] == 0); }) == "nothing");
  alignas(16) float written[8] = {};
  kernels::cuda::Pack<float> const values{{1, 2, 3, 4}};
  CHECK(complaint([&](Thread& thread) { thread.put(written + 1, values); }) ==
        "writes 16 bytes to no multiple of them");
  CHECK(complaint([&](Thread& thread) {
          if (thread.rank() == 0) thread.put(written + 4, values);
        }) == "nothing");
  CHECK((written[3] == 0 && written[4] == 1 && written[7] == 4));
  CHECK(complaint([](Thread&) {}, 1 << 20) == "1048576 bytes of shared memory; a block has 232448");
}

TEST_CASE("copies to the emulator's shared memory arrive where their thread waits", "[ops][simt]") {
  std::vector<float> from(256), got(64);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  CHECK(complaint([&](Thread& thread) {
          Shared<float> const x = thread.shared<float>(0, 128);
          int const rank = thread.rank();
          thread.copy(x, rank, from.data() + rank, true);
          thread.end_copies();
          thread.copy(x, 64 + rank, from.data() + 64 + rank, true);
          thread.copy(x, 999, from.data() - 999, false);  // not wanted
          thread.end_copies();
          thread.wait_for_copies<1>();
          float const own = x[rank];
          thread.sync();
          got[static_cast<std::size_t>(rank)] = own + x[63 - rank];
          thread.wait_for_copies<0>();
          got[static_cast<std::size_t>(rank)] += x[64 + rank];
        }) == "nothing");
  CHECK(got[0] == 63 + 64);
  CHECK(got[63] == 63 + 127);
}

TEST_CASE("the emulator refuses what touches memory to which a copy is under way", "[ops][simt]") {
  alignas(16) static constexpr float memory[64 * 4] = {};
  auto const after_copy = [](auto touch) {
    return complaint([touch](Thread& thread) {
      Shared<float> const x = thread.shared<float>(0, 64);
      thread.copy(x, thread.rank(), memory + thread.rank(), true);
      thread.end_copies();
      touch(thread, x);
    });
  };
  char const* const own = ", to which a copy of its own is under way";
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) {
              (void)static_cast<float>(x[thread.rank()]);
            }),
            own));
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) { x[thread.rank()] = 1; }), own));
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) {
              thread.copy(x, thread.rank(), memory, true);
            }),
            own));
  // A barrier alone does not wait, nor does another thread's wait.
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) {
              if (thread.rank() != 0) thread.wait_for_copies<0>();
              thread.sync();
              (void)static_cast<float>(x[0]);
            }),
            "is under way"));
  CHECK(has(after_copy([](Thread& thread, Shared<float> const&) { thread.wait_for_copies<1>(); }),
            "ends with copies for which it has not waited"));
  // Nor does a wait show others what arrived, or keep a copy from what they read.
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) {
              thread.wait_for_copies<0>();
              (void)thread.exchange(0, 1);
              (void)static_cast<float>(x[thread.rank() ^ 1]);
            }),
            "has written without a barrier between"));
  CHECK(has(after_copy([](Thread& thread, Shared<float> const& x) {
              thread.wait_for_copies<0>();
              thread.sync();
              (void)static_cast<float>(x[thread.rank() ^ 1]);
              (void)thread.exchange(0, 1);
              thread.copy(x, thread.rank(), memory, true);
            }),
            "copies to byte"));
  CHECK(has(complaint([](Thread& thread) {
              thread.copy(thread.shared<float>(0, 64), thread.rank(), memory, true);
              thread.wait_for_copies<0>();  // of no group yet
            }),
            "ends with copies for which it has not waited"));
  CHECK(complaint([](Thread& thread) {
          thread.copy_four(thread.shared<float>(0, 64), 0, memory + 1, thread.rank() == 0);
        }) == "4 elements of memory that begin at no multiple of 16 bytes");
  CHECK(complaint([](Thread& thread) {
          thread.copy_four(thread.shared<float>(0, 64), 2, memory, thread.rank() == 0);
        }) == "four elements from byte 8, which is not a multiple of 16");
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
  CHECK(has(complaint([](Thread& thread) {
              float sums[4] = {};
              if (thread.rank() != 40) thread.multiply<kernels::cuda::Factor::tf32>(sums, {}, 0, 0);
            }),
            "thread 32 is at multiply of simt.cc:"));
  CHECK(complaint([](Thread& thread) { (void)thread.from(1.0f, -1); }) == "a value from lane -1");
  // Warps need not keep step.
  CHECK(run([](Thread& thread) {
          for (int i = 0; i < thread.rank() / warp_size; ++i) (void)thread.exchange(i, 1);
        }) == "");
}

TEST_CASE("lanes of the emulator multiply together as launch.hh says", "[ops][simt]") {
  using kernels::cuda::Factor;
  // Element (row, k) of a and (k, column) of b, each exact in every format; one tile for a warp.
  auto const a = [](int row, int k) { return static_cast<float>(row % 5 - 2 + k % 3); };
  auto const b = [](int k, int column) { return static_cast<float>(k % 4 - column % 7); };
  auto const check = [&](auto tag, int depth, auto word) {
    constexpr Factor of = decltype(tag)::value;
    std::vector<float> got(16 * 8);
    CHECK(run([&](Thread& thread) {
            int const lane = thread.rank() % 32, g = lane / 4, t = lane % 4;
            float sums[4] = {1, 2, 3, 4};
            thread.template multiply<of>(sums,
                                         {{word([&](int k) { return a(g, k); }, t),
                                           word([&](int k) { return a(g + 8, k); }, t),
                                           word([&](int k) { return a(g, k); }, t + 4),
                                           word([&](int k) { return a(g + 8, k); }, t + 4)}},
                                         word([&](int k) { return b(k, g); }, t),
                                         word([&](int k) { return b(k, g); }, t + 4));
            for (int i = 0; i < 4 && thread.rank() < 32; ++i)
              got[static_cast<std::size_t>(8 * (g + i / 2 * 8) + 2 * t + i % 2)] =
                  sums[i] - static_cast<float>(i + 1);
          }) == "");
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        float sum = 0;
        for (int k = 0; k < depth; ++k) sum += a(row, k) * b(k, column);
        CHECK(got[static_cast<std::size_t>(8 * row + column)] == sum);
      }
  };
  check(std::integral_constant<Factor, Factor::bf16>{}, 16, [](auto element, int w) {
    return kernels::cuda::packed<Factor::bf16>(element(2 * w), element(2 * w + 1));
  });
  check(std::integral_constant<Factor, Factor::fp16>{}, 16, [](auto element, int w) {
    return kernels::cuda::packed<Factor::fp16>(element(2 * w), element(2 * w + 1));
  });
  // What tf32 has no bits for is left out.
  check(std::integral_constant<Factor, Factor::tf32>{}, 8,
        [](auto element, int w) { return std::bit_cast<std::uint32_t>(element(w)) | 0x1fffu; });
  CHECK(kernels::cuda::rounded_to_tf32(1 + 0x1p-11f) == std::bit_cast<std::uint32_t>(1 + 0x1p-10f));
  CHECK(kernels::cuda::rounded_to_tf32(1 + 0x0.ffp-11f) == std::bit_cast<std::uint32_t>(1.0f));
}

TEST_CASE("lanes of the emulator share four matrices of shared memory", "[ops][simt]") {
  std::vector<std::uint32_t> got(64 * 4), transposed(64 * 4);
  auto const half = [](int matrix, int row, int column) {
    return static_cast<std::uint32_t>(64 * matrix + 8 * row + column);
  };
  CHECK(run([&](Thread& thread) {
          Shared<std::uint32_t> const words = thread.shared<std::uint32_t>(0, 128);
          int const lane = thread.rank();
          if (lane < 32)  // row lane % 8 of matrix lane / 8, from word 4 lane on
            for (int i = 0; i < 4; ++i)
              words[4 * lane + i] =
                  half(lane / 8, lane % 8, 2 * i) | half(lane / 8, lane % 8, 2 * i + 1) << 16;
          thread.sync();
          auto const own = thread.matrices(words, 4 * (lane % 32));
          auto const other = thread.matrices_transposed(words, 4 * (lane % 32));
          for (int m = 0; m < 4; ++m) {
            got[static_cast<std::size_t>(4 * lane + m)] = own.of[m];
            transposed[static_cast<std::size_t>(4 * lane + m)] = other.of[m];
          }
        }) == "");
  for (int lane = 0; lane < 64; ++lane)
    for (int m = 0; m < 4; ++m) {
      int const g = lane % 32 / 4, t = lane % 4;
      auto const at = static_cast<std::size_t>(4 * lane + m);
      CHECK(got[at] == (half(m, g, 2 * t) | half(m, g, 2 * t + 1) << 16));
      CHECK(transposed[at] == (half(m, 2 * t, g) | half(m, 2 * t + 1, g) << 16));
    }
}

TEST_CASE("the emulator writes words to memory", "[ops][simt]") {
  alignas(8) static std::uint32_t to[3] = {};
  CHECK(complaint([](Thread& thread) { thread.put(to + 1, std::uint64_t{1}); }) ==
        "writes 8 bytes to no multiple of them");
  CHECK(complaint([](Thread& thread) {
          if (thread.rank() == 0) thread.put(to, std::uint64_t{1});
        }) == "nothing");
  CHECK(to[0] == 1);
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
