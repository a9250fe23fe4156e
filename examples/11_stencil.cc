// SPDX-License-Identifier: BSD-3-Clause
// A solver of one's own, distributed by MPI calls of its own, trains a surrogate of itself while it
// runs: nntile reads the cells where the solver has them, over the same ranks. The bits do not
// depend on the number of ranks.
//     mpiexec.mpich -n 3 build/examples/11_stencil
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nntile/comm/mpi.hh>
#include <nntile/comm/transfers.hh>
#include <nntile/graph/graph.hh>
#include <nntile/graph/parts.hh>
#include <nntile/nn/linear.hh>
#include <nntile/nn/optim.hh>
#include <nntile/nntile.hh>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace nntile;

constexpr Index width = 96, height = 48, cells = width * height;
constexpr Index blocks = 12;  // of rows, which ranks share out: 1 to 12 ranks
constexpr Index hidden = 16;

/// u' = D laplace(u) + u - u^3 on a torus (Allen and Cahn 1979), explicit Euler. Each rank has some
/// rows between two of its neighbours'. Cells are numbered through all rows, so that the one left
/// of a row's first is the last of the row before.
class Solver {
 public:
  using Field = std::vector<float>;

  explicit Solver(MPI_Comm ring) : ring_(ring) {
    int rank = 0, size = 0;
    MPI_Comm_rank(ring, &rank);
    MPI_Comm_size(ring, &size);
    MPI_Cart_shift(ring, 0, 1, &before_, &behind_);
    Index const most = blocks / size, longer = blocks % size;
    Index const first = rank * most + std::min<Index>(rank, longer);
    begin_ = first * (cells / blocks);
    count_ = (most + (rank < longer ? 1 : 0)) * (cells / blocks);
  }

  /// This rank's cells, shifted by some within the field.
  std::span<float const> view(Field const& field, Index shift) const {
    return std::span(field).subspan(static_cast<std::size_t>(width + shift), size(count_));
  }
  Field field() const { return Field(size(count_ + 2 * width)); }
  void begin(Field& field, float phase) const {
    for (Index i = 0; i < count_; ++i) {
      auto const x = static_cast<float>((begin_ + i) % width),
                 y = static_cast<float>((begin_ + i) / width);
      field[size(width + i)] = 0.8f * std::sin(0.3927f * x + phase + std::sin(0.1309f * y)) *
                               std::cos(0.2618f * y + phase);
    }
    exchange(field);
  }
  /// Five steps on, by two threads.
  void advance(Field const& from, Field& to) {
    to = from;
    for (int step = 0; step < 5; ++step) {
      last_ = to;
      std::thread half([&] { sweep(last_, to, 0, count_ / 2); });
      sweep(last_, to, count_ / 2, count_);
      half.join();
      exchange(to);  // on this thread: MPI_THREAD_FUNNELED
    }
  }

 private:
  static std::size_t size(Index count) { return static_cast<std::size_t>(count); }
  static void sweep(Field const& u, Field& next, Index begin, Index end) {
    for (std::size_t i = size(width + begin); i < size(width + end); ++i) {
      float const around = u[i - 1] + u[i + 1] + u[i - size(width)] + u[i + size(width)];
      next[i] = u[i] + 0.1f * (around - 3 * u[i] - u[i] * u[i] * u[i]);
    }
  }
  void exchange(Field& field) const {
    int const row = static_cast<int>(width);
    float* const u = field.data();
    MPI_Sendrecv(u + width, row, MPI_FLOAT, before_, 0, u + width + count_, row, MPI_FLOAT, behind_,
                 0, ring_, MPI_STATUS_IGNORE);
    MPI_Sendrecv(u + count_, row, MPI_FLOAT, behind_, 1, u, row, MPI_FLOAT, before_, 1, ring_,
                 MPI_STATUS_IGNORE);
  }

  MPI_Comm ring_;
  int before_ = 0, behind_ = 0;
  Index begin_ = 0, count_ = 0;
  Field last_;
};

/// The change of each cell in five steps, from the cell and its four neighbours.
struct Surrogate {
  static constexpr std::array<Index, 5> shifts{0, -1, 1, -width, width};
  LogicalGraph graph;
  nn::ParameterList parameters{graph};
  std::vector<Node> near;
  Node change;

  explicit Surrogate(std::string const& name) : graph(name, {.groups = {{"cell", blocks}}}) {
    Node sum;
    for (std::size_t i = 0; i < shifts.size(); ++i) {
      near.push_back(graph.input({.shape = {1, cells}, .axes = "one cell"}, concat("near", i)));
      nn::Linear const in(parameters, concat("in", i), {{hidden}, "hidden"}, {{1}, "one"},
                          {.stddev = 0.5, .bias = i == 0});
      sum = i == 0 ? in(near[i]) : add(sum, in(near[i]));
    }
    change = nn::Linear(parameters, "out", {{1}, "one"}, {{hidden}, "hidden"},
                        {.stddev = 0.1})(gelutanh(sum));
  }
  void bind(Graph<Ring>& run, Solver const& solver, Solver::Field const& field) const {
    for (std::size_t i = 0; i < shifts.size(); ++i) run[near[i]] = solver.view(field, shifts[i]);
  }
};

