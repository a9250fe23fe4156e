// SPDX-License-Identifier: BSD-3-Clause
// The mean cross entropy and its gradient, against sums in double and differences.
#include "nntile/nn/loss.hh"

#include <cmath>

#include "nntile/graph/gradient.hh"
#include "nntile/graph/graph.hh"
#include "nntile/runtime/serial/serial.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"
#include "tests/support/runtimes.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

constexpr Index ignored = -100, vocab = 130, seq = 70, batch = 3;
constexpr auto tokens = static_cast<std::size_t>(seq * batch);

/// Every fifth is ignored where `some`.
std::vector<Index> labels(bool some) {
  std::vector<Index> values(tokens);
  for (std::size_t i = 0; i < tokens; ++i)
    values[i] = some && i % 5 == 2 ? ignored : static_cast<Index>(i * 7 % vocab);
  return values;
}

std::vector<double> some_logits() {
  std::vector<double> values(vocab * tokens);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.7 * static_cast<double>(i)) * 2;
  return values;
}

/// Sum over the tokens that count, divided by their number.
double expected(std::vector<double> const& logits, std::vector<Index> const& labels) {
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < tokens; ++i) {
    if (labels[i] == ignored) continue;
    double const* const x = logits.data() + static_cast<Index>(i) * vocab;
    double powers = 0;
    for (Index v = 0; v < vocab; ++v) powers += std::exp(x[v]);
    sum += std::log(powers) - x[labels[i]];
    ++count;
  }
  return sum / count;
}

template <class T> struct Loss {
  T loss;
  std::vector<T> gradient;
  bool operator==(Loss const&) const = default;
};

template <class T, Runtime R>
Loss<T> run_loss(R& runtime, std::vector<Index> const& given, PlanOptions const& options = {}) {
  LogicalGraph graph;
  Node const x = graph.parameter(
      {.shape = {vocab, seq, batch}, .dtype = dtype_of<T>, .axes = "vocab seq batch"}, "x");
  Node const y =
      graph.input({.shape = {seq, batch}, .dtype = DType::int64, .axes = "seq batch"}, "labels");
  Node const loss = nn::mean_cross_entropy(x, y).mark_output();
  Node const gradient = add_gradients(graph, loss).find(x).mark_output();
  Graph<R> run(graph, runtime, options);
  std::vector<T> logits;
  for (double const value : some_logits()) logits.push_back(static_cast<T>(value));
  run[x] = logits;
  run[y] = given;
  run();
  return {run[loss].template item<T>(), run[gradient].template read<T>()};
}

/// What the loss was before it counted: the sum times a constant, the reciprocal of all tokens.
Loss<float> over_all_tokens(std::vector<Index> const& given) {
  LogicalGraph graph;
  Node const x = graph.parameter({.shape = {vocab, seq, batch}}, "x");
  Node const y = graph.input({.shape = {seq, batch}, .dtype = DType::int64}, "labels");
  Node const loss =
      sum_slice({.axis = 0, .alpha = 1 / static_cast<double>(tokens), .ascending = true},
                sum_slice(cross_entropy(x, y)))
          .mark_output();
  Node const gradient = add_gradients(graph, loss).find(x).mark_output();
  Serial runtime;
  Graph<Serial> run(graph, runtime);
  std::vector<float> logits;
  for (double const value : some_logits()) logits.push_back(static_cast<float>(value));
  run[x] = logits;
  run[y] = given;
  run();
  return {run[loss].template item<float>(), run[gradient].template read<float>()};
}

PlanOptions const tilings[] = {{.tile = 64}, {.cuts = {{"seq", {64, 6}}, {"batch", {1, 2}}}}};

}  // namespace

TEST_CASE("a loss of logits that have no positions is refused with what they have", "[nn][loss]") {
  LogicalGraph graph;
  Node const logits = graph.parameter({.shape = {vocab}}, "x");
  Node const label = graph.input({.shape = {}, .dtype = DType::int64}, "y");
  CHECK(message_of<ShapeError>([&] { nn::mean_cross_entropy(logits, label); }) ==
        "mean_cross_entropy: logits ('x') of shape {130}, but they are {vocab, seq, batch} or "
        "{vocab, seq}");
}

TEST_CASE("the mean of cross entropy is over the labels that count", "[nn][loss]") {
  Serial runtime;
  for (bool const some : {false, true}) {
    double const exact = expected(some_logits(), labels(some));
    CHECK_THAT(run_loss<double>(runtime, labels(some)).loss,
               Catch::Matchers::WithinRel(exact, 1e-14));
    CHECK_THAT(static_cast<double>(run_loss<float>(runtime, labels(some)).loss),
               Catch::Matchers::WithinRel(exact, 1e-6));
  }
}

TEST_CASE("where no label is ignored, the mean has the bits of a constant factor", "[nn][loss]") {
  Serial runtime;
  CHECK(run_loss<float>(runtime, labels(false)) == over_all_tokens(labels(false)));
}

TEMPLATE_LIST_TEST_CASE("the mean of cross entropy has equal bits for every tiling", "[nn][loss]",
                        AllRuntimes) {
  Serial serial;
  auto const whole = run_loss<float>(serial, labels(true), {.tile = 0});
  for (PlanOptions const& tiling : tilings) {
    TestType runtime;
    CHECK(run_loss<float>(runtime, labels(true), tiling) == whole);
  }
}

TEST_CASE("the gradient of the mean is the difference quotient, and 0 for ignored tokens",
          "[nn][loss]") {
  Serial runtime;
  auto const given = labels(true);
  auto const gradient = run_loss<double>(runtime, given).gradient;
  auto logits = some_logits();
  double const step = 1e-5;
  for (std::size_t const at : {std::size_t{0}, std::size_t{7} * vocab + 49, vocab * tokens - 1}) {
    auto const moved = [&](double by) {
      auto changed = logits;
      changed[at] += by;
      return expected(changed, given);
    };
    CHECK_THAT(gradient[at],
               Catch::Matchers::WithinAbs((moved(step) - moved(-step)) / (2 * step), 1e-9));
  }
  for (Index v = 0; v < vocab; ++v) CHECK(gradient[static_cast<std::size_t>(2 * vocab + v)] == 0);
}

TEST_CASE("where every label is ignored, the loss is NaN and its gradient 0", "[nn][loss]") {
  Serial runtime;
  auto const nothing = run_loss<float>(runtime, std::vector<Index>(tokens, ignored));
  CHECK(std::isnan(nothing.loss));
  CHECK(nothing.gradient == std::vector<float>(vocab * tokens));
}
