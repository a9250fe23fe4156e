// SPDX-License-Identifier: BSD-3-Clause
// Exact products against the best of oneDNN, OpenBLAS and BLIS, and beside Eigen.

#include <sched.h>
#include <unistd.h>

#include <cmath>
#include <map>

#include "bench/gemm_cases.hh"
#include "bench/gemm_cut.hh"
#include "bench/harness.hh"
#include "bench/peak.hh"
#include "bench/process.hh"
#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/support/workspaces.hh"

namespace {

using namespace nntile;
using bench::GemmCase;
using bench::Kind;
using gemm_bench::Operands;
using gemm_bench::Seconds;
using gemm_bench::Shape;
using Samples = std::vector<double>;

/// C = op(A) op(B) as a plan of one op, cut by rows and columns of C.
std::shared_ptr<Plan const> plan_of(Shape const& s, DType dtype, int workers) {
  LogicalGraph graph("product");
  auto const matrix = [](bool trans, Index rows, Index columns, char const* row_axis,
                         char const* column_axis, DType type) {
    return trans ? TensorSpec{.shape = {columns, rows},
                              .dtype = type,
                              .axes = concat(column_axis, " ", row_axis)}
                 : TensorSpec{.shape = {rows, columns},
                              .dtype = type,
                              .axes = concat(row_axis, " ", column_axis)};
  };
  Node const a = graph.input(matrix(s.trans_a, s.m, s.k, "m", "k", dtype), "a");
  Node const b = graph.input(matrix(s.trans_b, s.k, s.n, "k", "n", dtype), "b");
  Node const c = graph.tensor(matrix(false, s.m, s.n, "m", "n", dtype), "c");
  gemm({.trans_a = s.trans_a, .trans_b = s.trans_b}, a, b, c).mark_output();
  auto const cut = bench::cut_product(s, workers);
  return std::make_shared<Plan const>(
      graph, PlanOptions{.tile = 0, .cuts = {{"m", {cut.rows}}, {"n", {cut.columns}}}});
}

/// Keeps the calling thread on the first core of its mask, until the end.
class OnOneCore {
 public:
  OnOneCore() {
    cpu_set_t one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    for (std::size_t core = 0; core < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++core)
      if (CPU_ISSET(core, &all_)) CPU_SET(core, &one);
    held_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  OnOneCore(OnOneCore const&) = delete;
  OnOneCore& operator=(OnOneCore const&) = delete;
  ~OnOneCore() {
    if (held_) sched_setaffinity(0, sizeof all_, &all_);
  }

 private:
  cpu_set_t all_;
  bool held_ = false;
};

/// A planned product on a ring. Workers are pinned, and the driver is: a thread that is woken
/// starts on its waker's core, and both share it for milliseconds.
class Planned {
 public:
  template <class T>
  Planned(Operands<T> const& x, int workers, Isa isa)
      : ring_({.workers = workers, .pin = true}),
        store_(ring_),
        run_(plan_of(x.shape, dtype_of<T>, workers), store_, {.isa = isa}) {
    Shape const& s = x.shape;
    auto const size = [](Index rows, Index columns) {
      return static_cast<std::size_t>(rows * columns);
    };
    run_.bind_input("a", std::span<T const>(x.a.data(), size(s.m, s.k)));
    run_.bind_input("b", std::span<T const>(x.b.data(), size(s.k, s.n)));
  }
  void multiply() { run_.execute(); }
  template <class T> std::vector<T> result() const { return run_.get_output<T>("c"); }

