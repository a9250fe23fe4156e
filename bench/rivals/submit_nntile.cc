// SPDX-License-Identifier: BSD-3-Clause
// bench/submit on a runtime of ours: submit_nntile WORKERS serial|ring|ring_replay|starpu.

#include <memory>

#include "bench/rivals/submit.hh"
#include "bench/rivals/submit_latency.hh"
#include "nntile/runtime/ring/ring.hh"
#include "nntile/runtime/serial/serial.hh"
#ifdef NNTILE_HAVE_STARPU
#include "nntile/runtime/starpu/starpu.hh"
#endif

namespace {

using namespace nntile;
using namespace submit_bench;

Status nothing(KernelCall const&) noexcept { return {}; }
constexpr Codelet empty{"empty", nothing, nullptr, nullptr};

Values* values = nullptr;  // of the one rival of this process

Status count(KernelCall const&) noexcept {
  values->count.fetch_add(1, std::memory_order_relaxed);
  return {};
}
Status count_chain(KernelCall const& call) noexcept {
  Values::update(*static_cast<std::uint64_t*>(call.buffers[0]));
  return count(call);
}
Status count_three(KernelCall const& call) noexcept {
  auto const of = [&](int i) { return static_cast<std::uint64_t*>(call.buffers[i]); };
  Values::write(*of(0), *of(1), *of(2));
  return count(call);
}
constexpr Codelet checked[] = {{"count", count, nullptr, nullptr},
                               {"count_chain", count_chain, nullptr, nullptr},
                               {"count_three", count_three, nullptr, nullptr}};

/// The bindings of a task: handles by number, so that a program can be made of it, too.
struct Operands {
  Use<Binding> uses[3];
  std::size_t count;
};
Operands operands(Case of, Triple t) {
  auto const use = [](int handle, Access access) {
    return Use<Binding>{static_cast<std::uint32_t>(handle), access};
  };
  if (of == Case::independent) return {{}, 0};
  if (of == Case::chain) return {{use(0, Access::update)}, 1};
  return {{use(t.a, Access::read), use(t.b, Access::read), use(t.c, Access::write)}, 3};
}

template <class R> class OurRuntime {
 public:
  OurRuntime(int workers, Values& shared) : runtime_({.workers = workers}) {
    values = &shared;
    for (auto& value : shared.of)
      handles_.push_back(runtime_.adopt(std::as_writable_bytes(std::span(&value, 1))));
  }

  void prepare(Case) {}
  void run(Case of) { submit(of, empty); }
  void check(Case of) { submit(of, checked[static_cast<int>(of)]); }
  void latency() {
    Latency const l = LatencyBench<R>(runtime_, empty).run();
    std::printf("%.2f %.2f %.2f %.2f %.6f %.2f %.2f\n", l.median, l.p99, l.p999, l.max,
                l.blocked_share, l.cycles, l.cold_cycles);
    std::fflush(stdout);
  }

 protected:
  void submit(Case of, Codelet const& codelet) {
    if (of == Case::independent) {
      for (int i = 0; i < tasks; ++i) runtime_.submit({&codelet, {}, {}, {}, {}});
    } else if (of == Case::chain) {
      Use<typename R::Handle> const uses[] = {{handles_[0], Access::update}};
      for (int i = 0; i < tasks; ++i) runtime_.submit({&codelet, uses, {}, {}, {}});
    } else {
      for (Triple const& t : triples_) {
        Use<typename R::Handle> const uses[] = {{handles_[Values::index(t.a)], Access::read},
                                                {handles_[Values::index(t.b)], Access::read},
                                                {handles_[Values::index(t.c)], Access::write}};
        runtime_.submit({&codelet, uses, {}, {}, {}});
      }
    }
    runtime_.wait_all();
  }

  R runtime_;
  std::vector<typename R::Handle> handles_;
  std::vector<Triple> const triples_ = triples();
};

/// Records the tasks once; a run replays them.
class Replay : public OurRuntime<Ring> {
 public:
  using OurRuntime::OurRuntime;

  void prepare(Case of) {
    if (program_.size() == 0 || made_ != of) program_ = record(made_ = of, empty);
  }
  void run(Case) { replay(program_); }
  void check(Case of) { replay(record(of, checked[static_cast<int>(of)])); }

 private:
  void replay(RingProgram const& program) {
    runtime_.replay(program, handles_);
    runtime_.wait_all();
  }
  RingProgram record(Case of, Codelet const& codelet) {
    std::vector<Operands> all;
    for (Triple const& t : triples_) all.push_back(operands(of, t));
    std::vector<ProgramTask> program;
    for (Operands const& each : all)
      program.push_back({&codelet, {each.uses, each.count}, {}, {}, {}});
    return runtime_.record(program, submit_bench::handles);
  }

  RingProgram program_;
  Case made_ = Case::independent;
};

}  // namespace

int main(int argc, char** argv) {
  std::string_view const runtime = argc > 2 ? argv[2] : "";
  if (runtime == "serial") return serve<OurRuntime<Serial>>(argc, argv);
  if (runtime == "ring") return serve<OurRuntime<Ring>>(argc, argv);
  if (runtime == "ring_replay") return serve<Replay>(argc, argv);
#ifdef NNTILE_HAVE_STARPU
  if (runtime == "starpu") return serve<OurRuntime<StarPU>>(argc, argv);
#endif
  std::fprintf(stderr, "usage: %s WORKERS serial|ring|ring_replay|starpu\n", argv[0]);
  return 2;
}
