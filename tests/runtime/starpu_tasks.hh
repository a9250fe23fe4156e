// SPDX-License-Identifier: BSD-3-Clause
#pragma once
// Tasks on a long for tests of what is StarPU's own.

#include <stdlib.h>

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "nntile/runtime/starpu/starpu.hh"

namespace nntile::test::on_starpu {

using Uses = std::vector<Use<DataHandle>>;

inline Status clear(KernelCall const& call) noexcept {
  *static_cast<long*>(call.buffers[0]) = 0;
  return {};
}
inline Status increment(KernelCall const& call) noexcept {
  ++*static_cast<long*>(call.buffers[0]);
  return {};
}
inline constexpr Codelet clear_codelet{"clear", clear, nullptr, nullptr};
inline constexpr Codelet increment_codelet{"increment", increment, nullptr, nullptr};

inline Event submit(StarPU& runtime, Codelet const& codelet, Uses const& uses) {
  return runtime.submit({&codelet, uses, {}, {}, {}});
}

/// Sets an environment variable while it lives.
class Variable {
 public:
  Variable(char const* name, char const* value) : name_(name) {
    if (char const* const old = getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }
  Variable(Variable const&) = delete;
  Variable& operator=(Variable const&) = delete;

 private:
  char const* name_;
  std::optional<std::string> old_;
};

inline long value_of(StarPU& runtime, DataHandle handle) {
  long value;
  std::memcpy(&value, runtime.lock(handle, Access::read).data(), sizeof value);
  runtime.unlock(handle);
  return value;
}

}  // namespace nntile::test::on_starpu
