#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Transfers as tasks: the codelets `send` and `receive`, and the engine that carries them, one for
// each communicator. No thread of its own: runtimes poll it (Completion::poll).

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/comm/transfer_queue.hh"
#include "nntile/core/codelet.hh"
#include "nntile/core/error.hh"
#include "nntile/core/rank_link.hh"
#include "nntile/core/threads.hh"

namespace nntile {

namespace detail {

inline Status begin_transfer(KernelCall const& call, Completion token, bool sends) noexcept {
  TransferCall arguments;
  std::memcpy(&arguments, call.arguments, sizeof arguments);
  try {
    TransferQueue::Transfer transfer;
    if (call.marked && arguments.bytes != 0) {  // none go, and then why
      arguments.bytes = 0;
      if (arguments.record >= 0)
        transfer.record = std::make_shared<TransferQueue::Record>(call.text);
    }
    transfer.record_number = arguments.record;
    transfer.sends = sends;
    transfer.message = {arguments.peer, arguments.number};
    transfer.bytes = {static_cast<std::byte*>(call.buffers[0]),
                      static_cast<std::size_t>(arguments.bytes)};
    transfer.token = token;
    transfer.tensor = arguments.tensor;
    transfer.tile = arguments.tile;
    static_cast<TransferQueue*>(arguments.engine)->add(transfer);
    return {};
  } catch (std::exception const& error) {
    static_cast<TransferQueue*>(arguments.engine)->lose(error.what());
    std::strncpy(call.text, error.what(), status_text_bytes - 1);
    return {call.text};
  }
}

}  // namespace detail

/// Sends the bytes of its buffer, which it reads; its arguments are a TransferCall. Ends when the
/// communicator's request has. Of a buffer that a failure has marked goes an empty message and
/// then, where the call has a number for it, a record of the cause: the receive is cancelled
/// because of it; without a number it fails.
inline constexpr Codelet send_codelet{
    .name = "send",
    .async = +[](KernelCall const& call, Completion token) noexcept -> Status {
      return detail::begin_transfer(call, token, true);
    },
    .runs_on_marks = true};
/// Receives into its buffer, which it writes.
inline constexpr Codelet receive_codelet{
    "receive", nullptr, nullptr, +[](KernelCall const& call, Completion token) noexcept -> Status {
      return detail::begin_transfer(call, token, false);
    }};

/// Carries the transfers of one rank: tasks of the codelets above begin in any order and on any
/// thread; a poll of their runtime posts what has begun and tests all that is open, one thread at a
/// time. An error of the communicator fails the tasks that it concerns. Below
/// ThreadLevel::multiple the driver of the runtime alone polls.
///
/// Outlives the runtimes that run its transfers; the communicator outlives it, and is called by
/// nothing else while transfers are open. Cost of a poll: that of C::test; of a transfer:
/// logarithmic in the open ones.
template <RequiredCommunicator C> class Transfers : public TransferQueue {
 public:
  /// Throws CommError for a rank that is none of the communicator's.
  explicit Transfers(C& comm)
      : TransferQueue(&Transfers::poll, comm.thread_level() < ThreadLevel::multiple), comm_(comm) {
    if (int const rank = comm.rank(), size = comm.size(); rank < 0 || rank >= size)
      throw CommError(concat("communicator: rank() is ", rank, " and size() ", size,
                             "; ranks count from 0 to size() - 1"));
  }

  C& communicator() const { return comm_; }

  /// For the thread that is to drive a runtime with transfers, when they are bound. Throws
  /// CommError where the communicator may not be called on it.
  void check_driver() const {
    if (comm_.thread_level() >= ThreadLevel::serialized || comm_.on_main_thread()) return;
    throw CommError(concat("rank ", comm_.rank(),
                           ": this thread is to drive a runtime that "
                           "transfers, and is not the main one, which alone may communicate at "
                           "thread level ",
                           name_of(comm_.thread_level()),
                           ": drive it there, or initialise with level multiple"));
  }

  /// Throws CommError where this rank cannot wait for the others: check_driver(), transfers open.
  void check_closed(char const* call) const {
    check_driver();
    detail::Lock guard(mutex_);
    if (open_count() != 0)
      throw CommError(concat(call, ": ", open_count(), " transfers are open on rank ", comm_.rank(),
                             "; wait for their tasks before"));
  }

  /// The bytes that each rank gives, by rank; with no transfer open. Throws what the communicator
  /// does, and CommError where it gives others than one piece a rank.
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    while (busy_.exchange(true, std::memory_order_acquire)) detail::sleep_ns(1'000);  // a last poll
    struct Free {
      std::atomic<bool>& busy;
      ~Free() { busy.store(false, std::memory_order_release); }
    } const free{busy_};
    auto all = comm_.all_gather(bytes);
    if (all.size() != static_cast<std::size_t>(comm_.size()))
      throw CommError(concat("all_gather: the communicator gave ", all.size(), " pieces, and has ",
                             comm_.size(), " ranks"));
    return all;
  }

  /// Gives `count` numbers of messages that no other call has given, the same on all ranks; returns
  /// the first. Collective, in the same order on all ranks, with no transfer open. Throws
  /// CommError: transfers are open, ranks that ask for different counts, more than the tag bound
  /// admits.
  std::int64_t reserve(std::int64_t count) {
    check_closed("reserve");
    std::int64_t const mine[] = {next_, count};
    auto const all = all_gather(std::as_bytes(std::span(mine)));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      std::int64_t its[2] = {};
      if (all[rank].size() == sizeof its) std::memcpy(its, all[rank].data(), sizeof its);
      if (its[0] != next_ || its[1] != count)
        throw CommError(concat("reserve: rank ", rank, " asks for ", its[1], " numbers from ",
                               its[0], ", rank ", comm_.rank(), " for ", count, " from ", next_,
                               ": all ranks bind the same graphs in one order"));
    }
    std::uint64_t const left =
        static_cast<std::uint64_t>(comm_.tag_bound()) - static_cast<std::uint64_t>(next_) + 1;
    if (count < 0 || static_cast<std::uint64_t>(count) > left)
      throw CommError(concat("reserve: ", count, " numbers of messages, but ", left,
                             " are left of those up to the tag bound, ", comm_.tag_bound(),
                             ": larger tiles need fewer, and so do fewer graphs on one engine"));
    return std::exchange(next_, next_ + count);
  }

