#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Watch: what each run left in a tensor, for other threads to look at while the next ones run.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/core/box.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/dtype.hh"
#include "nntile/core/dynamic_array.hh"
#include "nntile/core/tiling.hh"
#include "nntile/graph/stored_bytes.hh"
#include "nntile/runtime/runtime_ref.hh"
#include "nntile/tile/elements.hh"
#include "nntile/tile/submit.hh"

namespace nntile {

/// The whole tensor, column-major, as run number `step` of its graph left it; 0 and no values
/// before a run has ended.
template <Element T> struct Latest {
  std::uint64_t step = 0;
  std::vector<T> values;
};

namespace detail {

/// Two copies of a tensor's tiles, in atomic words. A task fills the older one, so that a reader of
/// the newer one is disturbed only when two runs end meanwhile. Each copy has a version, odd while
/// the copy is being written: a sequence lock, without fences, whose words are stored with release
/// and loaded with acquire.
class WatchBlock {
 public:
  WatchBlock(std::string name, Tiling const& tiling, Index column_unit, std::size_t element_bytes)
      : name_(std::move(name)),
        tiling_(tiling),
        column_unit_(column_unit),
        element_bytes_(element_bytes) {
    for (Index tile = 0; tile < tiling_.tile_count(); ++tile) words_ += words_of(tile);
    for (Copy& copy : copies_) copy.words = std::make_unique<std::atomic<std::uint64_t>[]>(words_);
  }

  /// Takes the tiles over as those of a run. One call at a time, in the order of the runs.
  void store(std::uint64_t step, void const* const* tiles) noexcept {
    std::uint32_t const number = 1 - latest_.load(std::memory_order_relaxed) % 2;
    Copy& copy = copies_[number];
    copy.version.store(2 * step - 1, std::memory_order_relaxed);
    std::size_t at = 0;
    for (Index tile = 0; tile < tiling_.tile_count(); ++tile) {
      auto const* from = static_cast<std::byte const*>(tiles[tile]);
      std::size_t bytes = bytes_of(tile);
      for (; bytes != 0; ++at) {
        std::size_t const part = bytes < sizeof(std::uint64_t) ? bytes : sizeof(std::uint64_t);
        std::uint64_t word = 0;
        std::memcpy(&word, from, part);
        copy.words[at].store(word, std::memory_order_release);
        from += part, bytes -= part;
      }
    }
    copy.version.store(2 * step, std::memory_order_release);
    latest_.store(number, std::memory_order_release);
  }

  /// Copies the latest run's values out and returns its number; 0 if none has ended. Any thread.
  std::uint64_t load(std::byte* values) const {
    DynamicArray<std::uint64_t> words(words_);
    for (;;) {
      std::uint32_t const number = latest_.load(std::memory_order_acquire);
      if (number == nothing) return 0;
      Copy const& copy = copies_[number];
      std::uint64_t const version = copy.version.load(std::memory_order_acquire);
      for (std::size_t i = 0; i < words_; ++i)
        words[i] = copy.words[i].load(std::memory_order_acquire);
      if (version % 2 != 0 || copy.version.load(std::memory_order_relaxed) != version) continue;
      std::uint64_t const* tile_words = words.data();
      for (Index tile = 0; tile < tiling_.tile_count(); tile_words += words_of(tile), ++tile)
        copy_from_tile(reinterpret_cast<std::byte const*>(tile_words), tiling_.box(tile), values,
                       tiling_.shape(), element_bytes_, column_unit_);
      return version / 2;
    }
  }

  std::string const& name() const { return name_; }
  Tiling const& tiling() const { return tiling_; }
  /// The operand that its tasks write, which orders those of several runs.
  std::span<std::byte> order() { return std::as_writable_bytes(std::span(&order_, 1)); }

 private:
  static constexpr std::uint32_t nothing = 3;
  struct Copy {
    std::atomic<std::uint64_t> version{0};  // twice the run's number, or one less
    std::unique_ptr<std::atomic<std::uint64_t>[]> words;
  };

