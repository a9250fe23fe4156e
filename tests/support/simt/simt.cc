// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/cuda/launch.hh"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <set>
#include <span>
#include <string>

#include "tests/support/simt/tensor.hh"

namespace nntile::test::simt {
namespace {

thread_local std::mt19937_64 order(1);
thread_local bool memory_is_aligned = true;
thread_local Counts counted;
thread_local int device_multiprocessors = 1;
constexpr int warp_size = kernels::cuda::warp_size;
thread_local std::size_t shared_of_device = 227 << 10;  // an H100's

std::string at(Place place) {
  std::string_view file = place.file;
  file.remove_prefix(std::min(file.size(), file.rfind('/') + 1));
  return concat(file, ":", place.line);
}

bool same(Place a, Place b) { return a.line == b.line && std::strcmp(a.file, b.file) == 0; }

/// Adds a line to the file that the environment names, once.
void note_launch(std::string const& line) {
  static char const* const file = std::getenv("NNTILE_SIMT_LAUNCHES");
  static thread_local std::set<std::string> noted;
  if (file != nullptr && noted.insert(line).second) std::ofstream(file, std::ios::app) << line;
}

/// What a fiber of a block runs.
struct Start {
  Block* block;
  int rank;
  void const* kernel;
  Block::Body body;
  std::string* error;
};

/// The emulator's thread that runs now.
thread_local Start const* running = nullptr;

void note_failure(Start const& of, std::string const& what) {
  *of.error = concat("block ", of.block->number(), ", thread ", of.rank, ": ", what);
}

void run_thread(void* state) {
  auto const& start = *static_cast<Start*>(state);
  try {
    start.body(start.kernel, *start.block, start.rank);
    start.block->check_end(start.rank);
  } catch (std::string const& what) {
    note_failure(start, what);
  }
}

}  // namespace

void set_seed(std::uint64_t seed) {
  order.seed(seed);
  memory_is_aligned = seed % 2 == 1;
}
bool aligned() { return memory_is_aligned; }
void fail_thread(std::string const& what) {
  if (running == nullptr) return;
  note_failure(*running, what);
  for (;;) Fiber::stop();
}
void set_multiprocessors(int count) { device_multiprocessors = count; }
int multiprocessors() { return device_multiprocessors; }
void set_most_shared(std::size_t bytes) { shared_of_device = bytes; }
std::size_t most_shared() { return shared_of_device; }
Counts const& counts() { return counted; }

Block::Block(Index number, Index count, int threads, std::size_t shared_bytes, void const* kernel,
             Body body)
    : number_(number),
      count_(count),
      kernel_(kernel),
      body_(body),
      lanes_(static_cast<std::size_t>(threads)),
      warp_barriers_(static_cast<std::size_t>(threads / warp_size)),
      memory_(shared_bytes),
      words_(shared_bytes / 4) {}

void Block::run(std::string& error) {
  std::vector<Start> starts(lanes_.size());
  for (int rank = 0; rank < threads(); ++rank) {
    auto& start = starts[static_cast<std::size_t>(rank)];
    start = {this, rank, kernel_, body_, &error};
    lanes_[static_cast<std::size_t>(rank)].fiber = std::make_unique<Fiber>(&run_thread, &start);
  }
  std::vector<int> turn(lanes_.size());
  for (std::size_t i = 0; i < turn.size(); ++i) turn[i] = static_cast<int>(i);
  for (bool going = true; going;) {
    std::shuffle(turn.begin(), turn.end(), order);
    bool ended = true;
    for (int const rank : turn) {
      Lane& lane = lanes_[static_cast<std::size_t>(rank)];
      running = &starts[static_cast<std::size_t>(rank)];
      while (!lane.fiber->ended() && lane.stop == Stop::none && error.empty()) lane.fiber->resume();
      running = nullptr;
      if (!error.empty()) return;
      ended = ended && lane.fiber->ended();
    }
    if (ended) return;
    going = release_warps() || release_block();
  }
  error = concat("block ", number_, ": ", waiting());
}

void Block::stop_at(int rank, Stop kind, Place place, int argument, std::uint64_t bits) {
  Lane& lane = lanes_[static_cast<std::size_t>(rank)];
  lane.stop = kind;
  lane.place = place;
  lane.argument = argument;
  lane.bits = bits;
  while (lane.stop != Stop::none) Fiber::stop();
}

void Block::sync(int rank, Place place) { stop_at(rank, Stop::barrier, place); }
void Block::sync_warp(int rank, Place place) { stop_at(rank, Stop::warp, place); }
std::uint64_t Block::exchange(int rank, std::uint64_t bits, int mask, Place place) {
  if (mask <= 0 || mask >= warp_size) fail(concat("exchange with lanes xor ", mask));
  stop_at(rank, Stop::exchange, place, mask, bits);
  return lanes_[static_cast<std::size_t>(rank)].result;
}
std::uint64_t Block::from(int rank, std::uint64_t bits, int lane, Place place) {
  if (lane < 0 || lane >= warp_size) fail(concat("a value from lane ", lane));
  stop_at(rank, Stop::from, place, lane, bits);
  return lanes_[static_cast<std::size_t>(rank)].result;
}
std::uint32_t Block::ballot(int rank, bool vote, Place place) {
  stop_at(rank, Stop::ballot, place, 0, vote ? 1 : 0);
  return static_cast<std::uint32_t>(lanes_[static_cast<std::size_t>(rank)].result);
}

void Block::multiply(int rank, Product& product, Place place) {
  lanes_[static_cast<std::size_t>(rank)].brought = &product;
  stop_at(rank, Stop::multiply, place, static_cast<int>(product.of));
}
void Block::matrices(int rank, Matrices& matrices, Place place) {
  lanes_[static_cast<std::size_t>(rank)].brought = &matrices;
  stop_at(rank, Stop::matrices, place);
}

bool Block::release_warps() {
  bool released = false;
  for (std::size_t w = 0; w < warp_barriers_.size(); ++w) {
    std::span const warp(lanes_.data() + w * warp_size, warp_size);
    Lane const& one = warp[0];
    bool const together = std::all_of(warp.begin(), warp.end(), [&](Lane const& lane) {
      return !lane.fiber->ended() && lane.stop == one.stop && same(lane.place, one.place);
    });
    if (!together || one.stop == Stop::none || one.stop == Stop::barrier) continue;
    void* brought[warp_size];
    for (std::size_t i = 0; i < warp_size; ++i) brought[i] = warp[i].brought;
    if (one.stop == Stop::multiply) multiply_by_warp(brought), ++counted.products;
    if (one.stop == Stop::matrices) share_matrices(brought);
    std::uint64_t votes = 0;
    for (std::size_t i = 0; i < warp_size; ++i) votes |= (warp[i].bits & 1) << i;
    for (std::size_t i = 0; i < warp_size; ++i) {
      auto const argument = static_cast<std::size_t>(warp[i].argument);
      if (one.stop == Stop::exchange) warp[i].result = warp[i ^ argument].bits;
      if (one.stop == Stop::from) warp[i].result = warp[argument].bits;
      if (one.stop == Stop::ballot) warp[i].result = votes;
    }
    if (one.stop == Stop::warp)
      ++warp_barriers_[w];
    else
      ++counted.shuffles;
    for (Lane& lane : warp) lane.stop = Stop::none;
    released = true;
  }
  return released;
}

bool Block::release_block() {
  Lane const& one = lanes_[0];
  bool const together = std::all_of(lanes_.begin(), lanes_.end(), [&](Lane const& lane) {
    return !lane.fiber->ended() && lane.stop == Stop::barrier && same(lane.place, one.place);
  });
  if (!together) return false;
  ++barriers_;
  ++counted.barriers;
  for (Lane& lane : lanes_) lane.stop = Stop::none;
  return true;
}

std::string Block::waiting() const {
  static constexpr char const* names[] = {"",     "sync",   "sync_warp", "exchange",
                                          "from", "ballot", "multiply",  "matrices"};
  auto const describe = [&](Lane const& lane) {
    if (lane.fiber->ended()) return std::string("has ended");
    return concat("is at ", names[static_cast<int>(lane.stop)], " of ", at(lane.place));
  };
  // One that waits, and one of those it waits for.
  std::size_t waits = 0;
  while (waits + 1 < lanes_.size() && lanes_[waits].fiber->ended()) ++waits;
  std::string const here = describe(lanes_[waits]);
  std::size_t const group = lanes_[waits].stop == Stop::barrier ? lanes_.size() : warp_size;
  for (std::size_t i = 0, first = waits / group * group; i < group; ++i)
    if (std::string const there = describe(lanes_[first + i]); there != here)
      return concat("threads do not come together: thread ", waits, " ", here, ", thread ",
                    first + i, " ", there);
  return "threads do not come together";
}

Block::Touch Block::touch(int rank) const {
  return {rank, barriers_, warp_barriers_[static_cast<std::size_t>(rank / warp_size)]};
}

bool Block::seen(Touch then, int rank) const {
  if (then.rank == none || then.rank == rank || then.block < barriers_) return true;
  if (then.rank < 0) return false;
  return then.rank / warp_size == rank / warp_size && then.warp < touch(rank).warp;
}

void Block::check_range(std::size_t offset, std::size_t bytes, std::size_t alignment) const {
  if (offset % alignment != 0)
    fail(concat("shared memory from byte ", offset, ", which is not a multiple of ", alignment));
  if (bytes > memory_.size() || offset > memory_.size() - bytes)
    fail(concat("bytes ", offset, " to ", offset + bytes, " of ", memory_.size(),
                " of shared memory"));
}

void Block::note_read(Word& word, int rank) {
  Touch const now = touch(rank);
  int const warp = rank / warp_size;
  Touch& reader = word.reader;
  if (reader.rank == none || reader.block < now.block) {
    reader = now;
  } else if (reader.rank == rank) {
    reader.warp = now.warp;
  } else if (reader.rank == several || word.reader_warp != warp) {
    reader.rank = several;
  } else if (reader.warp < now.warp) {  // seen by all of the warp
    reader = now;
  } else {
    reader.rank = several_of_warp;
  }
  word.reader_warp = warp;
}

void Block::check_copied(std::size_t word, int rank, char const* doing) const {
  int const copier = words_[word].copier;
  if (copier == none) return;
  fail(concat(doing, " byte ", 4 * word, " of shared memory, to which a copy of ",
              copier == rank ? "its own" : concat("thread ", copier), " is under way"));
}

void Block::check_write(std::size_t word, int rank, char const* doing) const {
  Word const& touched = words_[word];
  check_copied(word, rank, doing);
  if (!seen(touched.writer, rank))
    fail(concat(doing, " byte ", 4 * word, " of shared memory, which thread ", touched.writer.rank,
                " has written without a barrier between"));
  Touch const reader = touched.reader;
  bool ordered = seen(reader, rank);
  if (reader.rank == several_of_warp && reader.block == barriers_)
    ordered = touched.reader_warp == rank / warp_size && reader.warp < touch(rank).warp;
  if (!ordered)
    fail(concat(doing, " byte ", 4 * word, " of shared memory, which ",
                reader.rank >= 0 ? concat("thread ", reader.rank, " has") : "other threads have",
                " read without a barrier between"));
}

void Block::read(int rank, std::size_t offset, void* to, std::size_t bytes) {
  for (std::size_t word = offset / 4; word < (offset + bytes) / 4; ++word) {
    check_copied(word, rank, "reads");
    Touch const& writer = words_[word].writer;
    if (writer.rank == none)
      fail(concat("reads byte ", 4 * word, " of shared memory, which nothing has written"));
    if (!seen(writer, rank))
      fail(concat("reads byte ", 4 * word, " of shared memory, which thread ", writer.rank,
                  " has written without a barrier between"));
    note_read(words_[word], rank);
  }
  std::memcpy(to, memory_.data() + offset, bytes);
}

void Block::write(int rank, std::size_t offset, void const* from, std::size_t bytes) {
  for (std::size_t word = offset / 4; word < (offset + bytes) / 4; ++word) {
    check_write(word, rank, "writes");
    words_[word].writer = touch(rank);
  }
  std::memcpy(memory_.data() + offset, from, bytes);
}

void Block::copy(int rank, std::size_t offset, void const* from, std::size_t bytes) {
  for (std::size_t word = offset / 4; word < (offset + bytes) / 4; ++word) {
    check_write(word, rank, "copies to");
    words_[word].copier = rank;
  }
  Lane& lane = lanes_[static_cast<std::size_t>(rank)];
  lane.copies.push_back({lane.groups, offset, from, bytes});
}

void Block::end_copies(int rank) { ++lanes_[static_cast<std::size_t>(rank)].groups; }

void Block::wait_for_copies(int rank, int pending) {
  Lane& lane = lanes_[static_cast<std::size_t>(rank)];
  std::erase_if(lane.copies, [&](Copy const& copy) {
    if (copy.group >= lane.groups - pending) return false;
    std::memcpy(memory_.data() + copy.offset, copy.from, copy.bytes);
    for (std::size_t word = copy.offset / 4; word < (copy.offset + copy.bytes) / 4; ++word) {
      words_[word].copier = none;
      words_[word].writer = touch(rank);
    }
    return true;
  });
}

void Block::check_end(int rank) const {
  if (!lanes_[static_cast<std::size_t>(rank)].copies.empty())
    fail("ends with copies for which it has not waited");
}

void Block::fail(std::string what) const { throw what; }

Status run_grid(Index blocks, int threads, std::size_t shared_bytes, void const* kernel,
                Block::Body body, char const* name) noexcept {
  static thread_local char text[status_text_bytes];
  try {
    note_launch(concat(name, " ", threads, " ", shared_bytes, "\n"));
    std::string error;
    if (blocks < 1 || blocks > INT32_MAX)
      error = concat("a launch of ", blocks, " blocks");
    else if (shared_bytes > most_shared())
      error = concat(shared_bytes, " bytes of shared memory; a block has ", most_shared());
    std::vector<Index> turn(error.empty() ? static_cast<std::size_t>(blocks) : 0);
    for (std::size_t i = 0; i < turn.size(); ++i) turn[i] = static_cast<Index>(i);
    std::shuffle(turn.begin(), turn.end(), order);
    ++counted.launches;
    for (Index const number : turn) {
      Block block(number, blocks, threads, shared_bytes, kernel, body);
      block.run(error);
      if (!error.empty()) break;
      ++counted.blocks;
    }
    if (error.empty()) return {};
    text[error.copy(text, sizeof text - 1)] = '\0';
    return {text};
  } catch (std::exception const& e) {
    text[std::string_view(e.what()).copy(text, sizeof text - 1)] = '\0';
    return {text};
  }
}

}  // namespace nntile::test::simt
