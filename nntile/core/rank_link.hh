#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The joint between graphs and communicators: neither includes the other.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nntile/core/codelet.hh"

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

}  // namespace nntile
