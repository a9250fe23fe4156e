// SPDX-License-Identifier: BSD-3-Clause
// Products of fast numerics over a library in cuBLASLt's place, which computes each from what it
// was told; kernels of devices are the emulator's.
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/lists.hh"
#include "kernels/cuda/products.hh"
#include "nntile/ops/gemm.hh"
#include "nntile/ops/kernel.hh"
#include "tests/cuda/cublaslt.hh"
#include "tests/cuda/fast_product.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/op_driver.hh"
#include "tests/support/simt/runtime.hh"
#include "tests/support/tiny_gpt.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

thread_local int current_device = 0;

}  // namespace

extern "C" cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

namespace {

struct alignas(256) Workspace {
  std::byte bytes[4096];
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("what the library is told is the product, for each shape and dtype",
                        "[cuda][fast]", Types) {
  constexpr DType dtype = dtype_of_tag<TestType>;
  Codelet const& codelet = fast_gemm(dtype);
  Workspace workspace;
  for (bool const fuses : {true, false}) {
    cublaslt::reset({.fuses = fuses});
    kernels::cuda::KeptProducts const kept;
    unsigned seed = 0;
    int products = 0;
    for (auto const& [m, n, k] :
         {std::array<Index, 3>{1, 1, 1}, {3, 5, 7}, {17, 9, 33}, {8, 16, 4}})
      for (bool const trans_a : {false, true})
        for (bool const trans_b : {false, true})
          for (Index const batch : {1, 3})
            for (Index const gap : {0, 1, 8}) {
              Problem<dtype> problem(m, n, k, batch, trans_a, trans_b, gap, ++seed);
              double const factors[] = {0, 1, -0.75};
              problem.args.beta = factors[seed % 3];
              problem.args.alpha = seed % 5 == 0 ? -0.5 : 1;
              problem.biased = seed % 2 == 0;
              if (seed / 2 % 3 == 0) problem.args.activation = Activation::gelu_tanh;
              std::vector<Index> pieces{k};
              if (seed % 3 != 1 && k > 2) pieces = {k / 2, 1, k - k / 2 - 1};
              bool const narrow = size_of(dtype) == 2;
              problem.carried = (narrow && pieces.size() > 1) || seed % 4 < 2;
              Problem<dtype> const before = problem;
              INFO(name_of(dtype) << " seed " << seed << " m=" << m << " n=" << n << " k=" << k
                                  << " fuses " << fuses << " pieces " << pieces.size());
              problem.run(codelet, pieces, seed % 2 == 0 ? &workspace : nullptr);
              bool const is_exact = !fuses && narrow && !problem.carried &&
                                    (problem.biased || problem.args.activation != Activation::none);
              products += static_cast<int>(pieces.size()) - static_cast<int>(is_exact);
              CHECK(problem.deviation(before) == "");
              REQUIRE(all_errors() == "");
            }
    CHECK(std::ssize(cublaslt::calls()) == products);
    for (cublaslt::Call const& call : cublaslt::calls())
      CHECK(call.stream == &Problem<dtype>::stream);
  }
  CHECK(cublaslt::live_objects() == 0);
}

TEMPLATE_LIST_TEST_CASE("chains and groups of tasks sum to the product", "[cuda][fast]", Types) {
  constexpr DType dtype = dtype_of_tag<TestType>;
  fast_gemm(dtype);
  cublaslt::reset();
  kernels::cuda::KeptProducts const kept;
  for (double const beta : {0.0, 0.5})
    for (bool const finishes : {false, true}) {
      ops::Gemm::Attrs attrs{.trans_a = true, .alpha = 0.5, .beta = beta};
      std::vector<Shape> shapes{{70, 5, 2}, {70, 3, 2}};
      if (finishes) {
        attrs.bias = true, attrs.activation = Activation::gelu_tanh;
        shapes.push_back({5});
      }
      attrs.batch_ndim = 1;
      shapes.push_back({5, 3, 2});
      OpCase c = op_case<ops::Gemm>(attrs, shapes);
      // What is multiplied in a reduced format differs by its roundings.
      c.terms = 70;
      c.scale = 4 + 2 * unit_of_products(dtype) * 0x1p24;
      auto const operands = make_operands(c, dtype);
      auto const exact = run_reference(c, dtype, operands);
      for (Cuts const& cuts :
           {Cuts{}, Cuts{{"k", {64, 6}}}, Cuts{{"k", {20, 30, 20}}, {"m", {2, 3}}}})
        for (int const groups : {0, 3}) {
          if (groups != 0 && !cuts.empty() && cuts[0].sizes[0] != 64) continue;
          c.groups.clear();
          if (groups != 0) c.groups = {{"k", groups}};
          INFO(name_of(dtype) << " beta " << beta << " finishes " << finishes << " cuts "
                              << cuts.size() << " groups " << groups);
          auto const got =
              run_kernel(c, dtype, operands, {.cuts = cuts, .runtime = "simt", .mode = Mode::fast});
          CHECK(deviation(c, dtype, got, exact) == "");
          REQUIRE(all_errors() == "");
        }
    }
  CHECK(cublaslt::calls().size() > 20);
}

TEST_CASE("a plan of fast numerics trains on devices by the library's products", "[cuda][fast]") {
  fast_gemm(DType::fp32);
  cublaslt::reset();
  kernels::cuda::KeptProducts const kept;
  TinyGpt sizes{.config = {.vocab = 16, .positions = 16, .width = 16, .layers = 1, .heads = 2},
                .seq = 16};
  Serial serial;
  float const expected = TinyGptRun(serial, TinyGptGraph(sizes), {.tile = 8}).train(2);
  sizes.numerics.mode = Mode::fast;
  TinyGptGraph const fast(sizes);
  Simt runtime;
  BindOptions const submitted{.replay = false};  // a recorded program would run on the host
  float const loss = TinyGptRun(runtime, fast, {.tile = 8}, submitted).train(2);
  CHECK(std::fabs(loss - expected) < 1e-5f * expected);
  CHECK(TinyGptRun(runtime, fast, {.tile = 8}, submitted).train(2) == loss);
  CHECK(cublaslt::calls().size() > 100);
  CHECK(cublaslt::choices() < 40);
  CHECK(all_errors() == "");
}

TEST_CASE("an algorithm is chosen once for a shape on a device, and kept", "[cuda][fast]") {
  Codelet const& codelet = fast_gemm(DType::fp32);
  CHECK(codelet.device_workspace >= sizeof(Workspace));
  cublaslt::reset();
  Workspace workspace;
  Problem<DType::fp32> problem(4, 4, 4, 1, false, false, 0, 1);
  auto const run = [&](void* lent = nullptr) { REQUIRE(problem.run(codelet, lent).ok()); };
  {
    kernels::cuda::KeptProducts const kept;
    {
      kernels::cuda::KeptProducts const other;
      for (int i = 0; i < 3; ++i) run();
      problem.args.beta = 1, problem.args.alpha = 2, problem.args.chain.first = false;
      run();
      CHECK(cublaslt::choices() == 1);
      run(&workspace);
      run(&workspace);
      CHECK(cublaslt::choices() == 2);
      CHECK(cublaslt::calls().back().workspace == &workspace);
    }
    run();
    CHECK(cublaslt::choices() == 2);
    current_device = 1;
    run();
    run();
    current_device = 0;
    CHECK(cublaslt::choices() == 3);
    CHECK(cublaslt::calls().back().handle != cublaslt::calls().front().handle);
    problem.args.a_offset = 0, problem.args.m = 3;
    run();
    CHECK(cublaslt::choices() == 4);
    problem.args.a_offset = 1;  // the rest of the first rows, less aligned
    run();
    CHECK(cublaslt::choices() == 5);
    CHECK(cublaslt::live_objects() == 2 + 4 * 5);
  }
  CHECK(cublaslt::live_objects() == 0);
  CHECK(all_errors() == "");
}

TEST_CASE("products live while a thread uses them, whoever else keeps none", "[cuda][fast]") {
  cublaslt::reset();
  std::shared_ptr<kernels::cuda::Products> used;
  {
    kernels::cuda::KeptProducts const kept;
    used = kernels::cuda::KeptProducts::here();
  }
  CHECK(cublaslt::live_objects() == 1);  // its handle
  used.reset();
  CHECK(cublaslt::live_objects() == 0);
}

TEST_CASE("threads multiply on devices at once", "[cuda][fast]") {
  Codelet const& codelet = fast_gemm(DType::fp32);
  cublaslt::reset();
  kernels::cuda::KeptProducts const kept;
  constexpr int per_thread = 60;
  std::vector<std::string> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      current_device = static_cast<int>(t % 2);
      for (int i = 0; i < per_thread; ++i) {
        // A few shapes, which meet those of the other threads, each with a bias of its own.
        Problem<DType::fp32> problem(i % 3 + 1, 4, i % 5 + 1, 1, false, true, 0,
                                     static_cast<unsigned>(i));
        problem.biased = true;
        Problem<DType::fp32> const before = problem;
        if (Status const status = problem.run(codelet); !status.ok()) wrong[t] += status.error;
        wrong[t] += problem.deviation(before);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::string const& each : wrong) CHECK(each == "");
  CHECK(std::ssize(cublaslt::calls()) == 4 * per_thread);
  CHECK(cublaslt::choices() == 2 * 15);
  CHECK(all_errors() == "");
}

TEST_CASE("bias and activation are the product's own where they can be", "[cuda][fast]") {
  Codelet const& codelet = fast_gemm(DType::bf16);
  cublaslt::reset();
  kernels::cuda::KeptProducts const kept;
  Problem<DType::bf16> problem(4, 4, 4, 1, false, false, 0, 1);
  auto const epilogue = [&] {
    REQUIRE(problem.run(codelet).ok());
    return cublaslt::calls().back().product.epilogue;
  };
  CHECK(epilogue() == CUBLASLT_EPILOGUE_DEFAULT);
  problem.args.activation = Activation::gelu_tanh;
  CHECK(epilogue() == CUBLASLT_EPILOGUE_GELU);
  problem.biased = true;
  CHECK(epilogue() == CUBLASLT_EPILOGUE_GELU_BIAS);
  problem.args.activation = Activation::none;
  CHECK(epilogue() == CUBLASLT_EPILOGUE_BIAS);
  void const* const first = cublaslt::calls().back().product.bias;
  CHECK(first == problem.bias.data());
  problem.bias = std::vector<bf16_t>(problem.bias);  // a bias elsewhere, of the same shape
  std::vector<bf16_t> other(4, bf16_t(1.0f));
  std::swap(other, problem.bias);
  CHECK(epilogue() == CUBLASLT_EPILOGUE_BIAS);
  CHECK(cublaslt::calls().back().product.bias == problem.bias.data());
  problem.bias.resize(8);
  int const choices = cublaslt::choices();
  problem.args.bias_offset = 1;  // of a later tile: less aligned
  CHECK(epilogue() == CUBLASLT_EPILOGUE_BIAS);
  CHECK(cublaslt::choices() == choices + 1);
  problem.args.chain.last = false;
  CHECK(epilogue() == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(all_errors() == "");
}

TEST_CASE("what the library cannot do is the exact kernel's, bit for bit", "[cuda][fast]") {
  Codelet const& codelet = fast_gemm(DType::fp32);
  Codelet const* const exact =
      kernels::find("gemm", DType::fp32, DType::fp32, Mode::exact, Isa::best);
  cublaslt::reset({.multiplies = false});
  kernels::cuda::KeptProducts const kept;
  Problem<DType::fp32> ours(5, 6, 7, 2, true, false, 1, 3);
  ours.biased = true;
  ours.args.beta = 0.5;
  Problem<DType::fp32> theirs = ours;
  REQUIRE(ours.run(codelet).ok());
  REQUIRE(theirs.run(*exact).ok());
  CHECK(ours.c == theirs.c);
  ours.args.k = theirs.args.k = 0;  // no product at all
  REQUIRE(ours.run(codelet).ok());
  REQUIRE(theirs.run(*exact).ok());
  CHECK(ours.c == theirs.c);
  ours.args.m = 0;
  REQUIRE(ours.run(codelet).ok());
  CHECK(cublaslt::calls().empty());
  CHECK(all_errors() == "");
}

TEST_CASE("a failure of the library is the task's, in its words", "[cuda][fast]") {
  Codelet const& codelet = fast_gemm(DType::fp32);
  cublaslt::reset({.multiply = CUBLAS_STATUS_EXECUTION_FAILED});
  Problem<DType::fp32> problem(4, 4, 4, 1, false, false, 0, 1);
  {
    kernels::cuda::KeptProducts const kept;
    Status const status = problem.run(codelet);
    REQUIRE(!status.ok());
    CHECK(std::string(status.error) == "cuBLASLt: the function failed to launch on the GPU");
  }
  CHECK(cublaslt::live_objects() == 0);
  cublaslt::reset({.create = CUBLAS_STATUS_ALLOC_FAILED});
  kernels::cuda::KeptProducts const kept;
  CHECK(!problem.run(codelet).ok());
  CHECK(cublaslt::live_objects() == 0);
  cublaslt::reset();
  CHECK(problem.run(codelet).ok());
}

TEST_CASE("a library that is not there, or of another version, is said in one line",
          "[cuda][fast]") {
  using kernels::cuda::CublasLt;
  cublaslt::reset();
  CHECK(kernels::cuda::fast_products() == concat("cuBLASLt ", CublasLt().version()));
  CublasLt const nothing({"libthere-is-none.so.1", "libnor-this.so"});
  CHECK(contains(nothing.missing(), "libthere-is-none.so.1: cannot open shared object file"));
  nothing.check();  // exact kernels are used
  fast_gemm(DType::fp32);
  cublaslt::reset({.version = {CUBLAS_VER_MAJOR - 1, 4, 5}});
  CublasLt const old;
  CHECK(old.missing().empty());
  std::string const text = message_of<DeviceError>([&] { old.check(); });
  CHECK(text == concat("Cuda: nntile_cuda was compiled for cuBLASLt ", CUBLAS_VER_MAJOR, ".",
                       CUBLAS_VER_MINOR, ", and the library that this machine loads is ",
                       CUBLAS_VER_MAJOR - 1, ".4.5: install libcublasLt.so.", CUBLAS_VER_MAJOR,
                       ", or choose exact numerics"));
  for (Isa const isa : instruction_sets()) {  // at binding, and exact numerics go on
    CHECK(message_of<DeviceError>(
              [&] { kernels::find("gemm", DType::fp32, DType::fp32, Mode::fast, isa); }) == text);
    CHECK(kernels::find("gemm", DType::fp32, DType::fp32, Mode::exact, isa) != nullptr);
  }
  CHECK(message_of<DeviceError>([&] { kernels::cuda::fast_products(); }) == text);
  CublasLt const other({"libm.so.6"});  // no such functions
  CHECK(contains(message_of<DeviceError>([&] { other.check(); }), "Cuda: "));
  cublaslt::reset();
}

TEST_CASE("the library in place of cuBLASLt refuses what the library would", "[cuda][fast]") {
  cublaslt::reset();
  auto const& library = kernels::cuda::cublaslt();
  cublasLtMatrixLayout_t layout = nullptr;
  REQUIRE(library.create_layout(&layout, CUDA_R_32F, 2, 2, 2) == CUBLAS_STATUS_SUCCESS);
  std::int32_t const batch = 2;
  auto const set = [&](void const* value, std::size_t bytes) {
    return library.set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, value, bytes);
  };
  CHECK(set(&batch, sizeof batch) == CUBLAS_STATUS_SUCCESS);
  CHECK(set(&batch, 8) != CUBLAS_STATUS_SUCCESS);
  CHECK(cublaslt::live_objects() == 1);
  CHECK(library.destroy_layout(layout) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublaslt::live_objects() == 0);
  CHECK(set(&batch, sizeof batch) != CUBLAS_STATUS_SUCCESS);
  CHECK(library.destroy_layout(layout) != CUBLAS_STATUS_SUCCESS);
  CHECK(all_errors() ==
        "an attribute of a layout: 8 bytes; an attribute of a layout: used after its "
        "end; a layout: used after its end; ");
  cublaslt::reset();
  std::array<float, 5> memory{};
  float const factor = 1;
  for (std::size_t const c_from : {0, 1}) {
    kernels::cuda::KeptProducts const kept;
    kernels::cuda::ProductShape const shape{.element = CUDA_R_32F,
                                            .result = CUDA_R_32F,
                                            .scale = CUDA_R_32F,
                                            .compute = CUBLAS_COMPUTE_32F,
                                            .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                                            .m = 2,
                                            .n = 1,
                                            .k = 1,
                                            .batch = 1,
                                            .lda = 2,
                                            .ldb = 1,
                                            .ldc = 2,
                                            .a_stride = 0,
                                            .b_stride = 0,
                                            .c_stride = 0,
                                            .trans_a = false,
                                            .trans_b = false,
                                            .align_a = 4,
                                            .align_b = 4,
                                            .align_c = 4,
                                            .align_d = 4,
                                            .align_bias = 16,
                                            .workspace = 0};
    kernels::cuda::ProductOperands const x{.alpha = &factor,
                                           .a = &memory[0],
                                           .b = &memory[0],
                                           .beta = &factor,
                                           .c = &memory[2 + c_from],
                                           .d = &memory[2],
                                           .bias = nullptr,
                                           .workspace = nullptr};
    auto const multiply = [&] { kernels::cuda::KeptProducts::here()->multiply(shape, x, nullptr); };
    if (c_from == 0)
      multiply();
    else
      CHECK_THROWS_AS(multiply(), kernels::cuda::Refused);
    CHECK(all_errors() == (c_from == 0 ? "" : "a product: C overlaps D; "));
  }
  cublaslt::reset();
}
