#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Counter-based random integers: what a number is depends on {seed, name, step, element} and on
// nothing else.

#include <cstdint>
#include <string_view>

#include "nntile/core/macros.hh"

namespace nntile {

/// Four independent words.
struct RandomWords {
  std::uint32_t word[4];
};

/// Philox4x32-10 of a 128-bit counter under a 64-bit key. Source: Salmon et al., Parallel random
/// numbers: as easy as 1, 2, 3, SC 2011; the counter's words are low, high of `low` and low, high
/// of `high`.
NNTILE_ALWAYS_INLINE constexpr RandomWords philox(std::uint64_t key, std::uint64_t low,
                                                  std::uint64_t high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(low), c1 = static_cast<std::uint32_t>(low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(high), c3 = static_cast<std::uint32_t>(high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    std::uint64_t const p0 = std::uint64_t{0xd2511f53u} * c0;
    std::uint64_t const p1 = std::uint64_t{0xcd9e8d57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

/// Spreads 64 bits over 64 bits, one to one. Source: Steele, Lea, Flood, SplittableRandom, OOPSLA
/// 2014.
NNTILE_ALWAYS_INLINE constexpr std::uint64_t mix_bits(std::uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

/// 64-bit hash of a tensor's full name: FNV-1a, then mixed.
constexpr std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (char const c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix_bits(hash);
}

/// The Philox key of one tensor's stream.
constexpr std::uint64_t random_key(std::uint64_t seed, std::uint64_t name) {
  return mix_bits(mix_bits(seed) ^ name);
}

/// 53 bits of two words, as an integer in [0, 2^53).
NNTILE_ALWAYS_INLINE constexpr std::uint64_t bits53(std::uint32_t high, std::uint32_t low) {
  return ((std::uint64_t{high} << 32) | low) >> 11;
}

}  // namespace nntile
