// SPDX-License-Identifier: BSD-3-Clause
// A program with MPI of its own, FUNNELED, started by ranks.py: what it keeps, graphs on several
// communicators, failures, and what is refused. Its calls of MPI are looked at on their way.
#include <cstdio>
#include <cstring>
#include <thread>

#include "nntile/comm/mpi.hh"
#include "nntile/comm/self.hh"
#include "nntile/comm/transfers.hh"
#include "nntile/runtime/ring/ring.hh"
#include "tests/comm/failing_job.hh"
#include "tests/comm/mpi_expect.hh"
#include "tests/comm/runs_alone.hh"
#include "tests/comm/small_job.hh"
#include "tests/support/message.hh"

namespace {

using namespace nntile;
using namespace nntile::test;

std::thread::id const main_thread = std::this_thread::get_id();
std::atomic<int> calls{0}, calls_elsewhere{0};
int tag_bound = -1;  // what MPI is to say of it; -1: what it does
void note_call() {
  ++calls;
  if (std::this_thread::get_id() != main_thread) ++calls_elsewhere;
}

}  // namespace

// The profiling interface of MPI: what the library calls while it communicates.
#define NNTILE_NOTED(name, declared, given) \
  extern "C" int MPI_##name declared {      \
    note_call();                            \
    return PMPI_##name given;               \
  }
NNTILE_NOTED(Isend_c,
             (void const* bytes, MPI_Count count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request),
             (bytes, count, type, to, tag, comm, request))
NNTILE_NOTED(Improbe,
             (int from, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
              MPI_Status* status),
             (from, tag, comm, flag, message, status))
NNTILE_NOTED(Imrecv_c,
             (void* bytes, MPI_Count count, MPI_Datatype type, MPI_Message* message,
              MPI_Request* request),
             (bytes, count, type, message, request))
NNTILE_NOTED(Testsome,
             (int count, MPI_Request requests[], int* ended, int indices[], MPI_Status statuses[]),
             (count, requests, ended, indices, statuses))
NNTILE_NOTED(Comm_dup, (MPI_Comm comm, MPI_Comm* copy), (comm, copy))
NNTILE_NOTED(Comm_free, (MPI_Comm * comm), (comm))
NNTILE_NOTED(Comm_set_errhandler, (MPI_Comm comm, MPI_Errhandler handler), (comm, handler))
NNTILE_NOTED(Barrier, (MPI_Comm comm), (comm))
NNTILE_NOTED(Allgather,
             (void const* from, int count, MPI_Datatype type, void* to, int counts,
              MPI_Datatype types, MPI_Comm comm),
             (from, count, type, to, counts, types, comm))
NNTILE_NOTED(Allgatherv,
             (void const* from, int count, MPI_Datatype type, void* to, int const counts[],
              int const offsets[], MPI_Datatype types, MPI_Comm comm),
             (from, count, type, to, counts, offsets, types, comm))
extern "C" int MPI_Comm_get_attr(MPI_Comm comm, int key, void* value, int* found) {
  note_call();
  int const code = PMPI_Comm_get_attr(comm, key, value, found);
  if (key != MPI_TAG_UB || tag_bound < 0) return code;
  int* const bound = &tag_bound;
  std::memcpy(value, &bound, sizeof bound);
  return code;
}

