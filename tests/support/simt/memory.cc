// SPDX-License-Identifier: BSD-3-Clause
#include "tests/support/simt/memory.hh"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "kernels/cuda/launch.hh"
#include "nntile/core/error.hh"
#include "tests/support/sanitized.hh"
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace nntile::test::simt {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::byte unused{0xff};  // a NaN of any type

/// The innermost of this thread.
thread_local Fenced const* watched = nullptr;
struct sigaction handler_before;

void on_fault(int, siginfo_t* info, void*) {
  std::string const what = watched != nullptr ? watched->describe(info->si_addr) : "";
  if (!what.empty())
    fail_thread(concat("touches ", what));       // comes back outside of the emulator's threads
  sigaction(SIGSEGV, &handler_before, nullptr);  // the access is made again
}

/// A test framework may have taken the signal back since the last time.
void handle_faults() {
  struct sigaction now;
  sigaction(SIGSEGV, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_fault) return;
  struct sigaction action = {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;  // a thread that fails never comes back from it
  sigaction(SIGSEGV, &action, &handler_before);
}

void poison([[maybe_unused]] std::byte* from, [[maybe_unused]] std::byte* end) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(from, static_cast<std::size_t>(end - from));
#endif
}
void unpoison([[maybe_unused]] std::byte* from, [[maybe_unused]] std::byte* end) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(from, static_cast<std::size_t>(end - from));
#endif
}

}  // namespace

Fenced::Fenced(std::span<Operand const> operands, bool aligned) {
  handle_faults();
  std::vector<std::size_t> order(operands.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return operands[a].data < operands[b].data; });
  std::vector<std::size_t> part_of(operands.size());
  for (std::size_t const o : order) {
    auto const& [data, bytes, written] = operands[o];
    if (parts_.empty() || data >= parts_.back().from_end)
      parts_.push_back({data, data + bytes, written, o});
    Part& part = parts_.back();
    part.from_end = std::max(part.from_end, data + bytes);
    part.written = part.written || written;
    part_of[o] = parts_.size() - 1;
  }
  auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto const whole_pages = [&](std::size_t bytes) { return (bytes + page - 1) / page * page; };
  map_bytes_ = page;
  for (Part const& part : parts_) map_bytes_ += whole_pages(part.bytes()) + page;
  void* const map =
      mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  map_ = static_cast<std::byte*>(map);
  std::byte* next = map_ + page;
  for (Part& part : parts_) {
    std::size_t const length = whole_pages(part.bytes());
    part.pages = next;
    part.pages_end = next + length;
    next = part.pages_end + page;
    bool const ends = (part.bytes() % alignment == 0) == aligned;
    part.data = ends ? part.pages_end - part.bytes() : part.pages;
    if (length == 0) continue;
    mprotect(part.pages, length, PROT_READ | PROT_WRITE);
    std::fill(part.pages, part.pages_end, unused);
    std::memcpy(part.data, part.from, part.bytes());
    if (!part.written) mprotect(part.pages, length, PROT_READ);
    poison(part.pages, part.data);
    poison(part.data + part.bytes(), part.pages_end);
  }
  for (std::size_t o = 0; o < operands.size(); ++o) {
    Part const& part = parts_[part_of[o]];
    places_.push_back(part.data + (operands[o].data - part.from));
  }
  outer_ = watched;
  watched = this;
}

Fenced::~Fenced() {
  watched = outer_;
  for (Part const& part : parts_) unpoison(part.pages, part.pages_end);
  munmap(map_, map_bytes_);
}

std::string Fenced::copy_back() const {
  for (Part const& part : parts_) {
    if (!part.written || part.bytes() == 0) continue;
    std::byte* const end = part.data + part.bytes();
    std::memcpy(part.from, part.data, part.bytes());
    unpoison(part.pages, part.pages_end);
    auto const changed = [](std::byte each) { return each != unused; };
    for (auto const& [first, last] : {std::pair{part.pages, part.data}, {end, part.pages_end}})
      if (std::byte* const at = std::find_if(first, last, changed); at != last)
        return concat("writes ", describe(at));
  }
  return {};
}

bool Fenced::is_beside(void const* address) const {
  auto const* const at = static_cast<std::byte const*>(address);
  if (at < map_ || at >= map_ + map_bytes_) return false;
  return std::none_of(parts_.begin(), parts_.end(), [&](Part const& part) {
    return at >= part.data && at < part.data + part.bytes();
  });
}

std::string beside(void const* from, std::size_t bytes) {
  auto const* const at = static_cast<std::byte const*>(from);
  if (watched != nullptr && bytes > 0)
    for (std::byte const* each : {at, at + bytes - 1})
      if (watched->is_beside(each)) return watched->describe(each);
  return {};
}

std::string Fenced::describe(void const* address) const {
  auto const* const at = static_cast<std::byte const*>(address);
  if (at < map_ || at >= map_ + map_bytes_) return {};
  // A fence is its nearest part's.
  Part const* nearest = nullptr;
  std::ptrdiff_t least = 0;
  for (Part const& part : parts_) {
    std::byte const* const end = part.data + part.bytes();
    std::ptrdiff_t const away = at < part.data ? part.data - at : at >= end ? at - end + 1 : 0;
    if (nearest == nullptr || away < least) nearest = &part, least = away;
  }
  if (nearest == nullptr) return "memory of no operand";
  std::string const of = concat("buffer ", nearest->operand, ", of ", nearest->bytes(), " bytes");
  if (least == 0) return concat("a byte that the task does not write, of ", of);
  return concat("byte ", at - nearest->data, " of ", of);
}

}  // namespace nntile::test::simt