 private:
  static bool poll(void* queue, Completion token) {
    return static_cast<Transfers*>(static_cast<TransferQueue*>(queue))->progress(token);
  }

  /// Whether the task of the token has ended. Throws nothing: that would end the poll, and with it
  /// the other transfers.
  bool progress(Completion const& polled) noexcept {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    post();
    test();
    busy_.store(false, std::memory_order_release);
    return complete_ended(polled);
  }

  /// Calls the communicator; the error if it throws, which a user's may do with anything.
  template <class Call> static std::string error_of(Call call) noexcept {
    try {
      call();
      return {};
    } catch (std::exception const& cause) {
      return text_of(*cause.what() != 0 ? cause.what() : "it threw");
    } catch (...) {
      return text_of("it threw what is no std::exception");
    }
  }

  /// Posts what has begun, in that order.
  void post() noexcept {
    detail::Lock lock(mutex_);
    std::uint64_t const last = added_;
    while (!begun_.empty() && begun_.begin()->first <= last) {
      std::uint64_t const number = begun_.begin()->first;
      Transfer const one = begun_.begin()->second;
      lock.unlock();
      Request request = Request::none;
      std::string error = error_of([&] {
        request =
            one.sends ? comm_.send(one.bytes, one.message) : comm_.receive(one.bytes, one.message);
      });
      lock.lock();
      note(error);
      auto const at = begun_.find(number);
      if (at == begun_.end()) continue;  // given up
      if (error.empty())
        move({&begun_, at}, posted_, static_cast<std::uint64_t>(request));
      else
        end({&begun_, at}, std::move(error));
    }
  }
  void test() noexcept {
    reported_.clear();
    std::string const broken = error_of([this] { comm_.test(reported_); });
    if (reported_.empty() && broken.empty()) return;
    detail::Lock guard(mutex_);
    note(broken);
    for (EndedRequest& one : reported_) {
      auto const at = posted_.find(static_cast<std::uint64_t>(one.request));
      if (at != posted_.end()) take({&posted_, at}, std::move(one.error), one.came_empty);
    }
    if (!broken.empty()) end_all(broken);
  }
  /// Under the lock.
  void take(Position position, std::string error, bool came_empty) noexcept {
    Transfer const& one = position.at->second;
    bool const goes_on =
        one.record_number >= 0 && (one.sends ? one.record != nullptr && error.empty() : came_empty);
    try {
      if (goes_on) return go_on(position);
      if (!one.sends && one.record != nullptr && error.empty())
        error = one.record->from(one.message.peer);
    } catch (std::bad_alloc const&) {
      error = "no memory";       // this text needs none
      if (goes_on) note(error);  // the peer waits for the message to come
    }
    end(position, std::move(error));
  }

  C& comm_;
  std::int64_t next_ = 0;               // number of a message that is not reserved
  std::atomic<bool> busy_{false};       // a thread calls the communicator
  std::vector<EndedRequest> reported_;  // its
};

/// The link of a store whose graphs transfer: TensorStore<R> store(runtime, link_of(transfers)).
template <Communicator C> RankLink link_of(Transfers<C>& transfers) {
  auto const reserve = +[](void* engine, std::int64_t count) {
    return static_cast<Transfers<C>*>(static_cast<TransferQueue*>(engine))->reserve(count);
  };
  auto const check = +[](void* engine) {
    static_cast<Transfers<C>*>(static_cast<TransferQueue*>(engine))->check_closed("all_gather");
  };
  auto const all_gather = +[](void* engine, std::span<std::byte const> bytes) {
    return static_cast<Transfers<C>*>(static_cast<TransferQueue*>(engine))->all_gather(bytes);
  };
  C const& comm = transfers.communicator();
  return {comm.rank(),
          comm.size(),
          &send_codelet,
          &receive_codelet,
          static_cast<TransferQueue*>(&transfers),
          reserve,
          check,
          all_gather};
}

}  // namespace nntile
