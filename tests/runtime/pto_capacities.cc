// SPDX-License-Identifier: BSD-3-Clause
// PTO runtimes that have all their room from construction on.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "nntile/runtime/ring/pto.hh"
#include "tests/support/allocations.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile::test;

namespace {

std::int32_t add_one(PtoCall const* call) {
  for (std::int32_t i = 0; i < call->num_buffers; ++i)
    ++*static_cast<std::uint8_t*>(call->buffers[i]);
  return 0;
}

using Pto = nntile::PtoRuntime<>;

TaskParam part(ParamType type, void* buffer, std::size_t offset, std::size_t bytes) {
  TaskParam param{};
  param.type = type;
  param.region.buffer_ptr = buffer;
  param.region.offset = offset;
  param.region.size = bytes;
  return param;
}

/// Buffers of scopes, parts of them, outputs that submission gives, blocks, and the caller's own.
void run(Pto& pto, std::int32_t buffers, std::byte* own) {
  for (int round = 0; round < 20; ++round) {
    pto.scope_begin();
    pto.scope_begin();
    for (std::int32_t b = 0; b < buffers; ++b) {
      void* const buffer = pto.alloc(256);
      for (std::size_t i = 0; i < 4; ++i) {
        TaskParam params[] = {part(PARAM_OUTPUT, buffer, 64 * i, 64), {}};
        params[1].type = PARAM_OUTPUT;
        params[1].size = 8;
        (void)pto.submit_task(0, WORKER_CPU, params, 2);
        pto.free(params[1].address);
      }
      TaskParam whole[] = {part(PARAM_INOUT, buffer, 0, 256), part(PARAM_INOUT, own, 0, 16), {}};
      whole[2].type = PARAM_REPEAT;
      whole[2].size = 3;
      (void)pto.submit_task(0, WORKER_CPU, whole, 3);
    }
    pto.scope_end();
    pto.scope_end();
    pto.wait_all();
  }
}

}  // namespace

TEST_CASE("up to max_buffers PTO calls take no memory", "[runtime][pto_capacities]") {
  constexpr std::int32_t buffers = 4;
  alignas(64) std::byte own[64] = {};
  PtoOptions options{};
  options.workers = 1;
  options.heap_size = 1 << 16;
  options.max_buffers = 10 * buffers + 1;
  Pto pto(options);
  pto.register_kernel(0, "add_one", add_one, nullptr);
  AllocationCount const allocations;
  run(pto, buffers, own);
  CHECK(allocations.calls() == 0);
  CHECK(pto.ring().stats().growths.sum() <= 1);  // what regions keep, which is made by then
  std::uint64_t const first = pto.address_growths();
  CHECK(first == 0);
  run(pto, 16 * buffers, own);
  CHECK(pto.address_growths() > 0);
}

TEST_CASE("max_buffers that cannot be are refused", "[runtime][pto_capacities]") {
  for (std::int32_t const wrong : {-1, (1 << 24) + 1}) {
    PtoOptions options{};
    options.max_buffers = wrong;
    CHECK(contains(message_of<nntile::ValueError>([&] { Pto pto(options); }),
                   nntile::concat("pto_create: max_buffers of ", wrong)));
  }
}
