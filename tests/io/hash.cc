// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/io/hash.hh"

#include "tests/support/catch.hh"

using namespace nntile::io;

namespace {

/// Bytes of the sanity test of the reference implementation: byte i is the top of a multiplicative
/// sequence.
std::string sanity_bytes(std::size_t count) {
  std::string bytes;
  std::uint64_t state = 2654435761u;
  for (std::size_t i = 0; i < count; ++i, state *= 0x9E3779B185EBCA8Du)
    bytes += static_cast<char>(state >> 56);
  return bytes;
}

}  // namespace

TEST_CASE("the hash of known texts is XXH64's", "[io][hash]") {
  CHECK(hash64("") == 0xEF46DB3751D8E999u);
  CHECK(hash64("a") == 0xD24EC4F1A98C6E5Bu);
  CHECK(hash64("abc") == 0x44BC2CF5AD770999u);
  CHECK(hash64("Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1u);
}

TEST_CASE("the hash of the reference's sanity bytes is the reference's", "[io][hash]") {
  std::string const bytes = sanity_bytes(222);
  CHECK(hash64(bytes.substr(0, 1)) == 0xE934A84ADB052768u);
  CHECK(hash64(bytes.substr(0, 4)) == 0x9136A0DCA57457EEu);
  CHECK(hash64(bytes.substr(0, 14)) == 0x8282DCC4994E35C8u);
  CHECK(hash64(bytes) == 0xB641AE8CB691C174u);
  CHECK(hash64(bytes, 2654435761u) == 0x20CB8AB7AE10C14Au);
}

TEST_CASE("the hash does not depend on how the bytes arrive", "[io][hash]") {
  std::string const bytes = sanity_bytes(200);
  for (std::size_t piece = 1; piece <= 70; ++piece) {
    Hash64 hash;
    for (std::size_t at = 0; at < bytes.size(); at += piece)
      hash.update(std::string_view(bytes).substr(at, piece));
    CHECK(hash.digest() == hash64(bytes));
  }
}

TEST_CASE("every flipped bit changes the hash", "[io][hash]") {
  std::string bytes = sanity_bytes(100);
  std::uint64_t const before = hash64(bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    CHECK(hash64(bytes) != before);
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST_CASE("a hash prints as sixteen digits", "[io][hash]") {
  CHECK(to_hex(0) == "0000000000000000");
  CHECK(to_hex(0x0123456789abcdefu) == "0123456789abcdef");
}
