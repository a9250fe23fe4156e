// SPDX-License-Identifier: BSD-3-Clause
// Operations on one core as a share of what its memory or our own product reaches, beside PyTorch.

#include <unistd.h>

#include <fstream>
#include <sstream>

#include "bench/ops_arrays.hh"
#include "bench/ops_attention.hh"
#include "bench/ops_rows.hh"
#include "bench/peak.hh"
#include "bench/process.hh"
#include "bench/rivals/gemm.hh"

namespace {

using namespace nntile;
using bench::Sizes;
using bench::Work;
using Samples = std::vector<double>;

/// The yardstick of an operation's share.
enum class Yardstick { triad, stream, gemm };

/// Names do not change once released.
struct Case {
  char const* name;
  Work (*make)(Sizes const&, Isa);
  Yardstick of = Yardstick::triad;
  double bar = 0;  // the share to be reached
};

constexpr Case cases[] = {
    {"gelutanh_forward", bench::gelutanh_forward, Yardstick::triad, 0.50},
    {"gelutanh_backward", bench::gelutanh_backward_set, Yardstick::triad, 0.75},
    {"gelutanh_backward_add", bench::gelutanh_backward_add},
    {"layer_norm_forward", bench::layer_norm_forward, Yardstick::triad, 0.60},
    {"layer_norm_backward", bench::layer_norm_backward_add, Yardstick::triad, 1.0},
    {"layer_norm_backward_set", bench::layer_norm_backward_set},
    {"layer_norm_weight_backward", bench::layer_norm_weight_backward},
    {"softmax_forward", bench::softmax_forward, Yardstick::triad, 0.42},
    {"softmax_backward", bench::softmax_backward},
    {"column_sums", bench::column_sums, Yardstick::triad, 0.88},
    {"total_sum", bench::total_sum, Yardstick::triad, 0.93},
    {"adamw_step", bench::adamw_step, Yardstick::stream, 0.90},
    {"attention_forward", bench::attention_forward, Yardstick::gemm, 0.78},
    {"attention_backward", bench::attention_backward, Yardstick::gemm, 0.78},
    {"cross_entropy_forward", bench::cross_entropy_forward},
    {"cross_entropy_backward", bench::cross_entropy_backward},
    {"global_norm", bench::global_norm},
    {"add", bench::add_arrays},
    {"copy", bench::copy_array},
    {"embedding_forward", bench::embedding_forward},
    {"embedding_backward", bench::embedding_backward},
};

/// The last cache that a core sees; what sysconf says may be the sum over a socket.
Index last_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  Index kib = 0;
  return file >> kib ? kib << 10 : Index{32} << 20;
}

/// Arrays of one and a half times the last cache: with a result beside it, an operand has left the
/// caches before its next use.
Sizes sizes() {
  Sizes s;
  Index const bytes = std::clamp<Index>(last_cache() * 3 / 2, Index{24} << 20, Index{96} << 20);
  s.rows = bytes / (4 * s.width) / 64 * 64;
  s.tokens = bytes / (4 * s.classes);
  return s;
}

/// CPU seconds of `work`: others on the machine lengthen them least.
template <class Run> double time(Run const& run) {
  double const begin = gemm_bench::cpu();
  run();
  return gemm_bench::cpu() - begin;
}

/// The first python3 on the path that finds torch; none: nothing.
std::string python_with_torch() {
  char const* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string const python = folder + "/python3";
    if (access(python.c_str(), X_OK) != 0) continue;
    bench::Process probe({python, "-c",
                          "from importlib.util import find_spec\nprint(find_spec('torch') is not "
                          "None)"});
    if (probe.read() == "True") return python;
  }
  return {};
}

/// PyTorch in a process of its own, with one thread, and with kernels no wider than ours. It keeps
/// memory that it has freed, in huge pages where the allocator is installed, so that page faults
/// are not timed.
std::unique_ptr<bench::Process> start_torch(std::string const& python, Sizes const& s, Isa isa) {
  std::string const found = python.empty() ? python_with_torch() : python;
  std::vector<std::string> environment{"OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1",
                                       "THP_MEM_ALLOC_ENABLE=1", "TCMALLOC_RELEASE_RATE=0"};
  char const* const allocator = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";
  if (access(allocator, R_OK) == 0) environment.push_back(concat("LD_PRELOAD=", allocator));
  if (isa != Isa::v4)
    for (char const* const setting : {"ATEN_CPU_CAPABILITY=avx2", "DNNL_MAX_CPU_ISA=AVX2",
                                      "ONEDNN_MAX_CPU_ISA=AVX2", "MKL_ENABLE_INSTRUCTIONS=AVX2"})
      environment.push_back(setting);
  std::unique_ptr<bench::Process> torch;
  if (!found.empty()) {
    std::vector<std::string> command{found, NNTILE_BENCH_SOURCE "/rivals/ops_torch.py"};
    for (Index const extent : {s.width, s.rows, s.classes, s.tokens, s.seq, s.heads, s.depth})
      command.push_back(std::to_string(extent));
    torch = std::make_unique<bench::Process>(command, environment);
    if (torch->read()) return torch;
  }
  std::printf(
      "no PyTorch%s: pip install torch in a virtual environment and name its interpreter with "
      "--torch\n",
      found.empty() ? "" : concat(" for '", found, "'").c_str());
  return nullptr;
}