 private:
  Ring ring_;
  OnOneCore driver_;
  TensorStore<Ring> store_;
  CompiledGraph<Ring> run_;
};

/// Our product: a plan where there are several workers and something to share, else the kernel
/// itself, as a user would call it.
template <class T> class Ours {
 public:
  Ours(Shape const& shape, Isa isa, int workers)
      : operands_(shape),
        kernel_(kernels::find("gemm", dtype_of<T>, dtype_of<T>, Mode::exact, isa)) {
    auto const cut = bench::cut_product(shape, workers);
    if (cut.rows < shape.m || cut.columns < shape.n) planned_.emplace(operands_, workers, isa);
  }

  Samples probe() {
    multiply();
    std::vector<T> const values = planned_ ? planned_->template result<T>() : std::vector<T>();
    T const* const c = planned_ ? values.data() : operands_.c.data();
    Samples result;
    for (int i = 0; i < gemm_bench::probes; ++i)
      result.push_back(static_cast<double>(c[gemm_bench::probe(operands_.shape, i)]));
    return result;
  }
  Seconds time(int repetitions) {
    return gemm_bench::time(operands_.shape.flops(), repetitions, [this] { multiply(); });
  }

 private:
  void multiply() {
    if (planned_) return planned_->multiply();
    Shape const& s = operands_.shape;
    using Operand = ops::Gemm::Operand;
    Arguments<ops::Gemm> call{{}, {Operand::a, Operand::b, Operand::c}};
    ops::Gemm::Args& args = call.args;
    args.m = s.m, args.n = s.n, args.k = s.k, args.batch = 1;
    args.lda = s.lda(), args.ldb = s.ldb(), args.ldc = s.m;
    args.alpha = 1;
    args.trans_a = s.trans_a, args.trans_b = s.trans_b;
    void* const buffers[] = {operands_.a.data(), operands_.b.data(), operands_.c.data()};
    if (!kernel_->cpu({buffers, &call, nullptr, workspace_[0]}).ok()) std::exit(1);
  }

  Operands<T> operands_;
  Codelet const* kernel_;
  support::Workspaces workspace_{1};
  std::optional<Planned> planned_;
};

/// A vendor's library in a process of its own.
struct Rival {
  std::string name;
  std::string package;  // Debian's
  bool counts;          // among the vendors
  std::unique_ptr<bench::Process> process{};
};

/// The folder of this program, where the others are.
std::string folder() {
  char path[4096];
  ssize_t const length = readlink("/proc/self/exe", path, sizeof path);
  std::string const self(path, length < 0 ? 0 : static_cast<std::size_t>(length));
  return self.substr(0, self.rfind('/') + 1);
}

bool cpu_has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") != 0;
#else
  return false;
#endif
}

/// Whether rivals are to keep to AVX2, as we do.
bool is_held(Isa isa) { return isa == Isa::v3 || isa == Isa::v2; }

/// The program of Eigen that was compiled for what this CPU can do, or is limited to.
char const* eigen_program([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  return cpu_has_avx512() && !is_held(isa) ? "eigen_v4" : "eigen_v3";
#else
  return "eigen_plain";
#endif
}

/// Threads, how long they may spin, and which of its kernels a library uses. Older libraries do not
/// know newer CPUs and fall back to AVX2 or to plain C: these variables name what the CPU can do,
/// or what it is limited to, and override the user's environment.
std::vector<std::string> environment(int workers, Isa isa) {
  std::vector<std::string> result{"OMP_DYNAMIC=false", "OMP_PROC_BIND=true",
                                  "GOMP_SPINCOUNT=100000", "OPENBLAS_THREAD_TIMEOUT=18"};
  for (char const* const name : {"OMP", "OPENBLAS", "BLIS"})
    result.push_back(concat(name, "_NUM_THREADS=", workers));
  result.push_back("OPENBLAS_L2_SIZE");  // without a value: unset
  if (!cpu_has_avx512()) return result;
  using Settings = std::vector<char const*>;
  for (char const* const setting :
       is_held(isa) ? Settings{"OPENBLAS_CORETYPE=Haswell", "BLIS_ARCH_TYPE=haswell",
                               "DNNL_MAX_CPU_ISA=AVX2", "ONEDNN_MAX_CPU_ISA=AVX2"}
                    : Settings{"OPENBLAS_CORETYPE=SkylakeX", "BLIS_ARCH_TYPE=skx",
                               "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"})
    result.push_back(setting);
  return result;
}

std::vector<Rival> start_rivals(int workers, Isa isa) {
  std::vector<Rival> all;
  all.push_back({"onednn", "libdnnl-dev", true});
  all.push_back({"openblas", "libopenblas-dev", true});
  all.push_back({"blis", "libblis-dev", true});
  all.push_back({"eigen", "libeigen3-dev", false});
  std::vector<Rival> found;
  for (Rival& rival : all) {
    std::string const program =
        folder() + "gemm_" + (rival.name == "eigen" ? eigen_program(isa) : rival.name);
    if (access(program.c_str(), X_OK) == 0) {
      rival.process =
          std::make_unique<bench::Process>(std::vector{program}, environment(workers, isa));
      found.push_back(std::move(rival));
    } else if (workers == 1) {
      std::printf("no %s: it was not built; Debian's package is %s\n", rival.name.c_str(),
                  rival.package.c_str());
    }
  }
  return found;
}

/// Numbers of an answer; none if the rival has no such product.
Samples ask(Rival& rival, GemmCase const& of, int repetitions) {
  Shape const& s = of.shape;
  auto const answer =
      rival.process->ask(concat(of.kind == Kind::fp64 ? "fp64 " : "fp32 ", s.trans_a ? 1 : 0, " ",
                                s.trans_b ? 1 : 0, " ", s.m, " ", s.n, " ", s.k, " ", repetitions));
  if (!answer) {
    std::fprintf(stderr, "%s has died\n", rival.name.c_str());
    std::exit(1);
  }
  Samples result;
  char const* at = answer->c_str();
  for (char* end;; at = end) {
    double const value = std::strtod(at, &end);
    if (end == at) return result;
    result.push_back(value);
  }
}

/// Ends the program where a rival's elements differ by more than rounding: sums of k products that
/// are at most 1/4, so c = 1/2 times k eps.
void compare(GemmCase const& of, std::string const& rival, Samples const& ours,
             Samples const& theirs) {
  double const eps = of.kind == Kind::fp64 ? 0x1p-52 : 0x1p-23;
  double const bound = 0.5 * eps * static_cast<double>(of.shape.k);
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (!(std::fabs(ours[i] - theirs[i]) <= bound)) {
      std::fprintf(stderr, "%s: element %zu is %.9g, %s has %.9g\n", of.name.c_str(), i, ours[i],
                   rival.c_str(), theirs[i]);
      std::exit(1);
    }
}

/// All rivals with a number of workers, and what their ratios have been.
class Contest {
 public:
  Contest(bench::Records& records, int workers, Isa isa)
      : records_(records), workers_(workers), isa_(isa), rivals_(start_rivals(workers, isa)) {
    if (workers == 1)
      records.add("peak", ours(), "gflops", "GFLOP/s", {bench::fma_peak(isa, 1) * 1e-9});
  }

  void run(GemmCase const& of) {
    if (of.kind == Kind::fp64)
      run_as<double>(of);
    else
      run_as<float>(of);
  }
  /// Over all cases of a kind.
  void summarise() {
    for (auto const& [kind, ratios] : ratios_) {
      double logs = 0;
      for (double const ratio : ratios) logs += std::log(ratio);
      char const* const name = bench::kind_names[static_cast<int>(kind)];
      records_.add(name, ours(), "times_best_vendor", "ratio",
                   {std::exp(logs / static_cast<double>(ratios.size()))});
      records_.add(name, ours(), "times_best_vendor_median", "ratio",
                   {bench::quantile(ratios, .5)});
      records_.add(name, ours(), "times_best_vendor_least", "ratio", {bench::quantile(ratios, 0)});
    }
  }

 private:
  std::string ours() const { return named(workers_ == 1 ? "kernel" : "ring"); }
  /// With one worker and on a lesser instruction set than the best, the name says so.
  std::string named(std::string const& runtime) const {
    return concat(runtime, workers_ == 1 ? "_1" : "",
                  isa_ == kernels::best() ? "" : concat("_", name_of(isa_)));
  }

  template <class T> void run_as(GemmCase const& of) {
    bool const quick = records_.options().quick;
    Ours<T> own(of.shape, isa_, workers_);
    Samples const expected = own.probe();
    std::vector<Rival*> rivals;
    for (Rival& rival : rivals_)
      if (Samples const theirs = ask(rival, of, 0); !theirs.empty()) {
        compare(of, rival.name, expected, theirs);
        rivals.push_back(&rival);
      }

    // A slice is short, so that what disturbs the machine disturbs all; a case takes seconds.
    double const guess = of.shape.flops() / 150e9 / workers_;
    int const repetitions = std::clamp(static_cast<int>((quick ? 5e-4 : 2e-3) / guess), 1, 5000);
    double const round = guess * repetitions * static_cast<double>(rivals.size() + 1);
    int const rounds = quick ? std::clamp(static_cast<int>(0.15 / round), 3, 15)
                             : std::clamp(static_cast<int>(3 / round), 5, 31);
    double const deadline = bench::seconds() + (quick ? 0.6 : 12);  // of a busy machine
    Samples mine;
    std::vector<Samples> theirs(rivals.size());
    for (int i = 0; i < rounds && (i < 3 || bench::seconds() < deadline); ++i) {
      mine.push_back(pick(own.time(repetitions)));
      for (std::size_t r = 0; r < rivals.size(); ++r) {
        Samples const answer = ask(*rivals[r], of, repetitions);
        theirs[r].push_back(pick({answer[0], answer[1]}));
      }
    }
    report(of, rivals, mine, theirs);
  }

  /// One worker: CPU time, which others on the machine lengthen least. More: on the wall.
  double pick(Seconds const& seconds) const { return workers_ == 1 ? seconds.cpu : seconds.wall; }

  void report(GemmCase const& of, std::vector<Rival*> const& rivals, Samples const& mine,
              std::vector<Samples> const& theirs) {
    auto const rate = [&](std::string const& name, Samples const& seconds) {
      Samples rates;
      for (double const s : seconds) rates.push_back(of.shape.flops() / s * 1e-9);
      records_.add(of.name, name, "gflops", "GFLOP/s", rates);
    };
    rate(ours(), mine);
    std::size_t best = rivals.size();
    for (std::size_t r = 0; r < rivals.size(); ++r) {
      rate(named(rivals[r]->name), theirs[r]);
      if (rivals[r]->counts && (best == rivals.size() ||
                                bench::quantile(theirs[r], .5) < bench::quantile(theirs[best], .5)))
        best = r;
    }
    if (best == rivals.size()) return;
    records_.add_ratio(of.name, ours(), "times_best_vendor", theirs[best], mine);
    Samples ratios;
    for (std::size_t i = 0; i < mine.size(); ++i) ratios.push_back(theirs[best][i] / mine[i]);
    ratios_[of.kind].push_back(bench::quantile(ratios, .5));
  }

  bench::Records& records_;
  int const workers_;
  Isa const isa_;
  std::vector<Rival> rivals_;
  std::map<Kind, Samples> ratios_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string const part = bench::take_option(argc, argv, "--case");
  std::string const threads = bench::take_option(argc, argv, "--workers");
  bench::Records records(
      "gemm",
      bench::parse(
          argc, argv,
          "Exact products against the best of oneDNN, OpenBLAS and BLIS, each in a "
          "process of its own, in turn. kernel_1 and names with _1: one thread, CPU time. "
          "ring and the others: two, on the wall; less than 0.4 Mflop is not shared. Names that "
          "end in _v3 are held to AVX2. "
          "Also takes --case TEXT, which names of cases must hold, and --workers 1|2.",
          true));
  auto const cases = bench::gemm_cases(records.options().quick);
  auto const chosen = [&](GemmCase const& of) { return of.name.find(part) != std::string::npos; };
  bench::require_case("gemm", part, cases, chosen);
  if (!threads.empty() && threads != "1" && threads != "2") {
    std::fprintf(stderr, "bench_gemm: --workers takes 1 or 2, not '%s'\n", threads.c_str());
    std::exit(2);  // and no record of nothing in the place of others
  }
  Isa const isa = bench::isa_of(records.options());
  for (int const workers : {1, 2}) {
    if (!threads.empty() && std::to_string(workers) != threads) continue;
    Contest contest(records, workers, isa);
    for (GemmCase const& of : cases)
      if (chosen(of)) contest.run(of);
    contest.summarise();
  }
}