void train(MPI_Comm ring, int rank, int ranks) {
  if (ranks > blocks) throw Error(concat("at most ", blocks, " ranks, and these are ", ranks));
  Solver solver(ring);
  Solver::Field now = solver.field(), next = now, after = now;  // they outlive the store

  Surrogate learns("train"), predicts("predict");
  Node const later = learns.graph.input({.shape = {1, cells}, .axes = "one cell"}, "later");
  Node const wrong = add({.beta = -1}, add(learns.near[0], learns.change), later);
  Node const loss =
      sum_slice({.axis = 0, .ascending = true}, sum_squares(wrong)).named("loss").mark_output();
  nn::AdamW const optimizer(learns.parameters, add_gradients(learns.graph, loss),
                            {.weight_decay = 0});
  predicts.change.mark_output();
  LogicalGraph init("init");
  nn::initialize(init, learns.parameters, 1);
  nn::initialize_states(init, optimizer);

  MpiComm comm(ring);  // a duplicate: no message of nntile meets one of the solver
  Transfers transfers(comm);
  Ring runtime({.workers = 2});
  TensorStore<Ring> store(runtime, link_of(transfers));
  PlanOptions options{.tile = 512};
  options.adopted = {"near0", "near1", "near2", "near3", "near4", "later"};
  options.mesh = {{"rows", ranks}};
  options.rules = {{.axis = "cell", .mesh = "rows"}};
  Graph<Ring> step(learns.graph, compile_part(learns.graph, store, options));
  options.adopted.clear();  // the store knows by now
  Graph<Ring> use(predicts.graph, compile_part(predicts.graph, store, options));
  options.rules.clear();
  compile_part(init, store, options).execute();

  solver.begin(now, 0);
  solver.advance(now, next);
  for (std::int64_t number = 1; number <= 160; ++number) {
    learns.bind(step, solver, now);
    step[later] = solver.view(next, 0);
    step[optimizer.lr()] = 0.02;
    step[optimizer.step()] = number;
    auto const run = step.async();
    solver.advance(next, after);  // meanwhile
    run.wait();
    if (rank == 0 && (number == 1 || number % 40 == 0))
      std::printf("step %3d: error %.9g\n", static_cast<int>(number),
                  std::sqrt(step[loss].item<double>() / cells));
    now.swap(next), next.swap(after);
    if (number % 2 != 0) continue;
    solver.begin(now, static_cast<float>(number));  // another run; the last is foretold below
    solver.advance(now, next);
  }

  predicts.bind(use, solver, now);
  use();
  std::vector<float> change(solver.view(now, 0).size());
  use[predicts.change].read(std::span(change));  // of this rank's cells
  double sums[2] = {};
  for (std::size_t i = 0; i < change.size(); ++i) {
    auto const was = static_cast<double>(solver.view(now, 0)[i]);
    auto const is = static_cast<double>(solver.view(next, 0)[i]);
    sums[0] += std::pow(was + static_cast<double>(change[i]) - is, 2);
    sums[1] += std::pow(is - was, 2);
  }
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, ring);
  if (rank == 0)
    std::printf("a jump of the surrogate is off by %.3f of the change\n",
                std::sqrt(sums[0] / sums[1]));
}

int errors = 0;  // that this program's error handler was called for
void count(MPI_Comm*, int*, ...) { ++errors; }

int main(int argc, char** argv) {
  int level = 0, rank = 0, ranks = 0, periodic = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm ring;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &periodic, 0, &ring);
  MPI_Comm_rank(ring, &rank);
  MPI_Errhandler handler, found;
  MPI_Comm_create_errhandler(count, &handler);
  MPI_Comm_set_errhandler(ring, handler);
  int mail = 0, letter = 17;
  MPI_Request pending;
  MPI_Irecv(&mail, 1, MPI_INT, rank, 2, ring, &pending);  // open all the time
  try {
    train(ring, rank, ranks);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(ring, 1);
  }
  MPI_Comm_get_errhandler(ring, &found);
  bool const kept = found == handler && errors == 0 && mail == 0;
  MPI_Send(&letter, 1, MPI_INT, rank, 2, ring);
  MPI_Wait(&pending, MPI_STATUS_IGNORE);
  MPI_Send(&letter, 1, MPI_INT, ranks, 2, ring);  // to a rank that is not there
  int good = kept && mail == letter && errors == 1 ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, ring);
  if (rank == 0)
    std::printf("the communicator and its error handler are %s\n",
                good == 1 ? "as they were" : "DAMAGED");
  MPI_Errhandler_free(&found);
  MPI_Errhandler_free(&handler);
  MPI_Comm_free(&ring);
  MPI_Finalize();
  return good == 1 ? 0 : 1;
}
