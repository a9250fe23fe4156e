#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Standard streams, whatever they are, and what is said on them.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "nntile/core/error.hh"
#include "nntile/io/quotes.hh"
#include "nntile/io/safetensors_header.hh"

namespace gpt2 {

/// The exit status, behind all that was printed. Throws Error where it could not be.
inline int printed(int status) {
  errno = 0;  // else of whatever failed last
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw nntile::Error(nntile::concat(
        "standard output: ", errno == 0 ? "an earlier write failed" : std::strerror(errno),
        "; what was to be printed is not complete"));
  return status;
}

/// Takes the numbers of standard streams that are closed, which else the next files get: what is
/// printed would go into those. Whatever is written to them fails, as it does to a closed one.
inline void keep_streams_apart() {
  int descriptor = 0;
  while ((descriptor = ::open("/dev/null", O_RDONLY)) >= 0 && descriptor <= STDERR_FILENO) {
  }
  if (descriptor > STDERR_FILENO) ::close(descriptor);
}

/// Says on stderr why the program ends, in one line whatever is in a name.
inline void say_in_one_line(std::string const& rank, char const* why) {
  std::string line;
  if (std::string_view const text = why; std::ranges::any_of(text, nntile::io::is_control))
    nntile::io::detail::append_printable(line, text);  // else no memory, which may be what lacks
  std::fprintf(stderr, "gpt2: %s%s\n", rank.c_str(), line.empty() ? why : line.c_str());
}

}  // namespace gpt2
