#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The errors of the PTO calls: which code a typed error has, and the first one of a runtime.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"
#include "nntile/runtime/link.hh"
#include "nntile/runtime/ring/pto.h"

namespace nntile::detail::pto {

/// A code, its name, and the errors that have it.
struct CodeRow {
  PtoCode code;
  char const* name;
  bool (*is)(std::exception const&);
};

template <class... Errors> bool is_any(std::exception const& error) {
  return (... || (dynamic_cast<Errors const*>(&error) != nullptr));
}

/// Those of derived errors stand before those of their bases.
inline constexpr CodeRow code_rows[] = {
    {PTO_OK, "PTO_OK", is_any<>},
    {PTO_NO_RUNTIME, "PTO_NO_RUNTIME", is_any<>},
    {PTO_WRONG_THREAD, "PTO_WRONG_THREAD", is_any<support::DrivenElsewhere>},
    {PTO_BAD_LIFETIME, "PTO_BAD_LIFETIME", is_any<LifetimeError>},
    {PTO_BAD_VALUE, "PTO_BAD_VALUE", is_any<ValueError>},
    {PTO_DEADLOCK, "PTO_DEADLOCK", is_any<DeadlockError>},
    {PTO_OUT_OF_MEMORY, "PTO_OUT_OF_MEMORY", is_any<OutOfMemory, std::bad_alloc>},
    {PTO_TASK_FAILED, "PTO_TASK_FAILED", is_any<TaskError>},
    {PTO_INTERNAL, "PTO_INTERNAL", is_any<std::exception>},
};

inline char const* name_of_code(std::int32_t code) {
  for (CodeRow const& row : code_rows)
    if (row.code == code) return row.name;
  return "?";
}

inline PtoCode code_of(std::exception const& error) {
  for (CodeRow const& row : code_rows)
    if (row.is(error)) return row.code;
  return PTO_INTERNAL;
}

/// Names in errors of the ring, and in C, which are no longer. Longer ones come first.
inline constexpr char const* names_in_c[][2] = {
    {"RingCapacities::buffers", "PtoOptions.max_buffers"},
    {"RingCapacities::records", "PtoOptions.max_buffers"},
    {"RingCapacities::tokens", "PtoOptions.max_buffers"},
    {"(RingCapacities)", "(PtoOptions)"},
};
inline void use_names_in_c(char* text) noexcept {
  for (auto const& [ours, theirs] : names_in_c)
    while (char* const at = std::strstr(text, ours)) {
      std::size_t const length = std::strlen(theirs);
      char const* const rest = at + std::strlen(ours);
      std::memcpy(at, theirs, length);
      std::memmove(at + length, rest, std::strlen(rest) + 1);
    }
}

/// Writes code and text of the exception that is being handled.
inline void describe_current(PtoError& result) noexcept {
  try {
    throw;
  } catch (std::exception const& error) {
    result.code = code_of(error);
    (void)std::snprintf(result.message, sizeof result.message, "%s", error.what());
    use_names_in_c(result.message);
  } catch (...) {
    result.code = PTO_INTERNAL;
    (void)std::snprintf(result.message, sizeof result.message, "an exception of unknown type");
  }
}

/// The first error since the last `clear`. Every member may be called from any thread. The text
/// stays where it is until then, so that the caller may read it without a lock.
class FirstError {
 public:
  /// Keeps the exception that is being handled, if it is the first, and gives its code.
  std::int32_t note_current() noexcept {
    PtoError found;
    describe_current(found);
    Lock guard(mutex_);
    if (kept_.code == PTO_OK) kept_ = found;
    return found.code;
  }
  void clear() noexcept {
    Lock guard(mutex_);
    kept_.code = PTO_OK;
  }
  std::int32_t code() noexcept {
    Lock guard(mutex_);
    return kept_.code;
  }
  char const* message() noexcept {
    Lock guard(mutex_);
    return kept_.code == PTO_OK ? "" : kept_.message;  // another thread may write there soon
  }

 private:
  Mutex mutex_;
  PtoError kept_{};
};

}  // namespace nntile::detail::pto
