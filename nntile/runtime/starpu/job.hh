#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A submitted task in one block of memory, which StarPU frees when it has let go of the task.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <type_traits>

#include "nntile/runtime/concept.hh"
#include "nntile/runtime/starpu/shim.hh"
#include "nntile/runtime/support/buffer.hh"
#include "nntile/runtime/support/events.hh"

namespace nntile {

class StarPU;

namespace detail {

/// The head of the block; uses, pointers, positions and arguments follow it.
struct StarPUJob : starpu_shim::Job {
  StarPU* runtime = nullptr;
  support::TaskBody body;
  support::Events::Block* block = nullptr;
  bool on_device = false;
  unsigned* positions = nullptr;  // to fill the array of operand_of_use

  struct Free {
    void operator()(StarPUJob* job) const noexcept { std::free(job); }
  };
  using Owner = std::unique_ptr<StarPUJob, Free>;
};
static_assert(std::is_trivially_destructible_v<StarPUJob>, "StarPU frees a job with free()");

/// Copies a task whose uses are bound already. Throws std::bad_alloc. Cost: one malloc.
inline StarPUJob::Owner make_starpu_job(Task<DataHandle> const& task,
                                        std::span<Use<support::Buffer*> const> uses,
                                        std::uint64_t sequence) {
  constexpr std::size_t alignment = alignof(std::max_align_t);
  auto const aligned = [](std::size_t bytes) {
    return (bytes + alignment - 1) / alignment * alignment;
  };
  std::size_t const uses_at = aligned(sizeof(StarPUJob));
  std::size_t const pointers_at = uses_at + uses.size_bytes();
  std::size_t const positions_at = pointers_at + uses.size() * sizeof(void*);
  std::size_t const arguments_at = aligned(positions_at + uses.size() * sizeof(unsigned));
  auto* const memory = static_cast<std::byte*>(std::malloc(arguments_at + task.arguments.size()));
  if (memory == nullptr) throw std::bad_alloc();

  StarPUJob::Owner job(new (memory) StarPUJob);
  auto* const copied = reinterpret_cast<Use<support::Buffer*>*>(memory + uses_at);
  std::uninitialized_copy(uses.begin(), uses.end(), copied);
  job->pointers = reinterpret_cast<void**>(memory + pointers_at);
  std::uninitialized_value_construct_n(job->pointers, uses.size());
  job->positions = reinterpret_cast<unsigned*>(memory + positions_at);
  std::uninitialized_value_construct_n(job->positions, uses.size());
  if (!task.arguments.empty())
    std::memcpy(memory + arguments_at, task.arguments.data(), task.arguments.size());
  job->operand_of_use = job->positions;
  job->use_count = static_cast<unsigned>(uses.size());
  job->body = {task.codelet,          sequence,  {copied, uses.size()}, job->pointers,
               memory + arguments_at, task.label};
  return job;
}

}  // namespace detail
}  // namespace nntile
