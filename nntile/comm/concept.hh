#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The Communicator concept: how ranks exchange bytes. Smallest model: comm/self.hh.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nntile {

/// The threads of a rank that may call its communicator: the only one there is; the main one; any,
/// one at a time among all users of the same library; any, if the calls of one object exclude each
/// other. As MPI_THREAD_SINGLE and so on.
enum class ThreadLevel : std::uint8_t { single, funneled, serialized, multiple };

constexpr char const* name_of(ThreadLevel level) {
  constexpr char const* names[] = {"single", "funneled", "serialized", "multiple"};
  return names[static_cast<int>(level)];
}

/// The key that pairs a send with its receive, besides the ranks that call: the other rank, and a
/// number.
struct Message {
  int peer = 0;
  std::int64_t number = 0;
  bool operator==(Message const&) const = default;
};

/// A send or receive that was posted: numbers from 1 ascending, each given once by its
/// communicator.
enum class Request : std::uint64_t { none = 0 };

/// A request that has ended. No error: it went well. `came_empty`: a receive of bytes to which a
/// message of none came, which is an error.
struct EndedRequest {
  Request request = Request::none;
  std::string error = {};
  bool came_empty = false;
};

/// Messages and bytes sent over one edge, in one direction.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
  bool operator==(Traffic const&) const = default;
};
struct PeerTraffic {
  Traffic sent = {};
  Traffic received = {};
  bool operator==(PeerTraffic const&) const = default;
};

/// The least tag bound of any communicator, as MPI promises.
inline constexpr std::int64_t least_tag_bound = 32'767;

// clang-format off
/// Connects `size()` ranks; each has an object of its own, and all are made by all ranks together.
/// This is the short form: comm/LAW.md has every demand as a sentence, testing/communicator.hh
/// tries each on any communicator, and a test compares the two.
///
///   threads                   One thread at a time calls an object, and one that its thread_level()
///                             admits: below `serialized` the main one, of which on_main_thread()
///                             tells. rank, size, tag_bound, thread_level and on_main_thread may be
///                             asked by any thread at any time.
///   refusal                   A call that throws CommError for its arguments has changed nothing.
///
///   rank(), size()            this rank, from 0; how many there are.
///   tag_bound()               the largest number of a message; at least 32,767.
///   send(bytes, message)      posts; never waits for the peer. The bytes do not change until the
///                             request has ended. Throws CommError (no such rank, number out of
///                             bounds or in flight in that direction).
///   receive(bytes, message)   posts the receive of as many bytes; they are undefined until the
///                             request has ended. Throws as `send` does.
///   test(ended)               appends the requests that have ended since the last call, each once.
///                             Never waits. Throws CommError when the communicator itself fails.
///   barrier()                 returns when all ranks have called it. Waits; open requests may stand
///                             still meanwhile.
///   all_gather(bytes)         what every rank gave, by rank; of any lengths. Waits likewise.
///   traffic(peer)             messages and bytes of the requests to and from that rank that ended
///                             well; the blocking calls do not count.
///   destruction               with no request open; never throws.
// clang-format on
template <class C>
concept Communicator =
    requires(C& comm, C const& constant, std::span<std::byte const> data, std::span<std::byte> room,
             Message message, std::vector<EndedRequest>& ended, int peer) {
      { constant.rank() } -> std::same_as<int>;
      { constant.size() } -> std::same_as<int>;
      { constant.tag_bound() } -> std::same_as<std::int64_t>;
      { constant.thread_level() } -> std::same_as<ThreadLevel>;
      { constant.on_main_thread() } -> std::same_as<bool>;
      { comm.send(data, message) } -> std::same_as<Request>;
      { comm.receive(room, message) } -> std::same_as<Request>;
      comm.test(ended);
      comm.barrier();
      { comm.all_gather(data) } -> std::same_as<std::vector<std::vector<std::byte>>>;
      { constant.traffic(peer) } -> std::same_as<PeerTraffic>;
    };

namespace detail {

/// Whether C is a Communicator; says which member any other type lacks, or has of another kind.
template <class C> consteval bool is_required_communicator() {
  static_assert(
      requires(C const& comm) {
        { comm.rank() } -> std::same_as<int>;
        { comm.size() } -> std::same_as<int>;
      }, "a communicator needs `int rank() const` and `int size() const`");
  static_assert(
      requires(C const& comm) {
        { comm.tag_bound() } -> std::same_as<std::int64_t>;
      }, "a communicator needs `std::int64_t tag_bound() const`");
  static_assert(
      requires(C const& comm) {
        { comm.thread_level() } -> std::same_as<ThreadLevel>;
        { comm.on_main_thread() } -> std::same_as<bool>;
      },
      "a communicator needs `ThreadLevel thread_level() const` and `bool on_main_thread() const`");
  static_assert(
      requires(C& comm, std::span<std::byte const> data, Message message) {
        { comm.send(data, message) } -> std::same_as<Request>;
      }, "a communicator needs `Request send(std::span<std::byte const>, Message)`");
  static_assert(
      requires(C& comm, std::span<std::byte> room, Message message) {
        { comm.receive(room, message) } -> std::same_as<Request>;
      }, "a communicator needs `Request receive(std::span<std::byte>, Message)`");
  static_assert(
      requires(C& comm, std::vector<EndedRequest>& ended) { comm.test(ended); },
      "a communicator needs `void test(std::vector<EndedRequest>&)`");
  static_assert(requires(C& comm) { comm.barrier(); }, "a communicator needs `void barrier()`");
  static_assert(
      requires(C& comm, std::span<std::byte const> data) {
        { comm.all_gather(data) } -> std::same_as<std::vector<std::vector<std::byte>>>;
      },
      "a communicator needs `std::vector<std::vector<std::byte>> all_gather("
      "std::span<std::byte const>)`");
  static_assert(
      requires(C const& comm, int peer) {
        { comm.traffic(peer) } -> std::same_as<PeerTraffic>;
      }, "a communicator needs `PeerTraffic traffic(int peer) const`");
  return Communicator<C>;
}

}  // namespace detail

/// A Communicator; any other type is an error whose first line names what it lacks.
template <class C>
concept RequiredCommunicator = detail::is_required_communicator<C>();

}  // namespace nntile
