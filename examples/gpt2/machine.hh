#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Peaks of the machine and memory of the process, for the progress line.

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "nntile/core/error.hh"
#include "nntile/core/shape.hh"
#include "nntile/ops/kernel.hh"

namespace gpt2 {

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// fp32 multiply-add peak of one core in flop/s, the best of five short runs; 0 where it cannot be
/// measured.
inline double core_peak(nntile::Isa isa) {
  auto const* const codelet = nntile::kernels::find(
      "fma_peak", nntile::DType::fp32, nntile::DType::fp32, nntile::Mode::exact,
      isa == nntile::Isa::best ? nntile::kernels::best() : isa);
  if (codelet == nullptr) return 0;
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    std::int64_t const iterations = 2'000'000;
    double flops = 0;
    float sink = 0;
    void* const buffers[] = {&flops, &sink};
    char text[nntile::status_text_bytes];
    double const begin = seconds_now();
    codelet->cpu({buffers, &iterations, text});
    best = std::max(best, flops / (seconds_now() - begin));
  }
  return best;
}

/// How fast a run computes: as a share of the host's peak, or, where devices compute, by itself.
inline std::string speed_text(double flops, double peak, bool on_host) {
  char text[32];
  if (on_host)
    std::snprintf(text, sizeof text, "%.0f %% of peak", peak > 0 ? 100 * flops / peak : 0.0);
  else
    std::snprintf(text, sizeof text, "%.1f %s", flops * (flops < 1e12 ? 1e-9 : 1e-12),
                  flops < 1e12 ? "Gflop/s" : "Tflop/s");
  return text;
}

/// Bytes per second of one core's triad a = b + s c over arrays beyond any cache, reads and writes
/// counted once; the best of five.
inline double core_triad() {
  constexpr std::size_t n = std::size_t{8} << 20;
  std::vector<float> a(n), b(n, 1.0f), c(n, 2.0f);
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    double const begin = seconds_now();
    for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + 3.0f * c[i];
    best = std::max(best, 3.0 * n * sizeof(float) / (seconds_now() - begin));
    b[static_cast<std::size_t>(round)] = a[n / 2];  // so that no round is left out
  }
  return best;
}

/// Bytes of a core's own cache; 1 MiB if unavailable.
inline nntile::Index core_cache() {
  long const bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? bytes : nntile::Index{1} << 20;
}

/// Bytes of memory that the process holds now, as the kernel counts them; 0 if unavailable.
inline std::size_t resident_bytes() {
  std::size_t kilobytes = 0;
  if (std::FILE* const file = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "VmRSS: %zu", &kilobytes) == 1) break;
    std::fclose(file);
  }
  return kilobytes * 1024;
}

/// Bytes that the machine can still give, as the kernel estimates them; 0 if unavailable.
inline std::size_t available_bytes() {
  std::size_t kilobytes = 0;
  if (std::FILE* const file = std::fopen("/proc/meminfo", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr)
      if (std::sscanf(line, "MemAvailable: %zu", &kilobytes) == 1) break;
    std::fclose(file);
  }
  return kilobytes * 1024;
}

/// Columns of the terminal that a descriptor is of; 0 if unavailable.
inline int terminal_columns(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// "1.5 GB", "23 MB".
inline std::string readable_bytes(double bytes) {
  char text[32];
  if (bytes >= 1e12)
    std::snprintf(text, sizeof text, "%.1f TB", bytes / 1e12);
  else if (bytes >= 1e9)
    std::snprintf(text, sizeof text, "%.1f GB", bytes / 1e9);
  else if (bytes >= 1e6)
    std::snprintf(text, sizeof text, "%.0f MB", bytes / 1e6);
  else
    std::snprintf(text, sizeof text, "%.0f kB", bytes / 1e3);
  return text;
}

/// "1:02:03", "2:03".
inline std::string readable_time(double seconds) {
  constexpr double most = 9e18;  // that a number of seconds may be
  auto const whole = static_cast<long>(std::min(std::max(0.0, seconds), most) + 0.5);
  char text[32];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

}  // namespace gpt2
