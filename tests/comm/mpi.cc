// SPDX-License-Identifier: BSD-3-Clause
// MPI ranks, started by ranks.py: the battery, and what MPI alone can be asked. The first argument
// is what to run; every rank returns 0 when it found nothing wrong.
#include "nntile/comm/mpi.hh"

#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "nntile/comm/transfers.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/testing/communicator.hh"
#include "tests/comm/mpi_expect.hh"
#include "tests/comm/transfer_tasks.hh"
#include "tests/support/allocations.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;
using test::contains;
using test::message_of;

using Bytes = std::vector<std::byte>;

using test::expect;
using test::problems;

void expect_message(std::string const& text, std::string const& words) {
  expect(contains(text, words), "expected '" + words + "' in '" + text + "'");
}

void run_battery(MPI_Comm comm) {
  testing::CommReport report;
  {
    MpiComm ranks(comm);
    report = testing::communicator_conformance(ranks);
  }
  expect(report.passed(), to_string(report));
}

void battery() { run_battery(MPI_COMM_WORLD); }

/// Two communicators of other groups at once, in another order of ranks.
void split() {
  int rank = 0;
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  (void)MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
  run_battery(half);
  {
    MpiComm all(MPI_COMM_WORLD), some(half);  // the same numbers in both
    Bytes one(8, std::byte{1}), two(8, std::byte{2}), room_one(8), room_two(8);
    (void)some.receive(room_two, {some.rank(), 0});
    (void)all.receive(room_one, {all.rank(), 0});
    (void)all.send(one, {all.rank(), 0});
    (void)some.send(two, {some.rank(), 0});
    std::vector<EndedRequest> ended;
    while (ended.size() < 4) {
      all.test(ended);
      some.test(ended);
    }
    expect(room_one == one && room_two == two, "a message crossed between two communicators");
  }
  (void)MPI_Comm_free(&half);
}

/// The caller's communicator, its messages and its error handler stay as they were.
void leaves_alone() {
  MPI_Errhandler before = MPI_ERRHANDLER_NULL, after = MPI_ERRHANDLER_NULL;
  (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
  int rank = 0;
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  int sent = 17, received = 0;
  MPI_Request mine = MPI_REQUEST_NULL;
  (void)MPI_Irecv(&received, 1, MPI_INT, rank, 5, MPI_COMM_WORLD, &mine);
  {
    MpiComm ranks(MPI_COMM_WORLD);
    (void)MPI_Comm_get_errhandler(MPI_COMM_WORLD, &after);
    expect(before == after, "the error handler of the caller's communicator was changed");
    Bytes bytes(4), room(4);
    (void)ranks.receive(room, {rank, 5});
    (void)ranks.send(bytes, {rank, 5});
    std::vector<EndedRequest> ended;
    while (ended.size() < 2) ranks.test(ended);
  }
  int done = 1;
  (void)MPI_Test(&mine, &done, MPI_STATUS_IGNORE);
  expect(done == 0, "the caller's receive took a message of the library");
  (void)MPI_Send(&sent, 1, MPI_INT, rank, 5, MPI_COMM_WORLD);
  (void)MPI_Wait(&mine, MPI_STATUS_IGNORE);
  expect(received == 17, "the caller's message did not arrive");
}

void bad_communicators() {
  expect_message(message_of<CommError>([] { MpiComm(MPI_Comm{MPI_COMM_NULL}); }), "MPI_COMM_NULL");
  int rank = 0, size = 0;
  (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 2) return;
  MPI_Comm half = MPI_COMM_NULL, between = MPI_COMM_NULL;
  (void)MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  (void)MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 3, &between);
  expect_message(message_of<CommError>([&] { MpiComm{between}; }), "intercommunicator");
  (void)MPI_Comm_free(&between);
  (void)MPI_Comm_free(&half);
}

