#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Whether threads that have nothing to do leave the cores alone, on a machine that may be busy.

#include <time.h>

#include <chrono>
#include <thread>

namespace nntile::test {

/// CPU seconds that this process has used.
inline double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// CPU seconds that this process uses until it uses less than a tenth of a core for 20 ms; a second
/// of them are too many. On a busy machine threads fall asleep late, having used no more for it.
inline double cpu_until_quiet() {
  double const begin = cpu_seconds();
  for (double before = begin;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    double const now = cpu_seconds();
    if (now - before < 0.002) return before - begin;
    if (now - begin > 1) return now - begin;
    before = now;
  }
}

}  // namespace nntile::test
