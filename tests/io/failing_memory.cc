// SPDX-License-Identifier: BSD-3-Clause
// Each request for memory fails in turn, once or for good: readers, writers, plans and bound graphs
// throw OutOfMemory or std::bad_alloc, give back what they took, and can be used again. Saving and
// loading checkpoints is in checkpoint_faults.cc.
#include "nntile/graph/compile.hh"
#include "nntile/io/checkpoint.hh"
#include "nntile/io/tokens.hh"
#include "nntile/nn/loss.hh"
#include "nntile/nn/mlp.hh"
#include "nntile/nn/optim.hh"
#include "tests/io/allocations.hh"
#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;

namespace {

/// Fails every request of `work`, in both ways; it must need at least `least` of them.
template <class Work> void check_each(long least, Work const& work) {
  for (Failing const failing : {Failing::once, Failing::for_good}) {
    long number = 0;
    std::string wrong;
    long const count = fail_each_allocation(failing, work, [&](bool, std::string_view error) {
      if (!error.empty() && wrong.empty()) wrong = concat("request ", number, ": ", error);
      ++number;
    });
    CHECK(wrong == "");
    CHECK(count >= least);
  }
}

/// Two layers, their gradients and an optimizer.
struct Step {
  LogicalGraph graph{"step"};
  nn::ParameterList parameters{graph};
  std::unique_ptr<nn::AdamW> optimizer;

  Step() {
    nn::Linear const first(parameters, "first", {{8}, "hidden"}, {{4}, "point"}, {.stddev = 0.5});
    nn::Linear const second(parameters, "second", {{3}, "class"}, {{8}, "hidden"}, {.stddev = 0.2});
    Node const points = graph.input({.shape = {4, 6}, .axes = "point batch"}, "points");
    Node const labels =
        graph.input({.shape = {6}, .dtype = DType::int64, .axes = "batch"}, "labels");
    Node const loss = nn::mean_cross_entropy(second(gelutanh(first(points))), labels, "loss");
    loss.mark_output();
    optimizer = std::make_unique<nn::AdamW>(parameters, add_gradients(graph, loss));
  }
};

/// One thread that executes, or three: the second one that is started may fail behind a first.
template <class R> RuntimeOptions few() { return {.workers = std::min(most_workers<R>, 3)}; }

PlanOptions const cut{.tile = 4, .cuts = {{"batch", {3}}, {"hidden", {4}}}};

/// One step from fixed first values; the loss.
template <class R> float one_step(Step const& of, TensorStore<R>& store, CompiledGraph<R>& step) {
  LogicalGraph init("init");
  nn::initialize(init, of.parameters, 1);
  nn::initialize_states(init, *of.optimizer);
  compile(init, store).execute();
  step.template bind_input<float>("points", std::vector<float>(24, 0.5f));
  step.template bind_input<std::int64_t>("labels", std::vector<std::int64_t>{0, 1, 2, 0, 1, 2});
  step.template bind_input<float>("lr", std::vector<float>{0.01f});
  step.template bind_input<std::int64_t>("step", std::vector<std::int64_t>{1});
  step.execute();
  return step.template get_output<float>("loss")[0];
}

template <class R> void check_binding() {
  Step const of;
  auto const plan = std::make_shared<Plan const>(of.graph, cut);
  check_each(20, [&] {
    R runtime(few<R>());
    TensorStore<R> store(runtime);
    CompiledGraph<R> const step(plan, store);
  });
}

/// Ends its task at the fifth poll.
bool fifth(void* state, Completion token) {
  if (++*static_cast<int*>(state) < 5) return false;
  token.complete();
  return true;
}
constexpr Codelet pending{"pending", nullptr, nullptr,
                          +[](KernelCall const& call, Completion token) noexcept -> Status {
                            try {
                              token.poll(&fifth, *static_cast<int* const*>(call.arguments), true);
                            } catch (std::bad_alloc const&) {  // where retiring drives it
                              return {"no memory to poll"};
                            }
                            return {};
                          }};

/// Retires buffers whose task is not over, without memory to leave the end to it, as destructors
/// do.
template <class R> void check_retiring() {
  R runtime(few<R>());
  int polls = 0;
  int* const state = &polls;
  std::atomic<int> released = 0;
  std::byte memory[8][64] = {};
  Release const release{[](void* count) noexcept { ++*static_cast<std::atomic<int>*>(count); },
                        &released};
  std::vector<typename R::Handle> handles;
  for (auto& bytes : memory) {
    handles.push_back(runtime.adopt(bytes, host, release));
    Use<typename R::Handle> const use{handles.back(), Access::write};
    runtime.submit({&pending, {&use, 1}, std::as_bytes(std::span(&state, 1)), {}, {}});
  }
  fail_allocation_after(0, Failing::for_good);
  for (auto const handle : handles) runtime.retire(handle);
  fail_allocation_after(-1);
  try {
    runtime.wait_all();
  } catch (TaskError const&) {  // a task that began without memory for its token
  }
  CHECK(released == 8);
}

/// A store that has seen a graph fail to be bound takes it when there is memory again.
template <class R> void check_binding_again() {
  Step const of;
  auto const plan = std::make_shared<Plan const>(of.graph, cut);
  R runtime;
  auto const expected = [&] {
    TensorStore<R> store(runtime);
    CompiledGraph<R> step(plan, store);
    return one_step(of, store, step);
  }();
  bool reached = true;
  for (long count = 0; reached; ++count) {
    TensorStore<R> store(runtime);
    fail_allocation_after(count);
    try {
      CompiledGraph<R> const step(plan, store);
    } catch (OutOfMemory const&) {
    } catch (std::bad_alloc const&) {
    }
    reached = allocation_failed();
    fail_allocation_after(-1);
    CompiledGraph<R> step(plan, store);
    CHECK(one_step(of, store, step) == expected);
  }
}

}  // namespace

