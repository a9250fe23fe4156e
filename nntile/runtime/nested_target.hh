#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The calls of what a body submits into, whose type is forgotten.

#include <cstddef>
#include <span>

#include "nntile/core/codelet.hh"
#include "nntile/runtime/concept.hh"

namespace nntile::support {

/// All but `submit_nesting`, whose body's argument differs.
template <class H> struct NestedTarget {
  virtual H allocate(std::size_t bytes, Place place, Lifetime lifetime) = 0;
  virtual void retire(H handle) = 0;
  virtual ScopeName open_scope(Lifetime lifetime, CallSite site) = 0;
  virtual void close_scope(Lifetime lifetime, ScopeName name) = 0;
  virtual Event submit(Task<H> const& task) = 0;
  virtual void wait(Event event) = 0;
  virtual bool done(Event event) = 0;
  virtual void wait_all() = 0;
  virtual std::span<std::byte> lock(H handle, Access access) = 0;
  virtual void unlock(H handle) = 0;

 protected:
  ~NestedTarget() = default;
};

}  // namespace nntile::support
