// SPDX-License-Identifier: BSD-3-Clause
// Where the kernels of a plan come from: it names them and their types, and binding looks them up.
#include <memory>

#include "nntile/graph/apply.hh"
#include "nntile/graph/compile.hh"
#include "nntile/graph/parts.hh"
#include "nntile/io/store.hh"
#include "nntile/ops/gelutanh.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/scale.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/one_to_one.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// y = 2 x, an op of a user's own with a reference alone.
struct Twice : OneToOne {
  static constexpr char const* name = "twice";
  template <class T> static void reference(Args const& args, Buffers<Twice> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    for (Index i = 0; i < args.n; ++i) y[i] = static_cast<T>(x[i] + x[i]);
  }
};

namespace more {
/// y = 3 x, by mistake of the same name.
struct Twice : OneToOne {
  static constexpr char const* name = "twice";
  template <class T> static void reference(Args const& args, Buffers<Twice> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    for (Index i = 0; i < args.n; ++i) y[i] = static_cast<T>(x[i] + x[i] + x[i]);
  }
};
}  // namespace more

/// y = 5 x, by mistake of the name of an op of the library's that has kernels.
struct Gelutanh : OneToOne {
  static constexpr char const* name = "gelutanh";
  template <class T> static void reference(Args const& args, Buffers<Gelutanh> const& buffers) {
    T const* const x = buffers.template at<T>(Operand::x);
    T* const y = buffers.template at<T>(Operand::y);
    for (Index i = 0; i < args.n; ++i) y[i] = static_cast<T>(5 * x[i]);
  }
};

/// y = 5 x, whose own kernel would hide the library's.
struct OwnGelutanh : Gelutanh {
  static Codelet const* own(ElementTypes types) {
    return types.element == DType::fp32 ? &codelet : nullptr;
  }
  static Codelet const codelet;
  static constexpr Hooks<Attrs> hooks{.kernel = &own};
};
Codelet const OwnGelutanh::codelet{"gelutanh", &detail::run_reference<Gelutanh, float>};

/// The same by the name of the op that adds the partial sums of groups.
struct OwnScale : Gelutanh {
  static constexpr char const* name = "scale";
  static Codelet const* own(ElementTypes) { return &OwnGelutanh::codelet; }
  static constexpr Hooks<Attrs> hooks{.kernel = &own};
};

struct TwiceGraph {
  LogicalGraph graph{"twice"};
  TwiceGraph() {
    Call<Twice>{}(graph.input({.shape = {6}, .axes = "n"}, "x"), graph.tensor({.shape = {6}}, "y"))
        .mark_output();
  }
};

std::vector<double> run(CompiledGraph<Serial> step) {
  step.bind_input<float>("x", {1, 2, 3, 4, 5, 6});
  step.execute();
  auto const y = step.get_output<float>("y");
  return {y.begin(), y.end()};
}

}  // namespace

TEST_CASE("an op of one's own needs no registration", "[graph][binding]") {
  Serial runtime;
  TwiceGraph const of;
  TensorStore<Serial> store(runtime);
  CHECK(run(compile(of.graph, store, {.tile = 4})) == std::vector<double>{2, 4, 6, 8, 10, 12});
}

TEST_CASE("ops that options name stand beside those of the graph", "[graph][binding]") {
  Serial runtime;
  TwiceGraph const of;
  TensorStore<Serial> store(runtime);
  OpInfo const* const others[] = {&op_info<OwnGelutanh>};
  CHECK(run(compile(of.graph, store, {}, {.ops = others})) ==
        std::vector<double>{2, 4, 6, 8, 10, 12});
}

TEST_CASE("a plan alone is bound with the ops of one's own", "[graph][binding]") {
  Serial runtime;
  TwiceGraph const of;
  auto const plan = std::make_shared<Plan const>(of.graph);
  TensorStore<Serial> store(runtime);
  auto const ops = of.graph.ops();
  CHECK(run({plan, store, {.ops = ops}}) == std::vector<double>{2, 4, 6, 8, 10, 12});
  CHECK(message_of<TypeError>([&] { CompiledGraph<Serial>(plan, store); }) ==
        "compile: no kernel 'twice' for fp32 in the library; bind an op of one's own by "
        "compile(graph, store), or name it in BindOptions::ops");
}