TEST_CASE("memory that fails while JSON is read and written is given back",
          "[io][failing_memory]") {
  if (!allocations_watched()) return;
  std::string const text =
      R"({"name":"a name that does not fit into a small string","list":[1,-2,3.5,null,true,[[]]],)"
      R"("nested":{"deep":{"deeper":{"e":"another text of more than sixteen bytes"}}}})";
  std::size_t bytes = 0;
  check_each(10, [&] { bytes = to_text(to_json(parse_json(text, "text")), 1).size(); });
  CHECK(bytes > text.size());
}

TEST_CASE("memory that fails while safetensors are read or written is given back",
          "[io][failing_memory]") {
  if (!allocations_watched()) return;
  Scratch const scratch;
  SmallModel model(3);
  auto const sources = model.sources();
  std::string const path = scratch / "a-name-longer-than-a-small-string.safetensors";
  save_tensors(path, sources);
  std::string const whole = get(path);
  SmallModel loaded;
  auto const targets = loaded.targets();
  check_each(20, [&] { load_tensors(SafetensorsFile::open(path), targets); });
  CHECK(loaded == model);
  check_each(20, [&] { load_tensors(SafetensorsSet::open(path), targets); });
  std::string const refused = scratch / "another-name-longer-than-a-small-string.safetensors";
  put(refused, whole + "x");
  check_each(5, [&] {
    try {
      SafetensorsFile::open(refused);
    } catch (FormatError const&) {
    }
  });
  check_each(20, [&] { save_tensors(path, sources); });
  CHECK(get(path) == whole);
  CHECK(list_directory(scratch.path()).size() == 2);
}

TEST_CASE("bytes that were written stay written where memory fails for the next",
          "[io][failing_memory]") {
  if (!allocations_watched()) return;
  Scratch const scratch;
  SafetensorsWriter writer(scratch / "a", {{"w", FileDType::u8, {8}}});
  std::vector<std::byte> const four(4);
  writer.write("w", 4, four);
  fail_allocation_after(0);
  try {
    writer.write("w", 0, four);
  } catch (std::bad_alloc const&) {
  }
  bool const failed = allocation_failed();
  fail_allocation_after(-1);
  CHECK(failed);
  CHECK_THROWS_AS(writer.write("w", 4, four), ValueError);
  writer.write("w", 0, four);
  CHECK_NOTHROW(writer.commit());
}

TEST_CASE("memory that fails while a text is read is given back", "[io][failing_memory]") {
  if (!allocations_watched()) return;
  Scratch const scratch;
  std::string const path = scratch / "a-name-longer-than-a-small-string.txt";
  put(path, std::string(1000, 'x'));
  check_each(3, [&] { Corpus::open({path}, 16); });
}

TEST_CASE("memory that fails while a graph is built and planned is given back",
          "[io][failing_memory]") {
  if (!allocations_watched()) return;
  check_each(100, [] { Step const of; });
  Step const of;
  check_each(100, [&] { Plan const plan(of.graph, cut); });
}

TEST_CASE("memory that fails while a plan is bound is given back", "[io][failing_memory]") {
  if (!allocations_watched()) return;
  check_binding<Serial>();
  check_binding<Ring>();
  check_binding<Threads>();
}

TEST_CASE("buffers are retired without memory", "[io][failing_memory]") {
  if (!allocations_watched()) return;
  check_retiring<Serial>();
  check_retiring<Ring>();
  check_retiring<Threads>();
}

TEST_CASE("a plan is bound again after memory has failed", "[io][failing_memory]") {
  if (!allocations_watched()) return;
  check_binding_again<Serial>();
  check_binding_again<Ring>();
  check_binding_again<Threads>();
}
