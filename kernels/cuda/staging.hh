#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Pinned blocks through which copies between devices and other memory of the host go.

#include <cuda_runtime_api.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace nntile::kernels::cuda {

/// Blocks by powers of two, kept until the end: as many as copies were in flight at most. Any
/// thread may call it.
class Staging {
 public:
  Staging() = default;
  Staging(Staging const&) = delete;
  Staging& operator=(Staging const&) = delete;
  ~Staging() {
    while (all_ != nullptr) {
      std::unique_ptr<Block> const block(std::exchange(all_, all_->made_before));
      (void)cudaFreeHost(block->pinned);
    }
  }

  /// Queues target[i] = source[i], one of which is memory of the host that CUDA does not know. It
  /// is read, or written, by a function that the stream calls: not now, as copies before this one
  /// may have to write it yet.
  cudaError_t copy(void* target, void const* source, std::size_t bytes, bool to_host,
                   cudaStream_t stream) noexcept {
    Block* const block = take(bytes);
    // The driver does the same, but waits.
    if (block == nullptr) return cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream);
    block->target = to_host ? target : nullptr;
    block->source = to_host ? nullptr : source;
    block->bytes = bytes;
    if (!to_host)
      if (cudaError_t const error = cudaLaunchHostFunc(stream, &depart, block);
          error != cudaSuccess) {
        arrive(block);
        return error;
      }
    // Calls in the queue may use the block still where another is refused: it is not given again.
    if (cudaError_t const error =
            cudaMemcpyAsync(to_host ? block->pinned : target, to_host ? source : block->pinned,
                            bytes, cudaMemcpyDefault, stream);
        error != cudaSuccess)
      return error;
    return cudaLaunchHostFunc(stream, &arrive, block);
  }

 private:
  struct Block {
    Staging* owner = nullptr;
    void* pinned = nullptr;
    std::size_t number = 0;        // of its power of two
    std::size_t bytes = 0;         // that are in use
    void* target = nullptr;        // on the host; null: the bytes go to a device
    void const* source = nullptr;  // likewise; null: they come from one
    Block* next = nullptr;         // that is free, too
    Block* made_before = nullptr;
  };
  static void CUDART_CB depart(void* state) {
    auto* const block = static_cast<Block*>(state);
    std::memcpy(block->pinned, block->source, block->bytes);
  }
  static void CUDART_CB arrive(void* state) {
    auto* const block = static_cast<Block*>(state);
    if (block->target != nullptr) std::memcpy(block->target, block->pinned, block->bytes);
    std::lock_guard const lock(block->owner->mutex_);
    block->next = std::exchange(block->owner->free_[block->number], block);
  }
  /// Null: no memory.
  Block* take(std::size_t bytes) noexcept {
    auto const number = static_cast<std::size_t>(std::bit_width(bytes < 4096 ? 4095 : bytes - 1));
    {
      std::lock_guard const lock(mutex_);
      if (Block* const block = free_[number]) {
        free_[number] = block->next;
        return block;
      }
    }
    std::unique_ptr<Block> block(new (std::nothrow) Block{this, nullptr, number});
    if (block == nullptr) return nullptr;
    if (cudaHostAlloc(&block->pinned, std::size_t{1} << number, cudaHostAllocPortable) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      return nullptr;
    }
    std::lock_guard const lock(mutex_);
    block->made_before = all_;
    return all_ = block.release();
  }

  std::mutex mutex_;
  Block* free_[64] = {};
  Block* all_ = nullptr;
};

}  // namespace nntile::kernels::cuda
