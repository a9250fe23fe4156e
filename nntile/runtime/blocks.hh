#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Tasks of many blocks: one submission whose parts several workers run at one time.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/runtime/concept.hh"

namespace nntile {

/// One part of a task of `count` blocks, numbered from 0.
struct Block {
  std::uint32_t index;
  std::uint32_t count;
};

/// Runs one block. What the blocks of a task write must be disjoint: they run at any time, in any
/// order and on any threads between the tasks before and those behind. The call's arguments and
/// buffers are those of the task; each body has a workspace of its own.
using BlockEntry = Status (*)(KernelCall const& call, Block block) noexcept;

/// A computation in blocks. As a codelet it runs them all, in order. Made by in_blocks.
struct BlockCodelet : Codelet {
  BlockEntry block = nullptr;
};

/// Most blocks of a task: the ring counts them in 28 bits.
inline constexpr std::uint32_t max_blocks = (1u << 28) - 1;

namespace detail {

/// Header before the arguments of a task of blocks; 16 bytes, to leave these aligned.
struct alignas(16) BlockHeader {
  std::uint32_t count;

  static BlockHeader const& of(void const* arguments) {
    return *static_cast<BlockHeader const*>(arguments);
  }
};

/// Runs one block of a task whose arguments follow a header.
inline Status run_block(BlockEntry entry, KernelCall call, std::uint32_t index) noexcept {
  std::uint32_t const count = BlockHeader::of(call.arguments).count;
  call.arguments = static_cast<std::byte const*>(call.arguments) + sizeof(BlockHeader);
  return entry(call, {index, count});
}

/// All blocks run; the task fails as the first that did.
template <BlockEntry Entry> Status run_blocks_in_order(KernelCall const& call) noexcept {
  std::uint32_t const count = BlockHeader::of(call.arguments).count;
  char text[status_text_bytes];
  KernelCall later = call;
  Status first;
  for (std::uint32_t i = 0; i < count; ++i) {
    Status const status = run_block(Entry, first.ok() ? call : later, i);
    if (first.ok() && !status.ok()) {
      first = status;
      later.text = text;  // the first one's text stays
    }
  }
  return first;
}

}  // namespace detail

/// constexpr BlockCodelet scale = in_blocks<&scale_block>("scale");
template <BlockEntry Entry>
constexpr BlockCodelet in_blocks(char const* name, std::size_t workspace = 0) {
  return {{name, &detail::run_blocks_in_order<Entry>, nullptr, nullptr, workspace}, Entry};
}

/// Runs the blocks of one task on several workers, by Blocking<R::RunsBlocks>::submit(runtime,
/// task), where R::RunsBlocks is R or a base of it. The task's codelet is a BlockCodelet, its
/// arguments begin with a BlockHeader; throws what `submit` does.
template <class R>
concept BlockRuntime = Runtime<R> && requires { typename R::RunsBlocks; };
template <class R> struct Blocking;

/// Submits one task of `blocks` blocks. It ends when all have ended, and fails as that of the
/// lowest index that failed; the others run nevertheless. Where the runtime is no BlockRuntime, as
/// inside a task that submits, one worker runs them in order. Throws what `submit` does, and
/// ValueError: 0 blocks, or more than max_blocks.
template <class R>
Event submit_blocks(R& runtime, BlockCodelet const& codelet, std::uint32_t blocks,
                    std::span<Use<typename R::Handle> const> uses,
                    std::span<std::byte const> arguments = {}, Hints hints = {},
                    TaskLabel label = {}) {
  if (blocks == 0 || blocks > max_blocks)
    throw ValueError(concat("submit: '", codelet.name, "' in ", blocks, " blocks where 1 to ",
                            max_blocks, " are possible"));
  detail::BlockHeader const header{blocks};
  alignas(std::max_align_t) std::byte few[1088];  // most tasks' arguments
  std::vector<std::byte> many;
  std::span<std::byte> bytes(few, std::min(sizeof few, sizeof header + arguments.size()));
  if (sizeof header + arguments.size() > sizeof few) {
    many.resize(sizeof header + arguments.size());
    bytes = many;
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!arguments.empty())
    std::memcpy(bytes.data() + sizeof header, arguments.data(), arguments.size());
  Task<typename R::Handle> const task{&codelet, uses, bytes, hints, label};
  if constexpr (BlockRuntime<R>) {
    using By = Blocking<typename R::RunsBlocks>;
    static_assert(
        requires { By::submit(runtime, task); },
        "include blocks.hh of the runtime's folder, as nntile/runtime/ring/blocks.hh");
    if (blocks > 1) return By::submit(runtime, task);
  }
  return runtime.submit(task);
}

}  // namespace nntile