class OpsBench {
 public:
  OpsBench(bench::Records& records, std::string const& python, Isa isa)
      : records_(records),
        isa_(isa),
        sizes_(sizes()),
        triad_(1, gemm_bench::cpu),
        product_(bench::product(sizes_, isa)),
        torch_(start_torch(python, sizes_, isa)) {
    check("gemm", product_);
  }

  void run(Case const& of) {
    Work work = of.make(sizes_, isa_);
    check(of.name, work);
    bool const rival = torch_ != nullptr && torch_->ask(concat(of.name, " 0")) == std::string("ok");
    bool const quick = records_.options().quick;
    int const rounds = quick ? 8 : 40;
    double const deadline = bench::seconds() + (quick ? 1.5 : 12);  // of a busy machine
    Samples ours, theirs, measure;
    for (int i = 0; i < rounds && (i < 5 || bench::seconds() < deadline); ++i) {
      if (i > 0 && i % (quick ? 4 : 10) == 0) {  // physical pages matter by a tenth or more
        work = {};
        work = of.make(sizes_, isa_);
        work.run();
      }
      measure.push_back(rate(of.of, work));
      // Alternating, since the first to run finds the caches full of what the yardstick wrote.
      for (bool const own : {i % 2 == 0, i % 2 != 0}) {
        if (own)
          ours.push_back(work.amount / time(work.run));
        else if (rival)
          theirs.push_back(work.amount / torch_seconds(of));
      }
    }
    report(of, ours, theirs, measure);
  }

  /// Lines for those that fell short.
  void conclude() const {
    for (std::string const& line : short_) std::printf("%s\n", line.c_str());
  }

 private:
  static void check(char const* name, Work const& work) {
    work.run();
    double const error = work.error();
    if (error <= 1) return;
    std::fprintf(stderr, "%s: the result is off by %.3g times what is allowed\n", name, error);
    std::exit(1);
  }

  double torch_seconds(Case const& of) {
    auto const answer = torch_->ask(concat(of.name, " 1"));
    if (answer) return std::strtod(answer->c_str(), nullptr);
    std::fprintf(stderr, "%s: PyTorch has died\n", of.name);
    std::exit(1);
  }
  /// Bytes or flops per second of the yardstick, now.
  double rate(Yardstick of, Work const& work) {
    switch (of) {
      case Yardstick::stream:
        return work.amount / time(work.stream);
      case Yardstick::gemm:
        return product_.amount / time(product_.run);
      default:
        return triad_(1);
    }
  }

  void report(Case const& of, Samples const& ours, Samples const& theirs, Samples const& measure) {
    constexpr char const* shares[] = {"share_of_triad", "share_of_stream", "share_of_gemm"};
    constexpr char const* names[] = {"triad", "stream", "gemm"};
    auto const which = static_cast<std::size_t>(of.of);
    bool const computes = of.of == Yardstick::gemm;
    auto const add = [&](char const* runtime, Samples const& rates) {
      Samples giga;
      for (double const r : rates) giga.push_back(r * 1e-9);
      records_.add(of.name, runtime, computes ? "gflops" : "gbytes_per_second",
                   computes ? "GFLOP/s" : "GB/s", giga);
    };
    add(names[which], measure);
    add("kernel_1", ours);
    records_.add_ratio(of.name, "kernel_1", shares[which], ours, measure);
    auto const median = [](Samples const& above, Samples const& below) {
      Samples ratios;
      for (std::size_t i = 0; i < above.size(); ++i) ratios.push_back(above[i] / below[i]);
      return bench::quantile(ratios, 0.5);
    };
    if (double const share = median(ours, measure); share < of.bar) {
      char text[128];
      std::snprintf(text, sizeof text, "%s: %.3f of %s, its bar is %.2f", of.name, share,
                    names[which], of.bar);
      short_.push_back(text);
    }
    if (theirs.empty()) return;
    add("torch_1", theirs);
    records_.add_ratio(of.name, "kernel_1", "times_torch", ours, theirs);
    if (double const times = median(ours, theirs); times < 1) {
      char text[128];
      std::snprintf(text, sizeof text, "%s: %.3f times PyTorch's speed", of.name, times);
      short_.push_back(text);
    }
  }

  bench::Records& records_;
  Isa isa_;
  Sizes sizes_;
  bench::Triad triad_;
  Work product_;
  std::unique_ptr<bench::Process> torch_;
  std::vector<std::string> short_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string const python = bench::take_option(argc, argv, "--torch");
  std::string const only = bench::take_option(argc, argv, "--case");
  bench::Records records(
      "ops",
      bench::parse(argc, argv,
                   "Operations on one core: a share of the triad (of an in-place stream, of our "
                   "own product) in the same run, beside PyTorch. CPU time. Also takes --torch "
                   "PYTHON, an interpreter that finds torch, and --case NAME, one of them.",
                   true));
  auto const chosen = [&](Case const& of) { return only.empty() || only == of.name; };
  bench::require_case("ops", only, cases, chosen);
  Isa const isa = bench::isa_of(records.options());
  OpsBench bench(records, python, isa);
  for (Case const& of : cases)
    if (chosen(of)) bench.run(of);
  bench.conclude();
}