namespace {

/// What a caller set on a communicator, and finds there again.
class Caller {
 public:
  explicit Caller(MPI_Comm comm) : comm_(comm) {
    (void)MPI_Comm_create_errhandler(&count_error, &handler_);
    (void)PMPI_Comm_set_errhandler(comm, handler_);
    (void)MPI_Comm_create_keyval(MPI_COMM_DUP_FN, &note_deleted, &key_, nullptr);
    (void)MPI_Comm_set_attr(comm, key_, &value_);
    (void)MPI_Comm_set_name(comm, "the caller's");
    (void)MPI_Comm_rank(comm, &rank_);
    (void)MPI_Irecv(&received_, 1, MPI_INT, rank_, 3, comm, &mine_);
  }
  /// Takes all of it away again.
  void check() {
    MPI_Errhandler found = MPI_ERRHANDLER_NULL;
    (void)MPI_Comm_get_errhandler(comm_, &found);
    expect(found == handler_, "another error handler");
    (void)MPI_Errhandler_free(&found);
    expect(errors == 0, "the caller's error handler was called");
    int* value = nullptr;
    int has = 0, level = 0, done = 1, length = 0;
    (void)PMPI_Comm_get_attr(comm_, key_, &value, &has);
    expect(has == 1 && value == &value_ && value_ == 42, "another attribute");
    char name[MPI_MAX_OBJECT_NAME] = {};
    (void)MPI_Comm_get_name(comm_, name, &length);
    expect(std::string(name) == "the caller's", concat("the name is '", name, "'"));
    (void)MPI_Query_thread(&level);
    expect(level == MPI_THREAD_FUNNELED, "another thread level");
    (void)MPI_Test(&mine_, &done, MPI_STATUS_IGNORE);
    expect(done == 0, "the caller's receive took a message of the library");
    int const letter = 17;
    (void)MPI_Send(&letter, 1, MPI_INT, rank_, 3, comm_);
    (void)MPI_Wait(&mine_, MPI_STATUS_IGNORE);
    expect(received_ == 17, "the caller's message did not arrive");
    (void)MPI_Send(&letter, 1, MPI_INT, 1 << 20, 3, comm_);
    expect(errors == 1, "the caller's error handler is not called");
    errors = 0;
    (void)MPI_Comm_delete_attr(comm_, key_);
    (void)MPI_Comm_free_keyval(&key_);
    (void)PMPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
    (void)MPI_Errhandler_free(&handler_);
  }

 private:
  static inline int errors = 0;
  static void count_error(MPI_Comm*, int*, ...) { ++errors; }
  static int note_deleted(MPI_Comm, int, void*, void*) { return MPI_SUCCESS; }

