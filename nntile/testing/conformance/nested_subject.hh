#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The runtime that a task's body submits into, its type forgotten as that of the runtime under
// test.

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nntile/runtime/nested.hh"
#include "nntile/runtime/nested_target.hh"

namespace nntile::testing {

/// The calls of some Nested; H is {number}.
template <class H> struct NestedFacade : support::NestedCalls, support::NestedTarget<H> {
  using Handle = H;

  virtual Event submit_nesting(NestingTask<NestedFacade>&& task) = 0;

 protected:
  ~NestedFacade() = default;
};

namespace detail {

/// Forwards to the Nested of a runtime, an N. The names of operands are the runtime's, and what the
/// body allocates counts down from the largest.
template <class N, class H> class RenamedNest final : public NestedFacade<H> {
  using Facade = NestedFacade<H>;

 public:
  using Own = typename N::Handle;
  using Names = std::vector<std::pair<H, Own>>;

  /// Runs a body with these names for its operands; what it throws comes out.
  static void run(N& nested, NestingBody<Facade>& body, Names&& names) {
    RenamedNest calls(nested, std::move(names));
    Nested<Facade> renamed(calls, calls.begin_body());
    std::string const cause = body.run(renamed);
    if (!cause.empty()) throw std::runtime_error(cause);
  }

  H allocate(std::size_t bytes, Place place, Lifetime lifetime) override {
    Own const its = nested_.allocate(bytes, place, lifetime);
    names_.push_back({H{next_}, its});
    return {next_--};
  }
  void retire(H handle) override { nested_.retire(own(handle)); }
  ScopeName open_scope(Lifetime lifetime, CallSite site) override {
    return nested_.open_scope(lifetime, site);
  }
  void close_scope(Lifetime lifetime, ScopeName name) override {
    nested_.close_scope(lifetime, name);
  }
  Event submit(Task<H> const& task) override {
    auto const uses = own(task.uses);
    return nested_.submit(
        Task<Own>{task.codelet, uses, task.arguments, task.hints, task.label, task.cost});
  }
  Event submit_nesting(NestingTask<Facade>&& task) override {
    auto const uses = own(task.uses);
    Names names;
    for (std::size_t i = 0; i < uses.size(); ++i)
      names.push_back({task.uses[i].handle, uses[i].handle});
    return nested_.submit_nesting([body = std::move(task.body), names = std::move(names)](
                                      N& nested) mutable { run(nested, body, std::move(names)); },
                                  uses, task.hints, task.label);
  }
  void wait(Event event) override { nested_.wait(event); }
  bool done(Event event) override { return nested_.done(event); }
  void wait_all() override { nested_.wait_all(); }
  std::span<std::byte> lock(H handle, Access access) override {
    return nested_.lock(own(handle), access);
  }
  void unlock(H handle) override { nested_.unlock(own(handle)); }

 private:
  RenamedNest(N& nested, Names&& names) : nested_(nested), names_(std::move(names)) {
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

  N& nested_;
  Names names_;
  std::uint32_t next_ = UINT32_MAX;  // below those of outer bodies
};

}  // namespace detail

}  // namespace nntile::testing
