// SPDX-License-Identifier: BSD-3-Clause
// A rank of bench_ranks, one worker each, under mpiexec: makes a step when rank 0 is asked to.
//
// usage: ranks_mpi CASE     then a line for each step; rank 0 answers with its seconds, the loss,
//                           and the least share of its transfers that a rank hid; and the line
//                           "link" with latency, bandwidth and overheads of a link

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <iostream>

#include "bench/gpt2_step.hh"
#include "bench/harness.hh"
#include "bench/overlap.hh"
#include "bench/ranks_cases.hh"
#include "nntile/comm/measure_link.hh"
#include "nntile/comm/mpi.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/runtime/ring/ring.hh"

namespace {

using namespace nntile;

enum class Word : std::uint8_t { stop, step, link };

/// Rank 0's word to the others, who sleep until it comes: a rank that spins in a barrier would take
/// the core of the process that is timed meanwhile.
Word agree(MpiComm& comm, Word word, std::int64_t number) {
  auto const bytes = std::as_writable_bytes(std::span(&word, 1));
  std::vector<EndedRequest> ended;
  std::size_t open = 0;
  if (comm.rank() == 0) {
    for (int peer = 1; peer < comm.size(); ++peer, ++open) (void)comm.send(bytes, {peer, number});
  } else {
    (void)comm.receive(bytes, {0, number});
    open = 1;
  }
  while (ended.size() < open) {
    comm.test(ended);
    usleep(200);
  }
  return word;
}

/// Bytes per second of 1 MiB messages, a large tile's, that two ranks send each other in turn.
double ping_pong_rate(MpiComm& comm) {
  static std::vector<std::byte> bytes(std::size_t{1} << 20);
  constexpr int rounds = 20;
  std::vector<EndedRequest> ended;
  double begin = 0;
  for (int round = -2; round < 2 * rounds; ++round) {  // the first two warm up
    if (round == 0) begin = bench::seconds();
    bool const sends = (round + comm.rank()) % 2 == 0;
    (void)(sends ? comm.send(bytes, {1 - comm.rank(), 1000})
                 : comm.receive(bytes, {1 - comm.rank(), 1000}));
    for (ended.clear(); ended.empty();) comm.test(ended);
  }
  return 2 * rounds * static_cast<double>(bytes.size()) / (bench::seconds() - begin);
}

/// The least of what two ranks give.
double least(MpiComm& comm, double value) {
  for (auto const& bytes : comm.all_gather(std::as_bytes(std::span(&value, 1)))) {
    double other = 0;
    std::memcpy(&other, bytes.data(), sizeof other);
    value = std::min(value, other);
  }
  return value;
}

int serve(bench::RanksCase const& of) {
  MpiComm comm(MPI_COMM_WORLD), words(MPI_COMM_WORLD);
  bench::TimedComm timed(comm);
  Transfers transfers(timed);
  bench::Gpt2Step const step({}, of.seq, of.batch, {.groups = of.groups});
  PlanOptions options{.tile = 512};
  options.mesh = of.mesh;
  options.rules = of.rules;
  bench::BoundStep<Ring> bound(step, {.workers = 1}, options, {.trace = true}, link_of(transfers));
  (void)bound.execute();  // touches fresh memory
  Plan const& plan = bound.run().plan();
  TaskOrder const order = order_of(plan);
  double received = 0;
  for (PlannedTraffic const& with : traffic(plan))
    received += static_cast<double>(with.bytes_received);
  if (comm.rank() == 0) {
    Index sent = 0;
    for (PlannedTraffic const& with : traffic(plan)) sent += with.bytes_sent;
    std::printf("%lld %lld\n", static_cast<long long>(sent),
                static_cast<long long>(traffic_bound(step.graph, options)));
    std::fflush(stdout);
  }
  std::string line;
  for (std::int64_t number = 1;; ++number) {
    bool const more = comm.rank() != 0 || static_cast<bool>(std::getline(std::cin, line));
    Word const asked = !more ? Word::stop : line == "link" ? Word::link : Word::step;
    Word const word = agree(words, asked, number % 1000);
    if (word == Word::stop) return 0;
    if (word == Word::link) {
      LinkModel const link = measure_link(words);
      if (comm.rank() != 0) continue;
      std::printf("%.9g %.9g %.9g %.9g\n", link.latency, link.bandwidth, link.overhead,
                  link.overhead_per_byte);
      std::fflush(stdout);
      continue;
    }
    double const rate = ping_pong_rate(words);
    (void)timed.take_times();
    double const begin = bench::seconds();
    float const loss = bound.execute();
    double const took = bench::seconds() - begin;
    double const idle = bench::idle_seconds(plan, order, bound.run().times(), timed.take_times());
    double const overlap = least(words, 1 - idle / (received / rate));
    if (comm.rank() != 0) continue;
    std::printf("%.9f %.9g %.9g\n", took, static_cast<double>(loss), overlap);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  auto const cases = bench::ranks_cases();
  bench::RanksCase const* const of = argc == 2 ? bench::find_ranks_case(cases, argv[1]) : nullptr;
  if (of == nullptr) {
    std::fputs("usage: mpiexec.mpich -n 2 ranks_mpi CASE; cases are those of bench_ranks\n",
               stderr);
    return 2;
  }
  int level = 0, status = 1;
  (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  try {
    status = serve(*of);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "ranks_mpi: %s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  (void)MPI_Finalize();
  return status;
}
