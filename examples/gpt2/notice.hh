#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A row on a terminal while a plan is made.

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "machine.hh"

namespace gpt2 {

/// Says on stderr, if that is a terminal, that planning takes long, once it does, and how much
/// memory the process has by then. The row is gone behind it.
class PlanningNotice {
 public:
  explicit PlanningNotice(std::string const& graph) {
    if (isatty(STDERR_FILENO)) thread_ = std::thread([this, graph] { loop(graph); });
  }
  PlanningNotice(PlanningNotice const&) = delete;
  PlanningNotice& operator=(PlanningNotice const&) = delete;
  ~PlanningNotice() {
    if (!thread_.joinable()) return;
    {
      std::lock_guard const guard(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

 private:
  void loop(std::string const& graph) {
    std::unique_lock guard(mutex_);
    int seconds = 0;
    while (!wake_.wait_for(guard, std::chrono::seconds(1), [this] { return ended_; })) {
      ++seconds;
      std::string const text = nntile::concat("planning '", graph, "', ", seconds, " s, ",
                                              readable_bytes(static_cast<double>(resident_bytes())),
                                              "; larger tiles take less: --tile 0");
      // The next one replaces it, which it can in one row.
      std::fprintf(stderr, "\r\033[K%.*s", terminal_columns(STDERR_FILENO) - 1, text.c_str());
      std::fflush(stderr);
    }
    if (seconds > 0) std::fprintf(stderr, "\r\033[K");
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace gpt2
