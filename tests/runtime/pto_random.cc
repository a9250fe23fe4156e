// SPDX-License-Identifier: BSD-3-Clause
// Orchestration functions of random shape over the PTO calls, against the same kernels run at once.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "nntile/runtime/ring/pto.h"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

namespace {

constexpr int operands = 4;  // at most; a kernel's id is its operands' types, two bits each
constexpr std::uint64_t factor = 6364136223846793005u;

/// Mixes what is read into what is written; what accumulates commutes.
std::int32_t mix(PtoCall const* call) {
  auto const types = reinterpret_cast<std::uintptr_t>(call->context);
  auto const type = [&](int i) { return static_cast<ParamType>(types >> 2 * i & 3); };
  auto const count = [&](int i) { return call->sizes[i] / sizeof(std::uint64_t); };
  auto const at = [&](int i) { return static_cast<std::uint64_t*>(call->buffers[i]); };
  std::uint64_t h = types;
  auto const blocks = static_cast<std::size_t>(call->num_blocks);
  for (int i = 0; i < call->num_buffers; ++i)
    if (blocks == 1 && (type(i) == PARAM_INPUT || type(i) == PARAM_INOUT))
      for (std::size_t j = 0; j < count(i); ++j) h = h * factor + at(i)[j];
  for (int i = 0; i < call->num_buffers; ++i)
    for (auto j = static_cast<std::size_t>(call->block); j < count(i); j += blocks) {
      std::uint64_t const value = (h + j) * factor + static_cast<std::uint64_t>(i);
      if (type(i) == PARAM_OUTPUT) at(i)[j] = value;
      if (type(i) == PARAM_INOUT) at(i)[j] = at(i)[j] * factor + value;
      if (type(i) == PARAM_ACCUMULATE) at(i)[j] += value;
    }
  return 0;
}

/// A buffer of the runtime, and what it would hold if tasks ran at once.
struct Cell {
  std::uint64_t* there;
  std::vector<std::uint64_t> here;
  bool written = true;
};

/// One random function, run as it is made up.
class Orchestration {
 public:
  Orchestration(Runtime* rt, unsigned seed) : rt_(rt), random_(seed), scopes_(1) {
    for (std::uintptr_t types = 0; types < 1u << 2 * operands; ++types)
      REQUIRE(pto_register_kernel(rt, static_cast<std::int32_t>(types), "mix", mix,
                                  reinterpret_cast<void*>(types)) == PTO_OK);
    for (auto& array : arrays_) {
      array.assign(8, 1);
      REQUIRE(pto_adopt(rt, array.data(), 8 * sizeof(std::uint64_t)) == PTO_OK);
      scopes_[0].push_back(std::make_unique<Cell>(Cell{array.data(), array}));
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (scopes_.size() > 1) end_scope();
    REQUIRE(pto_wait_all(rt_) == PTO_OK);
    CAPTURE(pto_error_message(rt_));
    REQUIRE(pto_last_error(rt_) == PTO_OK);
    for (std::size_t i = 0; i < 3; ++i) CHECK(arrays_[i] == scopes_[0][i]->here);
    // Buffers of no scope may be looked at, too.
    for (auto const& cell : scopes_[0])
      for (std::size_t j = 0; cell->written && j < cell->here.size(); ++j)
        CHECK(cell->there[j] == cell->here[j]);
  }

 private:
  using Scope = std::vector<std::unique_ptr<Cell>>;

  std::size_t below(std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_);
  }

