// SPDX-License-Identifier: BSD-3-Clause
// What serial_cost.py counts the instructions of: a training step in tiles of 64, once as a
// compiled graph on Serial, once as one whose batches come in two buffers in turn, and once as a
// loop over the same kernels with the same arguments.
//
// usage: serial_cost graph|alternating|loop. Prints the number of tasks, the loss and a sum of all
// parameters; ends with 77 where it cannot run.

#include <cstdio>
#include <cstring>
#include <string_view>

#include "nntile/runtime/serial/serial.hh"
#include "tests/support/tiny_gpt.hh"

namespace {

using namespace nntile;

/// A call with everything looked up beforehand: the lower bound of a task's cost.
struct Step {
  CpuEntry kernel;
  void* const* buffers;
  void const* arguments;
};

/// Serial that keeps what it is asked to run, task by task.
class Watched : public Serial {
 public:
  Event submit(Task<DataHandle> const& task) {
    Event const event = Serial::submit(task);
    if (!watching) return event;
    std::vector<void*>& pointers = pointers_.emplace_back();
    for (Use<DataHandle> const& use : task.uses) {
      pointers.push_back(lock(use.handle, Access::write).data());
      unlock(use.handle);
    }
    auto& arguments = arguments_.emplace_back(std::make_unique<std::byte[]>(task.arguments.size()));
    std::memcpy(arguments.get(), task.arguments.data(), task.arguments.size());
    kernels_.push_back(task.codelet->cpu);
    return event;
  }
  std::vector<Step> calls() const {
    std::vector<Step> result;
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      result.push_back({kernels_[i], pointers_[i].data(), arguments_[i].get()});
    return result;
  }
  bool watching = false;

 private:
  std::vector<CpuEntry> kernels_;
  std::vector<std::vector<void*>> pointers_;
  std::vector<std::unique_ptr<std::byte[]>> arguments_;
};
static_assert(Runtime<Watched>);

/// valgrind 3.19 knows no AVX-512, and takes long for each FMA, which v2 lacks.
Isa const isa = kernels::available(Isa::v2) ? Isa::v2 : Isa::v3;
BindOptions const bind{.isa = isa};
BindOptions const bind_tasks{.isa = isa, .replay = false};
PlanOptions const options{.tile = 64};
PlanOptions const alternate{.tile = 64, .double_buffered = {"tokens", "labels", "lr", "step"}};

template <class Run> void report(Run const& run) {
  double sum = 0;
  for (auto const& [name, values] : run.parameters())
    for (float const value : values) sum += static_cast<double>(value);
  std::printf("%zu tasks, loss %a, parameters %a\n", run.step.plan().tasks().size(),
              static_cast<double>(run.step.template get_output<float>("loss")[0]), sum);
}

}  // namespace

/// The functions between whose begin and end instructions are counted.
extern "C" [[gnu::noinline]] void counted_graph(CompiledGraph<Serial>& graph) { graph.execute(); }
extern "C" [[gnu::noinline]] void counted_loop(std::span<Step const> calls, void* workspace) {
  char text[status_text_bytes];
  for (Step const& call : calls)
    if (!call.kernel({call.buffers, call.arguments, text, workspace}).ok()) std::abort();
}

int main(int argc, char** argv) {
  std::string_view const what = argc == 2 ? argv[1] : "";
  if (!kernels::available(isa)) {
    std::printf("skipped: no kernels for v2 or v3, in this build or on this CPU\n");
    return 77;
  }
  test::TinyGptGraph const graph;
  if (what == "graph" || what == "alternating") {
    Serial runtime;
    test::TinyGptRun<Serial> run(runtime, graph, what == "graph" ? options : alternate, bind);
    run.train(1);
    run.bind(2);
    counted_graph(run.step);
    report(run);
  } else if (what == "loop") {
    Watched runtime;
    test::TinyGptRun<Watched> run(runtime, graph, options, bind_tasks);
    runtime.watching = true;
    run.train(1);
    runtime.watching = false;
    run.bind(2);
    std::vector<Step> const calls = runtime.calls();
    support::Workspaces const workspace(1);
    counted_loop(calls, workspace[0]);
    report(run);
  } else {
    std::fprintf(stderr, "usage: %s graph|alternating|loop\n", argv[0]);
    return 2;
  }
}