  MPI_Comm comm_;
  MPI_Errhandler handler_ = MPI_ERRHANDLER_NULL;
  int key_ = MPI_KEYVAL_INVALID, value_ = 42, rank_ = 0, received_ = 0;
  MPI_Request mine_ = MPI_REQUEST_NULL;
};

template <class R> RuntimeOptions workers() { return {.workers = runs_alone<R> ? 1 : 2}; }
std::vector<float> const& of(SmallJob const& job) {
  static std::vector<float> const a = SmallJob("a", 1).alone(4), b = SmallJob("b", -2).alone(4);
  return job.graph.name() == "a" ? a : b;
}

/// Two graphs on one communicator, in flight together and in turn.
template <class R> void two_graphs(MPI_Comm world) {
  SmallJob const a("a", 1), b("b", -2);
  MpiComm comm(world);
  Transfers transfers(comm);
  R runtime(workers<R>());
  TensorStore<R> store(runtime, link_of(transfers)), other(runtime, link_of(transfers));
  auto first = a.compiled(store), second = b.compiled(other);
  for (int run = 0; run < 2; ++run) {
    auto const x = first.execute_async(), y = second.execute_async();
    y.wait(), x.wait();
  }
  for (int run = 0; run < 2; ++run) first.execute(), second.execute();
  expect(a.result(store) == of(a) && b.result(other) == of(b), "two graphs have other bits");
}

/// A graph over all ranks, and another over each half of them, at once: on one runtime or two.
template <class R> void halves(MPI_Comm world, bool one_runtime) {
  SmallJob const a("a", 1), b("b", -2);
  int rank = 0;
  (void)MPI_Comm_rank(world, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  (void)MPI_Comm_split(world, rank % 2, -rank, &half);
  SmallJob const& mine = rank % 2 == 0 ? a : b;
  {
    MpiComm part(half);
    Transfers transfers(part);
    R runtime(workers<R>());
    TensorStore<R> store(runtime, link_of(transfers));
    auto step = mine.compiled(store);
    for (int run = 0; run < 4; ++run) step.execute();  // each half by itself
    expect(mine.result(store) == of(mine), "a half has other bits");
  }
  {
    MpiComm all(world), part(half);
    Transfers wide(all), narrow(part);
    R runtime(workers<R>()), more(workers<R>());
    TensorStore<R> store(runtime, link_of(wide));
    TensorStore<R> few(one_runtime ? runtime : more, link_of(narrow));
    auto first = b.compiled(store), second = mine.compiled(few);
    for (int run = 0; run < 4; ++run) {
      auto const x = first.execute_async(), y = second.execute_async();
      x.wait(), y.wait();
    }
    expect(b.result(store) == of(b) && mine.result(few) == of(mine), "halves and all differ");
  }
  (void)MPI_Comm_free(&half);
}

/// The lines that all ranks give.
std::set<std::string> together(MpiComm& comm, std::set<std::string> const& own) {
  std::vector<std::byte> bytes;
  for (std::string const& one : own) {
    std::uint64_t const size = one.size();
    auto const head = std::as_bytes(std::span(&size, 1)), text = std::as_bytes(std::span(one));
    bytes.insert(bytes.end(), head.begin(), head.end());
    bytes.insert(bytes.end(), text.begin(), text.end());
  }
  std::set<std::string> all;
  for (auto const& from : comm.all_gather(bytes))
    for (std::size_t at = 0; at < from.size();) {
      std::uint64_t size = 0;
      std::memcpy(&size, from.data() + at, sizeof size);
      at += sizeof size;
      all.emplace(reinterpret_cast<char const*>(from.data() + at), size);
      at += size;
    }
  return all;
}

/// Failures cancel on all ranks what they cancel on one, and the communicator goes on.
template <class R> void failures(MPI_Comm world, int count) {
  MpiComm comm(world);
  Transfers transfers(comm);
  int told = 0, tried = 0;
  for (std::uint64_t seed = 1; tried < count; ++seed) {
    RandomParts job(seed);
    if (!job.refusal().empty() || job.ranks() != comm.size()) continue;
    ++tried;
    auto const failing = draw_failing(job);
    std::mutex mutex;
    auto const run = [&]<class Runs>(Runs*, PlanOptions const& options, RankLink const& link) {
      Consequences all;
      all.texts.resize(static_cast<std::size_t>(link.ranks));
      all.failed.resize(all.texts.size());
      run_rank<Runs>(job, options, link, failing, all, mutex);
      return all;
    };
    Consequences const one = run(static_cast<WatchedRuntime<Serial>*>(nullptr), job.alone(), {});
    Consequences const here =
        run(static_cast<WatchedRuntime<R>*>(nullptr), job.options(), link_of(transfers));
    expect(together(comm, here.cancelled) == one.cancelled, concat("seed ", seed, ": others"));
    std::string const& text = here.texts[static_cast<std::size_t>(comm.rank())];
    if (text.empty()) continue;
    expect(contains(text, "injected"), text);
    if (here.failed[static_cast<std::size_t>(comm.rank())] != 0) continue;
    ++told;
    expect(contains(text, "rank ") && contains(text, ": watched of tensor '"), text);
  }
  int all = 0;
  (void)MPI_Allreduce(&told, &all, 1, MPI_INT, MPI_SUM, world);
  expect(comm.size() == 1 || all > 0, "no rank was told of another's failure");
}

/// One line on each rank, with what would work, and the communicator goes on.
void refusals(MPI_Comm world) {
  SmallJob const a("a", 1);
  int ranks = 0;
  (void)MPI_Comm_size(world, &ranks);
  auto const compile = [&](MpiComm& comm, PlanOptions const& options) {
    Transfers transfers(comm);
    Serial runtime;
    TensorStore<Serial> store(runtime, link_of(transfers));
    (void)compile_part(a.graph, store, options);
  };
  PlanOptions options = SmallJob::options(ranks);
  {
    MpiComm comm(world);
    options.mesh = {{"data", ranks + 1}};
    std::string const text = message_of<PlanError>([&] { compile(comm, options); });
    expect(contains(text, concat("a mesh of ", ranks + 1,
                                 " ranks, and the store's communicator has ", ranks)),
           text);
    options = SmallJob::options(ranks);
    std::string elsewhere;
    std::thread([&] { elsewhere = message_of<CommError>([&] { compile(comm, options); }); }).join();
    expect(ranks == 1 || contains(elsewhere, "at thread level funneled"), elsewhere);
  }
  if (ranks == 1) return;
  tag_bound = 5;
  MpiComm comm(world);
  tag_bound = -1;
  std::string const text = message_of<CommError>([&] { compile(comm, options); });
  expect(contains(text, "6 are left of those up to the tag bound, 5"), text);
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  (void)MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm own = MPI_COMM_NULL;
  (void)PMPI_Comm_dup(MPI_COMM_WORLD, &own);
  try {
    Caller caller(own);
    two_graphs<Serial>(own), two_graphs<Ring>(own);
    halves<Serial>(own, true), halves<Ring>(own, false), halves<Ring>(own, true);
    failures<Serial>(own, 6), failures<Ring>(own, 6);
    expect(calls > 20, "calls of MPI are not noted");
    expect(calls_elsewhere == 0, concat(calls_elsewhere.load(), " calls of MPI on other threads"));
    refusals(own);
    caller.check();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  (void)PMPI_Comm_free(&own);
  (void)MPI_Finalize();
  return problems == 0 ? 0 : 1;
}
