#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The joint between graphs and communicators: neither includes the other.

#include <cstdint>

#include "nntile/core/codelet.hh"

namespace nntile {

/// How graphs on a store move tiles to and from other ranks: comm/ makes one of a communicator.
/// Without, a store is the only rank's.
struct RankLink {
  int rank = 0;
  int ranks = 1;
  Codelet const* send = nullptr;  // asynchronous, of one operand; with a TransferCall
  Codelet const* receive = nullptr;
  void* engine = nullptr;
};

/// Arguments of a transfer. The number of a message is unique among those that go from one rank to
/// another in a run.
struct TransferCall {
  void* engine = nullptr;  // of the link
  std::int64_t number = 0;
  std::int64_t bytes = 0;
  std::int32_t peer = 0;
};

}  // namespace nntile
