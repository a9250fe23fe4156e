// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Random recorded programs over cells of 64 bits, and what they leave when run in order.

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "nntile/runtime/concept.hh"

namespace nntile::test {

constexpr std::uint64_t scramble(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = (a ^ (b >> 29)) * 0x9e3779b97f4a7c15u + b;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;  // splitmix64
  return x ^ (x >> 31);
}

/// Arguments of a task of a random program; its accesses are the low bits of `accesses`, two each.
struct MixArguments {
  std::uint64_t salt = 0;
  std::uint64_t accesses = 0;
  std::uint32_t operands = 0;
  std::uint32_t fails = 0;
};
constexpr Access access_at(MixArguments const& arguments, std::uint32_t operand) {
  return static_cast<Access>(arguments.accesses >> (2 * operand) & 3);
}

/// Hashes what the task reads, then writes its outputs; no two tasks commute but those that
/// accumulate.
inline Status mix(KernelCall const& call) noexcept {
  MixArguments arguments;
  std::memcpy(&arguments, call.arguments, sizeof arguments);
  if (arguments.fails != 0) return {"by request"};
  std::uint64_t hash = arguments.salt;
  for (std::uint32_t i = 0; i < arguments.operands; ++i)
    if (reads(access_at(arguments, i)) && access_at(arguments, i) != Access::accumulate)
      hash = scramble(hash, *static_cast<std::uint64_t const*>(call.buffers[i]));
  for (std::uint32_t i = 0; i < arguments.operands; ++i) {
    auto& cell = *static_cast<std::uint64_t*>(call.buffers[i]);
    Access const access = access_at(arguments, i);
    if (writes(access)) cell = scramble(hash, i) + (access == Access::accumulate ? cell : 0);
  }
  return {};
}
inline constexpr Codelet mix_codelet{"mix", &mix, nullptr, nullptr};
/// The same, ended through its token by the entry itself.
inline constexpr Codelet mix_async_codelet{
    "mix_async", nullptr, nullptr,
    +[](KernelCall const& call, Completion token) noexcept -> Status {
      token.complete(mix(call));
      return {};
    }};

/// A program and a table of cells that it is run on. Cells at odd places are never read before the
/// program writes them.
class RandomProgram {
 public:
  RandomProgram(std::uint64_t seed, std::uint32_t tasks, std::uint32_t bindings,
                std::uint32_t most_operands, bool priorities = false)
      : state_(seed * 2 + 1), bindings_(bindings), written_(bindings) {
    for (std::uint32_t b = 0; b < bindings; b += 2) written_[b] = true;
    uses_.resize(tasks);
    arguments_.resize(tasks);
    for (std::uint32_t t = 0; t < tasks; ++t) draw(t, most_operands, priorities);
  }

  std::uint32_t bindings() const { return bindings_; }
  std::span<ProgramTask const> tasks() const { return tasks_; }
  /// A parameter that replaces the salt of every third task by bytes of the block at 8 * task.
  std::vector<ProgramParameter> parameters() const {
    std::vector<ProgramParameter> result;
    for (std::uint32_t t = 0; t < tasks_.size(); t += 3) result.push_back({t, 0, 8 * t, 8});
    return result;
  }

  /// Runs it in order on the cells, with the block's salts.
  void run(std::vector<std::uint64_t>& cells, std::span<std::uint64_t const> block) const {
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      MixArguments arguments = arguments_[t];
      if (t % 3 == 0 && !block.empty()) arguments.salt = block[t];
      std::vector<void*> buffers;
      for (Use<Binding> const& use : uses_[t]) buffers.push_back(&cells[use.handle]);
      (void)mix({buffers.data(), &arguments, nullptr});
    }
  }

  std::uint64_t random() { return state_ = scramble(state_, 0x5eed); }

 private:
  void draw(std::uint32_t t, std::uint32_t most_operands, bool priorities) {
    auto const count = static_cast<std::uint32_t>(random() % (most_operands + 1));
    auto& arguments = arguments_[t];
    arguments = {random(), 0, count, 0};
    for (std::uint32_t i = 0; i < count; ++i) {
      auto const binding = static_cast<std::uint32_t>(random() % bindings_);
      auto access = static_cast<Access>(random() % 8 < 5 ? 0 : random() % 4);
      bool const again = i > 0 && uses_[t].back().handle == binding;
      if (!written_[binding]) access = Access::write;
      if (again) access = uses_[t].back().access;  // repeated, but never read what is not written
      uses_[t].push_back({binding, access});
      arguments.accesses |= static_cast<std::uint64_t>(access) << (2 * i);
    }
    for (Use<Binding> const& use : uses_[t])
      written_[use.handle] = written_[use.handle] || writes(use.access);
    int const priority = priorities ? static_cast<int>(random() % 40) - 20 : 0;
    tasks_.push_back({t % 7 == 3 ? &mix_async_codelet : &mix_codelet,
                      uses_[t],
                      std::as_bytes(std::span(&arguments, 1)),
                      {-1, priority},
                      {nullptr, t}});
  }

  std::uint64_t state_;
  std::uint32_t bindings_;
  std::vector<bool> written_;
  std::vector<std::vector<Use<Binding>>> uses_;
  std::vector<MixArguments> arguments_;
  std::vector<ProgramTask> tasks_;
};

}  // namespace nntile::test
