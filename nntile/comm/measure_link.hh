#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Measures the cost of a message between two ranks over the communicator in use: for simulations.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/core/error.hh"
#include "nntile/core/link_model.hh"

namespace nntile {

struct MeasureLinkOptions {
  std::size_t bytes = std::size_t{1} << 20;  // of a large message
  int rounds = 30;                           // of each measurement, of which the least counts
};

namespace detail {

/// Measures of one rank in seconds: of a message of 8 bytes, and of a large one.
struct LinkTimes {
  double one_way[2] = {};  // half of there and back
  double own[2] = {};      // a thread's own time: to post, and to test after it has been away
};

template <Communicator C> class LinkMeasurement {
 public:
  LinkMeasurement(C& comm, MeasureLinkOptions const& options)
      : comm_(comm), options_(options), memory_(most_buffers * options.bytes) {}

  /// Rank 0 and 1 exchange messages; others wait.
  LinkTimes run() {
    LinkTimes times;
    for (int large = 0; large < 2; ++large) {
      std::size_t const bytes = large == 0 ? 8 : options_.bytes;
      double const one_way = least([&] { return ping_pong(bytes) / 2; });
      times.one_way[large] = one_way;
      times.own[large] = least([&] { return own_time(bytes, 3 * one_way); });
    }
    return times;
  }

 private:
  static constexpr std::size_t most_buffers = 16;  // in turn, so that large ones are in no cache

  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  template <class Measure> double least(Measure measure) {
    double least = std::numeric_limits<double>::infinity();
    for (int round = -1; round < options_.rounds; ++round) {
      comm_.barrier();
      double const seconds = comm_.rank() < 2 ? measure() : 0;
      if (round >= 0) least = std::min(least, seconds);  // the first touches fresh memory
    }
    return least;
  }
  std::span<std::byte> buffer(std::size_t bytes) {
    return std::span(memory_).subspan(next_++ % most_buffers * options_.bytes, bytes);
  }
  void post(bool sends, std::size_t bytes) {
    Message const message{1 - comm_.rank(), 0};
    (void)(sends ? comm_.send(buffer(bytes), message) : comm_.receive(buffer(bytes), message));
  }
  void wait() {
    std::vector<EndedRequest> ended;
    while (ended.empty()) comm_.test(ended);
    if (!ended[0].error.empty()) throw CommError(concat("measure_link: ", ended[0].error));
  }

  double ping_pong(std::size_t bytes) {
    double const begin = now();
    for (bool const there : {true, false}) {
      post(there == (comm_.rank() == 0), bytes);
      wait();
    }
    return now() - begin;
  }
  /// Posts, is away for as long as the network needs, and tests.
  double own_time(std::size_t bytes, double away) {
    double const begin = now();
    post(comm_.rank() == 0, bytes);
    double const posted = now();
    while (now() - posted < away) continue;
    double const back = now();
    wait();
    return posted - begin + now() - back;
  }

  C& comm_;
  MeasureLinkOptions const& options_;
  std::vector<std::byte> memory_;
  std::size_t next_ = 0;
};

/// Throws ValueError for numbers that nothing can be measured with.
inline void check_link_options(MeasureLinkOptions const& options) {
  if (options.bytes < 1024 || options.rounds < 1)
    throw ValueError(concat("measure_link: ", options.rounds, " rounds of ", options.bytes,
                            " bytes; at least 1 of 1024"));
  if (options.bytes > std::size_t{1} << 40)  // 16 buffers of more might not be counted in 64 bits
    throw ValueError(concat("measure_link: messages of ", options.bytes, " bytes; at most 2^40"));
}

/// Measures where all ranks can, and alike: what one does not send, another would wait for.
template <Communicator C> LinkTimes measure_together(C& comm, MeasureLinkOptions const& options) {
  std::optional<LinkMeasurement<C>> measurement;
  std::string own = concat(options.rounds, " rounds of ", options.bytes, " bytes");
  std::exception_ptr error;
  try {
    check_link_options(options);
    measurement.emplace(comm, options);
  } catch (std::exception const& cause) {
    error = std::current_exception();
    own = cause.what();
  }
  auto const all = comm.all_gather(std::as_bytes(std::span(own)));
  if (error != nullptr) std::rethrow_exception(error);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::string_view const other(reinterpret_cast<char const*>(all[rank].data()), all[rank].size());
    if (other != own)
      throw CommError(concat("measure_link: rank ", comm.rank(), " is at ", own, ", rank ", rank,
                             " at ", other, ": all ranks measure alike"));
  }
  return measurement->run();
}

}  // namespace detail

/// The link between ranks 0 and 1, by messages of 8 bytes and of many that go back and forth, and
/// by what a thread spends on them that does something else meanwhile; the least of some rounds,
/// since other work on the cores only adds. Where the thread's is all of the time, as over memory
/// that ranks share, the bandwidth is infinite and the overhead has it. Collective: all ranks call
/// it, with nothing open, on idle cores; all get the same. Throws ValueError for fewer than two
/// ranks, bytes or rounds, or more than 2^40 bytes; CommError, also where another rank throws or
/// has other options. Cost: 16 times the bytes of memory; about 1 s with MPI.
template <Communicator C> LinkModel measure_link(C& comm, MeasureLinkOptions const& options = {}) {
  if (comm.size() < 2)
    throw ValueError(concat("measure_link: ", comm.size(), " rank; a link is between two"));
  detail::LinkTimes mine = detail::measure_together(comm, options);
  auto const all = comm.all_gather(std::as_bytes(std::span(&mine, 1)));
  detail::LinkTimes of[2];
  for (int rank = 0; rank < 2; ++rank)
    std::memcpy(&of[rank], all[static_cast<std::size_t>(rank)].data(), sizeof of[rank]);
  auto const bytes = static_cast<double>(options.bytes - 8);
  auto const mean = [](double a, double b) { return (a + b) / 2; };
  double const small = of[0].one_way[0], own = mean(of[0].own[0], of[1].own[0]);
  double const large_own = mean(of[0].own[1], of[1].own[1]);
  LinkModel link;
  link.overhead = own;
  link.overhead_per_byte = std::max(0.0, large_own - own) / bytes;
  link.latency = std::max(0.0, small - 2 * own);
  double const wire = of[0].one_way[1] - small - 2 * bytes * link.overhead_per_byte;
  link.bandwidth = wire > 0 ? bytes / wire : std::numeric_limits<double>::infinity();
  return link;
}

}  // namespace nntile