TEST_CASE("a plan that moves tiles between locations is refused where nothing moves them",
          "[graph][binding]") {
  Serial runtime;
  PlanData data = Plan(TwiceGraph().graph).data();
  data.kernels[0].kind = KernelKind::send;
  TensorStore<Serial> store(runtime);
  CHECK(contains(message_of<PlanError>(
                     [&] { CompiledGraph<Serial>(std::make_shared<Plan const>(data), store); }),
                 "its kernel 'twice' moves tiles"));
}

TEST_CASE("a part without a plan is refused", "[graph][binding]") {
  LogicalGraph graph("g");
  Serial runtime;
  TensorStore<Serial> store(runtime);
  CHECK(message_of<PlanError>([&] { bind_part(graph, PlannedPart(nullptr, 0), store); }) ==
        "bind_part: graph 'g': the part's plan is an empty shared_ptr; make one by "
        "PlannedPart(graph, options, rank)");
}

TEST_CASE("a plan is proved on request", "[graph][binding]") {
  CHECK_NOTHROW(Plan(TwiceGraph().graph, {.check = true}));
}

TEST_CASE("a graph that cannot be bound adds nothing to its store", "[graph][binding]") {
  LogicalGraph known, unlike;
  scale(known.input({.shape = {4, "n"}}, "w")).named("v").mark_output();
  scale(known.input({.shape = {4}}, "x")).named("y").mark_output();
  Node const p = unlike.parameter({.shape = {4}}, "p");
  scale(p).named("q").mark_output();
  scale(unlike.input({.shape = {4}, .dtype = DType::fp64}, "x")).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  (void)compile(known, store, {.dims = {{"n", 2}}});
  CHECK_THROWS_AS(compile(unlike, store), PlanError);
  CHECK(store.tensors().size() == 4);
  CHECK_FALSE(store.contains("p"));
  LogicalGraph open;
  scale(open.input({.shape = {4, "n"}}, "w")).named("v").mark_output();
  scale(open.input({.shape = {4}, .dtype = DType::fp64}, "x")).named("u").mark_output();
  CHECK_THROWS_AS(compile(open, store, {.dims = {{"n", 3}}}), PlanError);
  CHECK(store.tensors().size() == 4);
  CHECK(store.at("w").spec.tiling.shape() == Shape{4, 2});
}

TEST_CASE("a graph that cannot be bound leaves what its store has as it was", "[graph][binding]") {
  LogicalGraph reads, trains;
  scale(reads.input({.shape = {8}}, "w")).named("v").mark_output();
  scale(reads.input({.shape = {4}}, "x")).named("y").mark_output();
  scale(trains.parameter({.shape = {8}, .file_shape = {2, 4}}, "w")).named("v").mark_output();
  scale(trains.input({.shape = {4}, .dtype = DType::fp64}, "x")).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  (void)compile(reads, store);
  CHECK_THROWS_AS(compile(trains, store), PlanError);
  StoredSpec const& w = store.at("w").spec;
  CHECK((w.attributes.external && !w.attributes.persistent && !w.attributes.requires_grad));
  CHECK(w.file_shape == Shape{8});
  CHECK_FALSE(io::is_saved(w));
}

TEST_CASE("what any graph of a store declares a parameter is saved as one", "[graph][binding]") {
  LogicalGraph reads, trains;
  scale(reads.input({.shape = {4}}, "w")).named("y").mark_output();
  scale(trains.parameter({.shape = {4}}, "w")).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> first(runtime), last(runtime);
  (void)compile(reads, first), (void)compile(trains, first);
  (void)compile(trains, last), (void)compile(reads, last);
  for (TensorStore<Serial>* const store : {&first, &last}) {
    CHECK(io::sources_of(*store, io::is_saved).size() == 1);
    CHECK(io::sources_of(*store, io::is_parameter).size() == 1);
  }
}

