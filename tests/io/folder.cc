// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/folder.hh"

#include <utility>

#include "tests/io/checkpoint_sample.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;
using gpt2::open_folder;

namespace {

void save_run(std::string const& folder, int step) {
  CheckpointDirectory directory(folder);
  save_step(directory, step);
}

std::string refusal(std::string const& folder, bool resume, CheckpointOptions const& options = {}) {
  return thrown<ValueError>([&] { (void)open_folder(folder, resume, {}, options); });
}

}  // namespace

TEST_CASE("a new run makes its folder, a resumed one finds its checkpoint", "[io][folder]") {
  Scratch const scratch;
  CHECK_FALSE(open_folder(scratch / "a/b", false)->latest().has_value());
  save_run(scratch / "a/b", 3);
  CHECK(open_folder(scratch / "a/b", true)->latest() == scratch / "a/b/step-0000000003");
}

TEST_CASE("a run that is there needs --resume, and --resume a run", "[io][folder]") {
  Scratch const scratch;
  save_run(scratch / "run", 3);
  make_directory(scratch / "run/step-0000000007.tmp");
  CHECK_THAT(refusal(scratch / "run", false), Contains("holds a run already; give --resume"));
  CHECK(path_exists(scratch / "run/step-0000000007.tmp"));
  CHECK_THAT(refusal(scratch / "none", true), Contains("holds no checkpoint"));
  CHECK_FALSE(path_exists(scratch / "none"));
  make_directory(scratch / "empty");
  CHECK_THAT(refusal(scratch / "empty", true), Contains("holds no checkpoint"));
}

TEST_CASE("a run that ends before the folder is locked is not resumed unasked", "[io][folder]") {
  Scratch const scratch;
  bool saves = true;
  Fault const another{[&](FileStep step, std::string const&, std::size_t&) {
    if (step == FileStep::lock && std::exchange(saves, false)) save_run(scratch / "run", 3);
    return 0;
  }};
  CHECK_THAT(refusal(scratch / "run", false, {.fault = &another}),
             Contains("holds a run already; give --resume"));
  CHECK_FALSE(saves);
  CHECK(good_step(scratch / "run") == 3);
}

TEST_CASE("a folder that replaced the run's gets no file of it", "[io][folder]") {
  Scratch const scratch;
  auto const folder = open_folder(scratch / "run", false);
  gpt2::write_into(*folder, "loss.svg", "ours");
  CHECK(get(scratch / "run/loss.svg") == "ours");
  rename_path(scratch / "run", scratch / "moved");
  make_directory(scratch / "run");
  put(scratch / "run/loss.svg", "theirs");
  CHECK_THAT(thrown([&] { gpt2::write_into(*folder, "loss.svg", "ours again"); }),
             Contains("was removed or replaced"));
  CHECK(get(scratch / "run/loss.svg") == "theirs");
}

TEST_CASE("a checkpoint that a cut-off save had set aside is resumed", "[io][folder]") {
  Scratch const scratch;
  save_run(scratch.path(), 3);
  rename_path(scratch / "step-0000000003", scratch / "step-0000000003.old");
  CHECK(open_folder(scratch.path(), true)->latest() == scratch / "step-0000000003");
  CHECK(good_step(scratch.path()) == 3);
  rename_path(scratch / "step-0000000003", scratch / "step-0000000003.old");
  CHECK_THAT(refusal(scratch.path(), false), Contains("holds a run already"));
}
