// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/history.hh"

#include "nntile/io/manifest.hh"
#include "tests/support/catch.hh"
#include "tests/support/sanitized.hh"

using namespace gpt2;
using Catch::Matchers::Contains;

namespace {

/// A loss of as many digits as there can be, which says its step.
double loss_of(std::int64_t step) { return 1.0 / 3 + static_cast<double>(step); }

History history_of(std::int64_t steps, std::int64_t eval_every) {
  History history;
  for (std::int64_t step = 1; step <= steps; ++step) {
    history.trained(loss_of(step));
    if (step % eval_every == 0) history.validated(step, loss_of(step));
  }
  return history;
}

std::string text_of(History const& history) {
  return nntile::io::to_text(to_json(RunRecord{history, history.steps, 1, "", 1}));
}

History read(std::string const& text, std::int64_t step) {
  return run_from(nntile::io::parse_json(text, "a text"), static_cast<std::uint64_t>(step), "run")
      .history;
}

/// A run of that many steps, as a checkpoint has it that kept all losses.
std::string whole_text(std::int64_t steps) {
  History history;
  history.steps = steps;
  for (std::int64_t step = 1; step <= steps; ++step) history.train.push_back(loss_of(step));
  return text_of(history);
}

}  // namespace

TEST_CASE("the manifest of millions of steps, each validated, has room for tensors",
          "[io][history]") {
  History const history = history_of(nntile::test::sanitized ? 2'000'000 : 10'000'000, 1);
  nntile::io::Manifest manifest;
  manifest.state.run = to_json(RunRecord{history, history.steps, 1, "", 1});
  CHECK(nntile::io::manifest_text(manifest).size() < nntile::io::largest_manifest * 2 / 3);
}

TEST_CASE("losses of a long run are thinned evenly, and the last one stays", "[io][history]") {
  std::int64_t const steps = 5 * static_cast<std::int64_t>(History::most_train) + 3;
  History const history = history_of(steps, steps);
  CHECK(history.every == 8);
  REQUIRE(history.train.size() == static_cast<std::size_t>(steps / 8));
  for (std::size_t i = 0; i < history.train.size(); i += 1001)
    CHECK(history.train[i] == loss_of(8 * static_cast<std::int64_t>(i + 1)));
  CHECK(history.last_train == loss_of(steps));
}

TEST_CASE("validations of a long run are thinned evenly, the first and the last one stay",
          "[io][history]") {
  std::int64_t const steps = 5 * static_cast<std::int64_t>(History::most_valid) + 3;
  History const history = history_of(steps, 1);
  REQUIRE(history.valid.size() <= History::most_valid);
  CHECK(history.valid.size() > History::most_valid / 8);
  CHECK(history.valid_step.front() == 1);
  CHECK(history.valid_step.back() == static_cast<double>(steps));
  double widest = 0;
  for (std::size_t i = 1; i < history.valid.size(); ++i)
    widest = std::max(widest, history.valid_step[i] - history.valid_step[i - 1]);
  CHECK(widest <= 32);  // 5 where room is used to the last
  for (std::size_t i = 0; i < history.valid.size(); i += 1001)
    CHECK(history.valid[i] == loss_of(static_cast<std::int64_t>(history.valid_step[i])));
}

TEST_CASE("a long run that was resumed has the history of one that was not", "[io][history]") {
  std::int64_t const half = static_cast<std::int64_t>(History::most_train) + 3;
  History resumed = read(text_of(history_of(half, half)), half);
  CHECK(resumed.every == 2);
  for (std::int64_t step = half + 1; step <= 2 * half; ++step) resumed.trained(loss_of(step));
  History const whole = history_of(2 * half, 2 * half);
  CHECK(resumed.train == whole.train);
  CHECK(resumed.every == whole.every);
  CHECK(resumed.last_train == whole.last_train);
}

TEST_CASE("a checkpoint that kept the losses of more steps is read, and thinned at the next one",
          "[io][history]") {
  std::int64_t const steps = static_cast<std::int64_t>(History::most_train) + 3;
  History history = read(whole_text(steps), steps);
  CHECK(history.train.size() == static_cast<std::size_t>(steps));
  CHECK(history.last_train == loss_of(steps));
  history.trained(loss_of(steps + 1));
  CHECK(history.train == history_of(steps + 1, steps + 1).train);
}

TEST_CASE("a run of few steps is written as ever", "[io][history]") {
  History history;
  history.trained(2.5);
  history.trained(1.5);
  history.validated(2, 1.75);
  CHECK(text_of(history) ==
        R"({"data":1,"steps":2,"train":[2.5,1.5],"valid":[1.75],"valid_step":[2.0]})");
}

TEST_CASE("a history that contradicts its step is refused", "[io][history]") {
  std::string const text = R"({"train":[1,2],"train_every":2,"valid":[],"valid_step":[],)"
                           R"("steps":9,"data":1})";
  CHECK(read(text, 5).train.size() == 2);
  CHECK_THROWS_WITH(read(text, 6), Contains("'train' holds 2 numbers where 6 steps were trained"));
  CHECK_THROWS_WITH(read(R"({"train_every":0})", 6), Contains("'train_every' is 0"));
}

TEST_CASE("the picture of thinned losses has their steps", "[io][history]") {
  History history;
  history.train = {4, 3, 2, 1};
  history.every = 1000;
  history.steps = 4500;
  std::string const svg = loss_svg(curve_of(history, "tiny"));
  CHECK_THAT(svg, Contains(">4,500 steps, training loss") && Contains(">4,000<"));
}

TEST_CASE("a run of more steps than can be counted is refused", "[io][history]") {
  std::string text = whole_text(0);
  text.insert(text.size() - 1, ", \"train_every\": 4611686018427387904");
  auto const of = [&](std::uint64_t step) {
    return run_from(nntile::io::parse_json(text, "a text"), step, "run");
  };
  CHECK_THROWS_WITH(of(std::uint64_t{1} << 63), Contains("trained 9223372036854775808 steps"));
  CHECK(of((std::uint64_t{1} << 62) - 1).history.train.empty());
}
