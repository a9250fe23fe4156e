// SPDX-License-Identifier: BSD-3-Clause
// A checkpoint of more ranks than a process may have files open.
#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "nntile/io/checkpoint.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

namespace {

constexpr int writers = 150;
static_assert(writers > 2 * io::detail::CheckpointFiles<int>::most_open);

/// What ranks write, "w" of a row for each and "b" of the last, and what `change` makes of it.
template <class Change> std::string checkpoint_in(std::string const& folder, Change change) {
  std::vector<float> values(2 * writers);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  auto const bytes = std::as_bytes(std::span(values));
  std::string const path = folder + "/step-0000000000";
  make_directories(path);
  Borders borders{{}, {0, 2}};
  for (int row = 0; row <= writers; ++row) borders[0].push_back(static_cast<std::uint64_t>(row));
  Manifest manifest;
  manifest.cut.push_back({"w", FileDType::f32, {writers, 2}, "", 0, borders});
  for (int rank = 0; rank < writers; ++rank) {
    std::vector<TensorSource> own{source_of(piece_name("w", tiling_of(borders), rank), DType::fp32,
                                            {2, 1},
                                            bytes.subspan(8 * static_cast<std::size_t>(rank), 8))};
    if (rank + 1 == writers) own.push_back(source_of("b", DType::fp32, {2}, bytes.first(8)));
    std::string const name = rank_file(checkpoint_files[0], rank, writers);
    WrittenFile const file = save_tensors(path + "/" + name, own);
    manifest.files.push_back({name, file.bytes, file.checksum});
    for (auto const& [entry, checksum] : file.tensors)
      manifest.tensors.push_back({entry.name, entry.dtype, entry.shape, name, checksum, {}});
  }
  change(manifest);
  put(path + "/manifest.json", manifest_text(manifest));
  return path;
}

}  // namespace

TEST_CASE("a checkpoint of many files is loaded with few of them open", "[io][many_files]") {
  Scratch const scratch;
  std::string const path = checkpoint_in(scratch.path(), [](Manifest&) {});
  std::size_t const before = list_directory("/proc/self/fd").size();
  std::size_t most = 0;
  Fault const counted{[&](FileStep step, std::string const&, std::size_t&) {
    if (step == FileStep::read) most = std::max(most, list_directory("/proc/self/fd").size());
    return 0;
  }};
  std::vector<float> w(2 * writers), b(2);
  Checkpoint const checkpoint = Checkpoint::open(path, &counted);
  CHECK_NOTHROW(checkpoint.verify());
  std::vector<TensorTarget> targets{
      target_of("b", DType::fp32, {2}, std::as_writable_bytes(std::span(b))),
      target_of("w", DType::fp32, {2, writers}, std::as_writable_bytes(std::span(w)))};
  checkpoint.load(targets);
  CHECK(b == std::vector<float>{0, 1});
  for (std::size_t i = 0; i < w.size(); ++i) REQUIRE(w[i] == static_cast<float>(i));
  CHECK(most > before);
  CHECK(most <= before + io::detail::CheckpointFiles<int>::most_open);
  CHECK(list_directory("/proc/self/fd").size() == before);
}

TEST_CASE("a tensor that the manifest has in another of many files is told", "[io][many_files]") {
  Scratch const scratch;
  std::string const first = rank_file(checkpoint_files[0], 0, writers);
  std::string const path = checkpoint_in(scratch.path(), [&](Manifest& manifest) {
    auto const b = std::find_if(manifest.tensors.begin(), manifest.tensors.end(),
                                [](TensorRecord const& tensor) { return tensor.name == "b"; });
    b->file = first;
  });
  CHECK_THAT(message_of<FormatError>([&] { Checkpoint::open(path).check(); }),
             Contains(first + "' has no tensor 'b', which the manifest lists"));
}

TEST_CASE("a limit of open files is said with what to do", "[io][many_files]") {
  Scratch const scratch;
  Fault const fault{[](FileStep, std::string const&, std::size_t&) { return EMFILE; }};
  CHECK_THAT(message_of([&] { (void)File::open(scratch / "x", &fault); }),
             Contains("Too many open files; close some, or raise the limit of this process "
                      "(ulimit -n)"));
}
