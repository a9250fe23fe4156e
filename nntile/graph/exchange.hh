#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Bytes that the ranks of a graph give each other, over the link of a store.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/rank_link.hh"

namespace nntile {

namespace detail {

/// A rank's contribution to an exchange: whether it failed, the call that it is at, and its bytes,
/// or its error.
class ExchangeFrame {
 public:
  static std::vector<std::byte> pack(bool failed, std::string_view call, void const* bytes,
                                     std::size_t size) {
    std::uint64_t const head[] = {failed ? 1u : 0u, call.size()};
    std::vector<std::byte> frame(sizeof head + call.size() + size);
    std::byte* to = frame.data();
    auto const add = [&](void const* from, std::size_t count) {
      if (count != 0) std::memcpy(to, from, count);
      to += count;
    };
    add(head, sizeof head);
    add(call.data(), call.size());
    add(bytes, size);
    return frame;
  }
  /// Something else was given: it is of no call.
  explicit ExchangeFrame(std::vector<std::byte> const& frame) {
    std::uint64_t head[2];
    if (frame.size() < sizeof head) return;
    std::memcpy(head, frame.data(), sizeof head);
    if (head[0] > 1 || head[1] > frame.size() - sizeof head) return;
    failed = head[0] == 1;
    std::string_view const rest(reinterpret_cast<char const*>(frame.data()) + sizeof head,
                                frame.size() - sizeof head);
    call = rest.substr(0, head[1]);
    bytes = rest.substr(head[1]);
  }

  bool failed = false;
  std::string_view call = "something else";
  std::string_view bytes = {};
};

/// The frame of a rank that failed and lacks the memory for its error: it is there from the start.
struct FrameWithoutMemory {
  static constexpr std::size_t letters = sizeof "no memory" - 1;
  std::uint64_t head[2] = {1, 0};
  char text[letters + 1] = "no memory";

  std::span<std::byte const> bytes() const {
    return std::as_bytes(std::span(this, 1)).first(sizeof head + letters);
  }
};
inline constexpr FrameWithoutMemory frame_without_memory;

/// The bytes that the ranks gave, without what packed them.
inline std::vector<std::vector<std::byte>> unpack(RankLink const& link, std::string_view call,
                                                  std::vector<std::vector<std::byte>> all) {
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (ExchangeFrame const frame(all[rank]); frame.failed)
      throw CommError(concat(call, ": rank ", rank, ": ", frame.bytes));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    ExchangeFrame const frame(all[rank]);
    if (frame.call != call)
      throw CommError(concat("rank ", link.rank, " is at ", call, ", and rank ", rank, " at ",
                             frame.call, ": all ranks call the same in one order"));
    std::size_t const size = frame.bytes.size();
    std::memmove(all[rank].data(), frame.bytes.data(), size);
    all[rank].resize(size);
  }
  return all;
}

/// The name of a call, which may be given by what makes it.
template <class Call> std::string name_of_call(Call const& call) {
  if constexpr (std::is_invocable_v<Call const&>)
    return call();
  else
    return std::string(std::string_view(call));
}

}  // namespace detail

/// Gives every rank what each of them gives: the bytes of give(), by rank. All ranks call it
/// together, with no transfer open, and name it alike, by a text or by what makes one, since that
/// takes memory. If either throws on one rank, whatever it is, that one throws the same, and all
/// others CommError, which names the rank and its error; none waits for what will not come. Throws
/// CommError, too, where a rank is at another call. Cost: the bytes of all at each.
template <class Call, class Give>
std::vector<std::vector<std::byte>> exchange(RankLink const& link, Call const& call, Give&& give) {
  std::vector<std::vector<std::byte>> all;
  if (link.ranks == 1) {
    all.push_back(give());
    return all;
  }
  using detail::ExchangeFrame;
  std::string name;
  std::vector<std::byte> own;
  std::exception_ptr error;
  auto const fail = [&](std::string_view text) noexcept {
    error = std::current_exception();
    try {
      own = ExchangeFrame::pack(true, name, text.data(), text.size());
    } catch (std::bad_alloc const&) {
    }
  };
  try {
    name = detail::name_of_call(call);
    link.check(link.engine);
    std::vector<std::byte> const given = give();
    own = ExchangeFrame::pack(false, name, given.data(), given.size());
  } catch (std::exception const& failure) {
    fail(failure.what());
  } catch (...) {
    fail("it threw what is no std::exception");
  }
  all = link.all_gather(link.engine, own.empty() ? detail::frame_without_memory.bytes() : own);
  if (error != nullptr) std::rethrow_exception(error);
  return detail::unpack(link, name, std::move(all));
}

namespace detail {

/// The first rank that gave something else than most, and one of those; of two equal halves rank
/// 0's is most. Twice the same where all gave the same.
struct OddRank {
  std::size_t rank = 0, other = 0;
};
inline OddRank odd_rank(std::vector<std::vector<std::byte>> const& all) {
  auto const same = [&](std::size_t rank) {
    std::size_t count = 0;
    for (auto const& each : all) count += each == all[rank] ? 1u : 0u;
    return count;
  };
  OddRank odd;
  if (same(0) == all.size()) return odd;
  for (std::size_t rank = 1; rank < all.size(); ++rank)
    if (same(rank) > same(odd.other)) odd.other = rank;
  while (all[odd.rank] == all[odd.other]) ++odd.rank;
  return odd;
}

}  // namespace detail

/// Throws ValueError, on all ranks the same, where a rank has another number than the others: of
/// what was said to it, or of a file that it has read: check_alike(store.link(), "text", hash). All
/// ranks call it together.
inline void check_alike(RankLink const& link, std::string_view what, std::uint64_t number) {
  auto const all = exchange(link, what, [&] {
    std::vector<std::byte> bytes(sizeof number);
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
  });
  if (auto const [rank, other] = detail::odd_rank(all); rank != other)
    throw ValueError(concat("rank ", rank, " has another ", what, " than rank ", other,
                            ": start all ranks with the same options and files"));
}

}  // namespace nntile
