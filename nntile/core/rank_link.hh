#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The joint between graphs and communicators: neither includes the other.

#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"

namespace nntile {

/// Arguments of the codelets of a RankLink. The number of a message is unique among those that are
/// in flight from one rank to another.
struct TransferCall {
  void* engine = nullptr;  // of the link
  std::int64_t number = 0;
  std::int64_t bytes = 0;  // of the task's one buffer, from its beginning
  int peer = 0;
  // For those who ask what a rank waits for; lives until the task has ended.
  char const* tensor = nullptr;
  std::int64_t tile = -1;
  /// Of a further message, which says why a tile was not computed; -1: a receive then fails.
  std::int64_t record = -1;
};

/// The means by which graphs on a store move tiles to and from other ranks: link_of() of
/// comm/transfers.hh makes one of a communicator. Without, a store is the only rank's.
struct RankLink {
  int rank = 0;
  int ranks = 1;
  Codelet const* send = nullptr;  // asynchronous, of one operand; with a TransferCall
  Codelet const* receive = nullptr;
  void* engine = nullptr;
  /// Reserves numbers of messages, the same on all ranks, and checks that this thread may drive
  /// transfers; returns the first. Collective. Throws CommError.
  std::int64_t (*reserve)(void* engine, std::int64_t count) = nullptr;
  /// Throws CommError where this rank cannot wait for the others: on a thread that may not, with
  /// transfers open.
  void (*check)(void* engine) = nullptr;
  /// The bytes that each rank gives, by rank. Collective; waits. Throws CommError.
  std::vector<std::vector<std::byte>> (*all_gather)(void* engine,
                                                    std::span<std::byte const> bytes) = nullptr;
};

namespace detail {

/// A rank's contribution to an exchange: whether it failed, the call that it is at, and its bytes,
/// or its error.
class ExchangeFrame {
 public:
  static std::vector<std::byte> pack(bool failed, std::string_view call,
                                     std::span<std::byte const> bytes) {
    std::uint64_t const head[] = {failed ? 1u : 0u, call.size()};
    std::vector<std::byte> frame(sizeof head + call.size() + bytes.size());
    std::byte* to = frame.data();
    auto const add = [&](void const* from, std::size_t count) {
      if (count != 0) std::memcpy(to, from, count);
      to += count;
    };
    add(head, sizeof head);
    add(call.data(), call.size());
    add(bytes.data(), bytes.size());
    return frame;
  }
  /// Something else was given: it is of no call.
  explicit ExchangeFrame(std::span<std::byte const> frame) {
    std::uint64_t head[2];
    if (frame.size() < sizeof head) return;
    std::memcpy(head, frame.data(), sizeof head);
    if (head[0] > 1 || head[1] > frame.size() - sizeof head) return;
    failed = head[0] == 1;
    call = text(frame.subspan(sizeof head, head[1]));
    bytes = frame.subspan(sizeof head + head[1]);
  }
  static std::string_view text(std::span<std::byte const> bytes) {
    return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  }

  bool failed = false;
  std::string_view call = "something else";
  std::span<std::byte const> bytes = {};
};

}  // namespace detail

/// Gives every rank what each of them gives: the bytes of give(), by rank. All ranks call it
/// together, with no transfer open, and name it alike. If give() throws on one rank, that one
/// throws the same, and all others CommError, which names the rank and its error; none waits for
/// what will not come. Throws CommError, too, where a rank is at another call. Cost: the bytes of
/// all at each.
template <class Give>
std::vector<std::vector<std::byte>> exchange(RankLink const& link, std::string_view call,
                                             Give&& give) {
  using Frame = detail::ExchangeFrame;
  if (link.ranks == 1) return {give()};
  std::vector<std::byte> own;
  std::exception_ptr error;
  try {
    link.check(link.engine);
    own = Frame::pack(false, call, give());
  } catch (std::exception const& failure) {
    error = std::current_exception();
    own = Frame::pack(true, call, std::as_bytes(std::span(std::string_view(failure.what()))));
  }
  auto all = link.all_gather(link.engine, own);
  if (error != nullptr) std::rethrow_exception(error);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (Frame const frame(all[rank]); frame.failed)
      throw CommError(concat(call, ": rank ", rank, ": ", Frame::text(frame.bytes)));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    Frame const frame(all[rank]);
    if (frame.call != call)
      throw CommError(concat("rank ", link.rank, " is at ", call, ", and rank ", rank, " at ",
                             frame.call, ": all ranks call the same in one order"));
    all[rank].erase(all[rank].begin(),
                    all[rank].end() - static_cast<std::ptrdiff_t>(frame.bytes.size()));
  }
  return all;
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
    auto const bytes = std::as_bytes(std::span(&number, 1));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  });
  if (auto const [rank, other] = detail::odd_rank(all); rank != other)
    throw ValueError(concat("rank ", rank, " has another ", what, " than rank ", other,
                            ": start all ranks with the same options and files"));
}

}  // namespace nntile