TEST_CASE("a shape in files is that of the graph that gives one", "[graph][binding]") {
  LogicalGraph plain, given, other;
  scale(plain.parameter({.shape = {4, 2, 3}}, "w")).named("x").mark_output();
  scale(given.parameter({.shape = {4, 2, 3}, .file_shape = {3, 8}}, "w")).named("y").mark_output();
  scale(other.parameter({.shape = {4, 2, 3}, .file_shape = {6, 4}}, "w")).named("z").mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  (void)compile(plain, store);
  CHECK(store.at("w").spec.file_shape == Shape{3, 2, 4});
  (void)compile(given, store), (void)compile(plain, store);
  CHECK(store.at("w").spec.file_shape == Shape{3, 8});
  CHECK(message_of<PlanError>([&] { (void)compile(other, store); }) ==
        "store: 'w' has shape {3, 8} in files here but {6, 4} in the new graph; give both the same "
        "TensorSpec::file_shape");
}

TEST_CASE("two ops of one name are refused in one graph", "[graph][binding]") {
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {6}}, "x");
  Call<Twice>{}(Call<more::Twice>{}(x, graph.tensor({.shape = {6}}, "y")),
                graph.tensor({.shape = {6}}, "z"))
      .mark_output();
  CHECK(message_of<PlanError>([&] { Plan{graph}; }) ==
        "plan 'g': two of its ops are named 'twice', by which kernels are found; give one another "
        "name");
}

TEST_CASE("an op with the name of one of the library's never runs its kernel", "[graph][binding]") {
  char const* const refusal =
      "op 'gelutanh' has the name of an op of the library, which has its own kernels; give yours "
      "another name";
  LogicalGraph graph("g");
  Node const x = graph.input({.shape = {6}, .axes = "n"}, "x");
  Node const y = graph.tensor({.shape = {6}}, "y");
  SECTION("with a reference alone") {
    Call<Gelutanh>{}(x, y).mark_output();
    Serial runtime;
    TensorStore<Serial> store(runtime);
    CHECK(message_of<ValueError>([&] { compile(graph, store); }) == refusal);
    Tile<float, Serial> const a(runtime, {6}), b(runtime, {6});
    CHECK(message_of<ValueError>([&] { Call<Gelutanh>{}(a, b); }) == refusal);
  }
  SECTION("with a kernel of its own") {
    Call<OwnGelutanh>{}(x, y).mark_output();
    Serial runtime;
    TensorStore<Serial> store(runtime), other(runtime);
    CHECK(run(compile(graph, store)) == std::vector<double>{5, 10, 15, 20, 25, 30});
    auto const plan = std::make_shared<Plan const>(graph);
    CHECK(message_of<ValueError>([&] { CompiledGraph<Serial>(plan, other); }) == refusal);
  }
}

TEST_CASE("an op with the name of a planned one runs its own kernel alone", "[graph][binding]") {
  LogicalGraph graph("g", {.groups = {{"in", 2}}});
  Node const w = graph.input({.shape = {64, 128}, .axes = "out in"}, "w");
  Node const x = graph.input({.shape = {128, 8}, .axes = "in batch"}, "x");
  Node const z = Call<OwnScale>{}(gemm(w, x), graph.tensor({.shape = {64, 8}}, "z"));
  z.mark_output();
  Serial runtime;
  TensorStore<Serial> store(runtime);
  CompiledGraph<Serial> step = compile(graph, store, {.tile = 64});
  CHECK(step.plan().kernels().size() == 3);
  step.bind_input("w", std::vector<float>(64 * 128, 1.0f));
  step.bind_input("x", std::vector<float>(128 * 8, 1.0f));
  step.execute();
  CHECK(step.get_output<float>("z") == std::vector<float>(64 * 8, 5 * 128.0f));
}

TEST_CASE("a type's number is that of its name, whichever compiler spells it", "[graph][binding]") {
  std::uint64_t number = 0xcbf29ce484222325u;  // FNV-1a
  for (char const c : std::string_view("nntile::ops::Gelutanh"))
    number = (number ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  CHECK(type_number<ops::Gelutanh> == number);
  CHECK(op_info<ops::Gelutanh>.type == number);
  CHECK(kernels::find("gelutanh", DType::fp32, DType::fp32, Mode::exact, kernels::best())
            ->computation->op == number);
}