  std::size_t bytes_of(Index tile) const {
    Shape extent = tiling_.box(tile).extent;
    if (extent.size() > 0) extent[0] = leading_dimension(extent, column_unit_);
    return static_cast<std::size_t>(element_count(extent)) * element_bytes_;
  }
  std::size_t words_of(Index tile) const {
    return (bytes_of(tile) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  }

  std::string const name_;
  Tiling const tiling_;
  Index const column_unit_;
  std::size_t const element_bytes_;
  std::size_t words_ = 0;
  Copy copies_[2];
  std::atomic<std::uint32_t> latest_{nothing};
  std::uint64_t order_ = 0;
};

struct WatchArguments {
  WatchBlock* block;
  std::uint64_t step;
};
inline Status run_watch(KernelCall const& call) noexcept {
  auto const& arguments = *static_cast<WatchArguments const*>(call.arguments);
  arguments.block->store(arguments.step, call.buffers + 1);
  std::memcpy(call.buffers[0], &arguments.step, sizeof arguments.step);
  return {};
}
inline constexpr Codelet watch_codelet{"watch", &run_watch, nullptr, nullptr};

/// A watch within a compiled graph: the task that it submits at the end of each run.
template <Runtime R> class WatchTask {
 public:
  WatchTask(R& runtime, StoredSpec const& spec, std::span<typename R::Handle const> tiles,
            std::shared_ptr<WatchBlock> block)
      : WatchTask(runtime, std::move(block)) {  // its destructor follows whatever throws below
    uses_.reserve(tiles.size() + 1);
    if (!host_reaches(spec.place)) from_.assign(tiles);
    bytes_.reserve(from_.size());
    // Tasks in flight keep the block: the runtime lets go of its memory after the last of them.
    auto keeper = std::make_unique<std::shared_ptr<WatchBlock>>(block_);
    auto const order = runtime.adopt(block_->order(), host, {&release, keeper.get()});
    (void)keeper.release();
    uses_.push_back({order, Access::write});
    for (std::size_t i = 0; i < tiles.size(); ++i) {
      if (from_.empty()) {
        uses_.push_back({tiles[i], Access::read});
        continue;
      }
      std::int64_t const bytes = bytes_of(spec, static_cast<Index>(i));
      uses_.push_back(
          {runtime.allocate(static_cast<std::size_t>(bytes), host, Lifetime::persistent),
           Access::read});
      bytes_.push_back(bytes);
    }
  }
  WatchTask(WatchTask&&) noexcept = default;
  WatchTask& operator=(WatchTask&& other) noexcept {
    std::swap(runtime_, other.runtime_);
    std::swap(block_, other.block_);
    std::swap(uses_, other.uses_);
    std::swap(from_, other.from_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~WatchTask() {
    if (!uses_.empty()) runtime_.retire(uses_[0].handle);
    for (std::size_t i = 0; i < bytes_.size(); ++i) runtime_.retire(uses_[i + 1].handle);
  }

  /// Whether anybody still watches.
  bool wanted() const noexcept { return block_.use_count() > own_references; }
  Event submit(std::uint64_t step) const {
    TaskLabel const label{block_->name().c_str(), -1};
    for (std::size_t i = 0; i < from_.size(); ++i)
      (void)submit_copy(runtime_.get("watch"), from_[i], uses_[i + 1].handle, bytes_[i], label);
    WatchArguments const arguments{block_.get(), step};
    return nntile::submit(
        runtime_.get("watch"),
        Task<typename R::Handle>{
            &watch_codelet, uses_, std::as_bytes(std::span(&arguments, 1)), {}, label});
  }

 private:
  WatchTask(R& runtime, std::shared_ptr<WatchBlock> block)
      : runtime_(runtime), block_(std::move(block)) {}

  static constexpr long own_references = 2;  // this object's and the adopted memory's
  static void release(void* keeper) noexcept {
    delete static_cast<std::shared_ptr<WatchBlock>*>(keeper);
  }

  RuntimeRef<R> runtime_;
  std::shared_ptr<WatchBlock> block_;
  DynamicArray<Use<typename R::Handle>> uses_;
  DynamicArray<typename R::Handle> from_;  // the tiles, where the host does not reach them
  DynamicArray<std::int64_t> bytes_;       // of their copies, which the task reads
};

}  // namespace detail

/// Looks at a tensor of a compiled graph from any thread, while the graph runs or after its end.
/// Copies look at the same; when the last is gone, runs do not copy for it any more.
template <Element T> class Watch {
 public:
  explicit Watch(std::shared_ptr<detail::WatchBlock const> block) : block_(std::move(block)) {}

  /// The values that the last finished run left, all of one run. Never waits for a run or a thread;
  /// copies again where two runs have ended meanwhile.
  Latest<T> latest() const {
    detail::Elements<T> values(static_cast<std::size_t>(element_count(block_->tiling().shape())));
    std::uint64_t const step = block_->load(reinterpret_cast<std::byte*>(values.data()));
    if (step == 0) values.clear();
    return {step, detail::vector_of(std::move(values))};
  }

 private:
  std::shared_ptr<detail::WatchBlock const> block_;
};

}  // namespace nntile
