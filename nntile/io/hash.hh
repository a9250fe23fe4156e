#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The 64-bit checksum of files and tensors: XXH64, so that `xxhsum -H64` prints the same for a
// file.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace nntile::io {

static_assert(std::endian::native == std::endian::little,
              "files are little-endian; a big-endian host needs byte swaps");

/// Hashes bytes that arrive in pieces; how they were cut does not matter. Any change of one byte
/// changes the digest but for one chance in 2^64; it is no defence against an attacker. Source:
/// github.com/Cyan4973/xxHash, doc/xxhash_spec.md (XXH64).
class Hash64 {
 public:
  explicit Hash64(std::uint64_t seed = 0)
      : lanes_{seed + prime1 + prime2, seed + prime2, seed, seed - prime1}, seed_(seed) {}

  void update(std::span<std::byte const> bytes) {
    total_ += bytes.size();
    if (held_ > 0) bytes = bytes.subspan(top_up(bytes));
    std::size_t at = 0;
    for (; at + stripe <= bytes.size(); at += stripe) consume(bytes.data() + at);
    if (at < bytes.size()) {
      std::memcpy(buffer_, bytes.data() + at, bytes.size() - at);
      held_ = bytes.size() - at;
    }
  }
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  /// The eight bytes of a number, so that two neighbouring fields cannot be taken for one.
  void update(std::uint64_t number) { update(std::as_bytes(std::span(&number, 1))); }

  /// The hash of all bytes so far; more may follow.
  std::uint64_t digest() const {
    std::uint64_t hash = seed_ + prime5;
    if (total_ >= stripe) {
      hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) +
             std::rotl(lanes_[3], 18);
      for (std::uint64_t const lane : lanes_) hash = (hash ^ round(0, lane)) * prime1 + prime4;
    }
    return avalanche(tail(hash + total_));
  }

 private:
  static constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u;
  static constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
  static constexpr std::uint64_t prime3 = 0x165667B19E3779F9u;
  static constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63u;
  static constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5u;
  static constexpr std::size_t stripe = 32;

  template <class T> static T load(std::byte const* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  static std::uint64_t round(std::uint64_t lane, std::uint64_t input) {
    return std::rotl(lane + input * prime2, 31) * prime1;
  }
  void consume(std::byte const* from) {
    for (std::size_t i = 0; i < 4; ++i)
      lanes_[i] = round(lanes_[i], load<std::uint64_t>(from + 8 * i));
  }
  /// Fills the held stripe from the front of `bytes`; returns how many it took.
  std::size_t top_up(std::span<std::byte const> bytes) {
    std::size_t const taken = bytes.size() < stripe - held_ ? bytes.size() : stripe - held_;
    if (taken > 0) std::memcpy(buffer_ + held_, bytes.data(), taken);
    held_ += taken;
    if (held_ == stripe) {
      consume(buffer_);
      held_ = 0;
    }
    return taken;
  }
  std::uint64_t tail(std::uint64_t hash) const {
    std::size_t at = 0;
    for (; at + 8 <= held_; at += 8)
      hash = std::rotl(hash ^ round(0, load<std::uint64_t>(buffer_ + at)), 27) * prime1 + prime4;
    for (; at + 4 <= held_; at += 4)
      hash = std::rotl(hash ^ (load<std::uint32_t>(buffer_ + at) * prime1), 23) * prime2 + prime3;
    for (; at < held_; ++at)
      hash = std::rotl(hash ^ (static_cast<std::uint64_t>(buffer_[at]) * prime5), 11) * prime1;
    return hash;
  }
  static std::uint64_t avalanche(std::uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
  }

  std::uint64_t lanes_[4];
  std::byte buffer_[stripe];
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t seed_;
};

/// The hash of bytes that are all there.
inline std::uint64_t hash64(std::span<std::byte const> bytes, std::uint64_t seed = 0) {
  Hash64 hash(seed);
  hash.update(bytes);
  return hash.digest();
}
inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = 0) {
  return hash64(std::as_bytes(std::span(text.data(), text.size())), seed);
}

/// Sixteen hexadecimal digits.
inline std::string to_hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15u];
  return text;
}

}  // namespace nntile::io
