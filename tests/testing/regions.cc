// SPDX-License-Identifier: BSD-3-Clause
// The battery finds what a runtime does wrong with regions.
#include "nntile/runtime/regions.hh"

#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "nntile/runtime/ring/nest.hh"
#include "nntile/runtime/serial/nest.hh"
#include "nntile/testing/conformance.hh"
#include "tests/support/catch.hh"

namespace {

using namespace nntile;

enum class Mistake {
  none,
  forgets_order,      // tasks on regions are in no order
  counts_as_written,  // the first task on a region writes all of the buffer
  marks_whole,        // a failed task on a region marks all of the buffer
  locks_nothing,      // a lock of a region makes no byte out of bounds
  keeps_regions,      // a region whose buffer was retired goes on as that of another
  clips_regions,      // a region that ends behind its buffer ends with it
  finds_nothing,      // no address is in a buffer
  moves_regions       // a region of a region counts from the buffer's first byte
};

/// A runtime with a mistake: what a call is to do wrong is done right with other arguments.
template <class R> class Mistaken : public R {
 public:
  using Handle = typename R::Handle;
  Mistaken(Mistake mistake, RuntimeOptions const& options) : R(options), mistake_(mistake) {}

  Handle region(Handle handle, Region const& region) {
    Region asked = region;
    Part const* const outer = part_of(handle);
    if (outer != nullptr && is(Mistake::moves_regions)) handle = outer->whole;
    if (outer != nullptr && is(Mistake::keeps_regions)) return handle;
    for (; is(Mistake::clips_regions) && asked.bytes > 0; --asked.bytes) try {
        return add(handle, asked);
      } catch (ValueError const&) {
      }
    return add(handle, asked);
  }
  Handle find(void const* address) {
    return is(Mistake::finds_nothing) ? Handle{} : R::find(address);
  }
  Event submit(Task<Handle> const& task) {
    std::vector<Use<Handle>> uses(task.uses.begin(), task.uses.end());
    for (std::size_t i = 0; i < task.uses.size(); ++i) {
      Part const* const part = part_of(uses[i].handle);
      if (part == nullptr) continue;
      if (is(Mistake::forgets_order)) uses[i].access = Access::unordered;
      if (is(Mistake::counts_as_written)) uses.push_back({part->whole, Access::unordered});
      if (is(Mistake::marks_whole)) uses.push_back({part->whole, Access::accumulate});
    }
    Task<Handle> changed = task;
    changed.uses = uses;
    return R::submit(changed);
  }
  std::span<std::byte> lock(Handle handle, Access access) {
    auto const bytes = R::lock(handle, access);
    if (part_of(handle) != nullptr && is(Mistake::locks_nothing)) R::unlock(handle);
    return bytes;
  }
  void unlock(Handle handle) {
    if (part_of(handle) == nullptr || !is(Mistake::locks_nothing)) R::unlock(handle);
  }

 private:
  struct Part {
    Handle handle, whole;
  };
  bool is(Mistake mistake) const { return mistake_ == mistake; }
  Handle add(Handle whole, Region const& region) {
    Handle const handle = R::region(whole, region);
    if (Part const* const outer = part_of(whole)) whole = outer->whole;
    if (!(handle == whole)) parts_.push_back({handle, whole});
    return handle;
  }
  Part const* part_of(Handle handle) const {
    for (Part const& part : parts_)
      if (part.handle == handle) return &part;
    return nullptr;
  }

  Mistake const mistake_;
  std::vector<Part> parts_;
};

template <class R> testing::Report run(Mistake mistake, std::string const& only) {
  testing::ConformanceOptions options;
  options.rounds = std::is_same_v<R, Ring> ? 4 : 1;
  options.only = only;
  return testing::conformance(
      [=](RuntimeOptions const& asked) { return Mistaken<R>(mistake, asked); }, options);
}

}  // namespace

TEST_CASE("the battery finds what goes wrong with regions", "[testing][regions]") {
  struct {
    Mistake mistake;
    char const* check;
  } const expectations[] = {
      {Mistake::counts_as_written, "a buffer may be written region by region"},
      {Mistake::marks_whole, "a mark lies on the bytes"},
      {Mistake::locks_nothing, "a lock of a region is one of its bytes"},
      {Mistake::keeps_regions, "a region ends with its buffer"},
      {Mistake::clips_regions, "a region that ends behind its buffer"},
      {Mistake::finds_nothing, "an address names the buffer"},
      {Mistake::moves_regions, "tasks on regions keep their order"},
  };
  for (auto const& [mistake, check] : expectations) {
    INFO(static_cast<int>(mistake) << ", " << check);
    CHECK(run<Serial>(Mistake::none, check).passed());
    CHECK(run<Serial>(mistake, check).failed() == 1);
  }
}

TEST_CASE("the battery finds tasks on regions that are in no order", "[testing][regions]") {
  for (char const* const check :
       {"tasks on regions keep their order", "tasks on regions that share no byte",
        "random programs over regions"}) {
    INFO(check);
    CHECK(run<Ring>(Mistake::none, check).passed());
    CHECK(run<Ring>(Mistake::forgets_order, check).failed() == 1);
  }
}
