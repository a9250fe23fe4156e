#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What the body of a task submits into, with the handles of a facade.

#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/nested.hh"

namespace nntile::testing::detail {

/// Forwards to the Nested of a runtime. H is {number}: those of the operands are the runtime's, and
/// what the body allocates counts down from the largest.
template <class Own, class H> class RenamedNest final : public support::NestedCalls<H> {
 public:
  using Names = std::vector<std::pair<H, Own>>;

  /// Runs a body with these names for its operands; what it throws comes out.
  static NestingBody<Own> rename(NestingBody<H>&& body, Names names) {
    return [body = std::move(body), names = std::move(names)](Nested<Own>& nested) mutable {
      RenamedNest calls(nested, std::move(names));
      Nested<H> renamed(calls, calls.begin_body());
      std::string const cause = body.run(renamed);
      if (!cause.empty()) throw std::runtime_error(cause);
    };
  }

  H allocate(std::size_t bytes) override {
    H const handle{next_--};
    names_.push_back({handle, nested_.allocate(bytes)});
    return handle;
  }
  void retire(H handle) override { nested_.retire(own(handle)); }
  Event submit(Task<H> const& task) override {
    auto const uses = own(task.uses);
    return nested_.submit(
        Task<Own>{task.codelet, uses, task.arguments, task.hints, task.label, task.cost});
  }
  Event submit_nesting(NestingTask<H>&& task) override {
    auto const uses = own(task.uses);
    Names names;
    for (std::size_t i = 0; i < uses.size(); ++i)
      names.push_back({task.uses[i].handle, uses[i].handle});
    return nested_.submit_nesting(
        {rename(std::move(task.body), std::move(names)), uses, task.hints, task.label});
  }
  void wait(Event event) override { nested_.wait(event); }
  bool done(Event event) override { return nested_.done(event); }
  void wait_all() override { nested_.wait_all(); }
  std::span<std::byte> lock(H handle, Access access) override {
    return nested_.lock(own(handle), access);
  }
  void unlock(H handle) override { nested_.unlock(own(handle)); }

 private:
  RenamedNest(Nested<Own>& nested, Names&& names) : nested_(nested), names_(std::move(names)) {
    for (auto const& [name, its] : names_)
      if (name.number > UINT32_MAX / 2 && name.number <= next_) next_ = name.number - 1;
  }

  /// A default handle for one that this body cannot know.
  Own own(H handle) const {
    for (auto const& [name, its] : names_)
      if (name.number == handle.number) return its;
    return Own{};
  }
  std::vector<Use<Own>> own(std::span<Use<H> const> uses) const {
    std::vector<Use<Own>> result;
    for (Use<H> const& use : uses) result.push_back({own(use.handle), use.access});
    return result;
  }

  Nested<Own>& nested_;
  Names names_;
  std::uint32_t next_ = UINT32_MAX;  // below those of outer bodies
};

}  // namespace nntile::testing::detail