  void step() {
    switch (below(24)) {
      case 0:
        if (scopes_.size() < 6) {
          pto_scope_begin(rt_);
          scopes_.emplace_back();
        }
        return;
      case 1:
        if (scopes_.size() > 1) end_scope();
        return;
      case 2:
      case 3:
        allocate();
        return;
      case 4:
        free_one();
        return;
      case 5:
        if (last_ >= 0) {
          REQUIRE(pto_task_state(rt_, last_) >= 0);
          REQUIRE(pto_wait(rt_, last_) == PTO_OK);
          REQUIRE(pto_task_state(rt_, last_) >= PTO_TASK_COMPLETED);
        }
        return;
      default:
        submit();
    }
  }
  void end_scope() {
    pto_scope_end(rt_);
    scopes_.pop_back();
  }
  void allocate() {
    std::size_t const count = 1 + below(8);
    void* const memory = pto_alloc(rt_, count * sizeof(std::uint64_t));
    REQUIRE(memory != nullptr);
    add(memory, count, false);
  }
  Cell& add(void* memory, std::size_t count, bool written) {
    scopes_.back().push_back(std::make_unique<Cell>(
        Cell{static_cast<std::uint64_t*>(memory), std::vector<std::uint64_t>(count), written}));
    return *scopes_.back().back();
  }
  void free_one() {
    Scope& scope = scopes_[below(scopes_.size())];
    std::size_t const kept = &scope == &scopes_[0] ? 3 : 0;
    if (scope.size() == kept) return;
    std::size_t const i = kept + below(scope.size() - kept);
    pto_free(rt_, scope[i]->there);
    scope.erase(scope.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void submit() {
    std::vector<TaskParam> params;
    std::vector<void*> here;
    std::vector<std::size_t> sizes;
    std::vector<std::size_t> outputs;  // positions of those that the runtime gives
    std::vector<Cell*> written;
    std::uintptr_t types = 0;
    std::int32_t const blocks = below(8) == 0 ? 3 : 1;
    std::size_t const count = blocks > 1 ? 1 : 1 + below(operands);  // what blocks write is apart
    for (std::size_t i = 0; i < count; ++i) {
      ParamType type = static_cast<ParamType>(below(4));
      Scope& scope = scopes_[below(scopes_.size())];
      if (scope.empty() || (type == PARAM_OUTPUT && below(4) == 0)) {
        type = PARAM_OUTPUT;
        outputs.push_back(i);
        sizes.push_back((1 + below(8)) * sizeof(std::uint64_t));
        params.push_back({type, nullptr, sizes.back(), {}, nullptr});
        here.push_back(nullptr);
      } else {
        Cell& cell = *scope[below(scope.size())];
        if (!cell.written) type = PARAM_OUTPUT;
        std::size_t const first = cell.written ? below(cell.here.size()) : 0;
        std::size_t const length =
            cell.written ? 1 + below(cell.here.size() - first) : cell.here.size();
        if (!cell.written) written.push_back(&cell);
        sizes.push_back(length * sizeof(std::uint64_t));
        here.push_back(cell.here.data() + first);
        if (below(2) == 0)
          params.push_back({type, cell.there + first, sizes.back(), {}, nullptr});
        else
          params.push_back({type,
                            nullptr,
                            0,
                            {cell.there, first * sizeof(std::uint64_t), sizes.back(), 0, 0},
                            nullptr});
      }
      types |= static_cast<std::uintptr_t>(type) << 2 * i;
    }
    if (blocks > 1) params.push_back({PARAM_REPEAT, nullptr, 3, {}, nullptr});
    last_ =
        pto_submit_task(rt_, static_cast<std::int32_t>(types), static_cast<std::int32_t>(below(3)),
                        params.data(), static_cast<std::int32_t>(params.size()));
    CAPTURE(pto_error_message(rt_));
    REQUIRE(last_ >= 0);
    for (Cell* const cell : written) cell->written = true;
    for (std::size_t const i : outputs)
      here[i] = add(params[i].address, sizes[i] / sizeof(std::uint64_t), true).here.data();
    char message[192];
    PtoCall call{reinterpret_cast<void*>(types),
                 here.data(),
                 sizes.data(),
                 static_cast<std::int32_t>(count),
                 last_,
                 0,
                 blocks,
                 message};
    for (; call.block < blocks; ++call.block) (void)mix(&call);
  }

  Runtime* rt_;
  std::mt19937 random_;
  std::vector<std::uint64_t> arrays_[3];
  std::vector<Scope> scopes_;
  std::int32_t last_ = -1;
};

}  // namespace

TEST_CASE("random orchestration functions leave what they would one task at a time",
          "[runtime][pto_random]") {
  for (unsigned seed = 1; seed <= (nntile::test::sanitized ? 50u : 150u); ++seed) {
    for (int const workers : {1, 2, 8}) {
      CAPTURE(seed, workers);
      std::int32_t const of_kind = seed % 4 == 0 && workers == 8 ? 3 : 0;
      PtoOptions const options{workers, seed % 3 == 0 ? 50 : 0, 0, of_kind, of_kind, 0};
      Runtime* const rt = pto_create(&options, nullptr);
      REQUIRE(rt != nullptr);
      Orchestration(rt, seed).run(150);
      CHECK(pto_destroy(rt) == PTO_OK);
    }
  }
}
