#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Failures of tasks that run in a codelet of another name.

#include <cstdio>
#include <cstring>

#include "nntile/core/codelet.hh"

namespace nntile::detail {

/// The name of a task in errors; a codelet may have none.
inline char const* name_of_task(Codelet const* codelet) {
  return codelet != nullptr && codelet->name != nullptr ? codelet->name : "task";
}

/// A failure with the name of its task before its cause, which may be in `text` itself.
inline Status named_failure(Codelet const& codelet, Status status, char* text) noexcept {
  char const mark[] = {status.error[0] == cancelled_mark ? cancelled_mark : '\0',
                       0};  // stays first
  char words[status_text_bytes];
  (void)std::snprintf(words, sizeof words, "%s%s: %s", mark, name_of_task(&codelet),
                      status.error + (mark[0] != 0 ? 1 : 0));
  std::memcpy(text, words, std::strlen(words) + 1);
  return {text};
}

}  // namespace nntile::detail