void other_kinds() {
  std::string const other =
      detail::mpi_of_build == "MPICH" ? "Open MPI v4.1.4, package: Debian" : "MPICH Version: 4.0.2";
  expect_message(message_of<CommError>([&] { detail::check_mpi_library(other); }),
                 concat("compiled with the mpi.h of ", detail::mpi_of_build));
  int size = 0;
  (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
  (void)setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
  if (detail::mpi_of_build != "MPICH") return;
  std::string const text = message_of<CommError>([] { check_mpi_launcher_environment(); });
  expect_message(text, size == 1 ? "started 4 processes" : "nothing was thrown");
}

/// Below MPI_THREAD_SERIALIZED other threads are refused, above they may call.
void threads() {
  MpiComm ranks(MPI_COMM_WORLD);
  bool const main_alone = ranks.thread_level() < ThreadLevel::serialized;
  std::string made, called;
  Bytes bytes(1), room(1);
  std::thread([&] {
    expect(!ranks.on_main_thread(), "on_main_thread() on another thread");
    if (main_alone) made = message_of<CommError>([] { MpiComm(MPI_Comm{MPI_COMM_SELF}); });
    called = message_of<CommError>([&] { (void)ranks.receive(room, {ranks.rank(), 0}); });
  }).join();
  expect(ranks.on_main_thread(), "on_main_thread() on the main thread");
  if (main_alone) {
    expect_message(made, "not the one that initialised MPI, at thread level");
    expect_message(called, concat("at thread level ", name_of(ranks.thread_level())));
    return;
  }
  expect_message(called, "nothing was thrown");
  (void)ranks.send(bytes, {ranks.rank(), 0});
  std::vector<EndedRequest> ended;
  while (ended.size() < 2) ranks.test(ended);
}

/// Receives before it sends, to each other rank, in the order of submission.
template <class R> void cross(int workers) {
  MpiComm ranks(MPI_COMM_WORLD);
  Transfers<MpiComm> engine(ranks);
  engine.check_driver();
  R runtime(RuntimeOptions{.workers = workers});
  test::RankTasks tasks{runtime, engine};
  long const size = ranks.size();
  for (std::size_t const longs :
       {std::size_t{0}, std::size_t{10}, std::size_t{5'000}, std::size_t{200'000}}) {
    std::int64_t const number = engine.reserve(1);
    auto const mine = tasks.make(longs, ranks.rank() + 1), sum = tasks.make(longs, 0);
    tasks.add(sum, mine, longs);
    for (int places = 1; places < size; ++places) {
      int const peer = (ranks.rank() + places) % ranks.size();
      auto const theirs = tasks.allocate(longs);
      tasks.receive(theirs, {peer, number}, longs);
      tasks.add(sum, theirs, longs);
      runtime.retire(theirs);
    }
    for (int peer = 0; peer < size; ++peer)
      if (peer != ranks.rank()) tasks.send(mine, {peer, number}, longs);
    runtime.wait_all();
    expect(tasks.read(sum) == std::vector<long>(longs, size * (size + 1) / 2), "another sum");
  }
  if (size > 1)
    expect(
        ranks.traffic((ranks.rank() + 1) % ranks.size()).sent == Traffic{4, 205'010 * sizeof(long)},
        "another traffic");
}
void transfers() {
  cross<Serial>(1);
  cross<Ring>(1);
  cross<Ring>(2);
}

/// A wrong size fails the task, not the program.
void wrong_size() {
  MpiComm ranks(MPI_COMM_WORLD);
  Transfers<MpiComm> engine(ranks);
  Serial runtime;
  test::RankTasks tasks{runtime, engine};
  auto const mine = tasks.make(100, 1), theirs = tasks.allocate(99);
  int const next = (ranks.rank() + 1) % ranks.size();
  int const previous = (ranks.rank() + ranks.size() - 1) % ranks.size();
  tasks.receive(theirs, {previous, 4}, 99);
  tasks.send(mine, {next, 4}, 100);
  expect_message(message_of<TaskError>([&] { runtime.wait_all(); }),
                 "800 bytes came, 792 were expected");
}

/// Requests for which memory ran short pass: those that were not posted are posted again. MPI's own
/// calls have memory.
void memory_runs_short() {
  MpiComm ranks(MPI_COMM_WORLD);
  int const self = ranks.rank();
  for (bool const receive_first : {false, true})
    for (std::size_t const expected : {std::size_t{4}, std::size_t{40}})
      for (long count = 0; count < 20; ++count) {
        Bytes const bytes(40, std::byte{1});
        Bytes room(expected), last(1);
        std::vector<EndedRequest> ended;
        test::Retry again;
        auto const test_often = [&](std::size_t until) {
          for (int i = 0; i < 100'000 && ended.size() < until; ++i)
            again([&] { ranks.test(ended); });
        };
        (void)test::fail_new_after(count);
        if (receive_first) again([&] { (void)ranks.receive(room, {self, 3}); });
        again([&] { (void)ranks.send(bytes, {self, 3}); });
        if (!receive_first) {
          again([&] { (void)ranks.receive(last, {self, 4}); });  // has tests look for messages
          test_often(1);
          again([&] { (void)ranks.receive(room, {self, 3}); });
        }
        test_often(2);
        (void)test::fail_new_after(-1);
        std::string const at = concat("receive first ", receive_first ? "yes" : "no", ", ",
                                      expected, " bytes, allocation ", count, ": ");
        expect(again.failures <= 1, at + "more than one call failed");
        expect(ended.size() == 2, concat(at, ended.size(), " of 2 requests ended"));
        if (ended.size() != 2) return;
        for (EndedRequest const& one : ended)
          expect(one.error.empty() || expected != bytes.size(), at + one.error);
        expect((room[0] == std::byte{1}) == (expected == bytes.size()), at + "other bytes");
        if (receive_first) continue;
        Bytes const end(1);
        (void)ranks.send(end, {self, 4});
        test_often(4);
      }
}

/// A gather for which one rank lacks memory fails on all.
void gather_runs_short() {
  MpiComm ranks(MPI_COMM_WORLD);
  for (long count = 0; count < 12; ++count) {
    Bytes const bytes(40);
    std::string text;
    if (ranks.rank() == 0) (void)test::fail_new_after(count);
    try {
      (void)ranks.all_gather(bytes);
    } catch (std::bad_alloc const&) {
      text = "no memory";
    } catch (CommError const& error) {
      text = error.what();
    }
    int lacked = ranks.rank() == 0 && test::fail_new_after(-1) < 0 ? 1 : 0;
    (void)MPI_Bcast(&lacked, 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::string const due = lacked == 0         ? ""
                            : ranks.rank() == 0 ? "no memory"
                                                : "all_gather: rank 0 lacks memory";
    expect(text == due, concat("allocation ", count, ": '", text, "'"));
  }
}

/// Ends with receives open, as programs that end with an error do.
void ends_early() {
  Bytes room(100);
  MpiComm ranks(MPI_COMM_WORLD);
  (void)ranks.receive(room, {ranks.rank(), 0});
}

}  // namespace

int main(int argc, char** argv) {
  std::string const level = argc > 1 ? argv[1] : "multiple";
  expect_message(message_of<CommError>([] { MpiComm(MPI_Comm{MPI_COMM_WORLD}); }),
                 "MPI is not initialised; call MPI_Init_thread");
  int const asked = level == "single"       ? MPI_THREAD_SINGLE
                    : level == "funneled"   ? MPI_THREAD_FUNNELED
                    : level == "serialized" ? MPI_THREAD_SERIALIZED
                                            : MPI_THREAD_MULTIPLE;
  int given = 0;
  (void)MPI_Init_thread(&argc, &argv, asked, &given);
  {
    MpiComm const ranks(MPI_COMM_WORLD);
    expect(name_of(ranks.thread_level()) == level,
           concat("thread level ", name_of(ranks.thread_level())));
  }
  battery();
  threads();
  transfers();
  wrong_size();
  memory_runs_short();
  if (test::allocations_are_counted()) gather_runs_short();
  if (level == "multiple") {
    split();
    leaves_alone();
    bad_communicators();
    ends_early();
    other_kinds();
  }
  (void)MPI_Finalize();
  expect_message(message_of<CommError>([] { MpiComm(MPI_Comm{MPI_COMM_WORLD}); }), "finalised");
  return problems == 0 ? 0 : 1;
}
