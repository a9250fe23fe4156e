#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A thread that looks after a rank: what a long step waits for, and whether another rank has died.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "machine.hh"
#include "ranks.hh"

namespace gpt2 {

/// What a rank says when it is aborted from within: MPICH's UCX does that, before anyone can look,
/// where another rank dies while its memory is being read.
class LastWords {
 public:
  static void set(std::string const& text) {
    std::snprintf(text_, sizeof text_, "%s", text.c_str());
    std::signal(SIGABRT, [](int) {
      if (::write(STDERR_FILENO, text_, std::strlen(text_)) < 0) return;
    });
  }
  static void unset() { std::signal(SIGABRT, SIG_DFL); }

 private:
  inline static char text_[4096];
};

/// Says on stderr what this rank waits for when a step takes ten times its usual time, and ends the
/// job when a rank of this host or of the next one has died, or that one is silent for half a
/// minute, or MPI has failed on this rank alone. With one rank it does nothing.
class Watch {
 public:
  explicit Watch(World const& world) : world_(world) {
    if (world.size() == 1) return;
    saves_in("");
    thread_ = std::thread([this] { loop(); });
  }
  Watch(Watch const&) = delete;
  Watch& operator=(Watch const&) = delete;
  ~Watch() {
    if (!thread_.joinable()) return;
    LastWords::unset();
    {
      std::lock_guard const guard(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  /// Where a run can go on from; "" before there is one.
  void saves_in(std::string const& folder) {
    std::lock_guard const guard(mutex_);
    folder_ = folder;
    if (world_.size() > 1)
      LastWords::set(nntile::concat("gpt2: ", world_.name(),
                                    "aborted by MPI, as where another rank has died in the middle ",
                                    "of a message", advice(), "\n"));
  }
  void begin(std::int64_t step) {
    std::lock_guard const guard(mutex_);
    step_ = step, began_ = seconds_now(), patience_ = std::max(least_patience, 10 * usual_);
  }
  void end() {
    std::lock_guard const guard(mutex_);
    double const took = seconds_now() - began_;
    usual_ = usual_ == 0 ? took : 0.9 * usual_ + 0.1 * took;
    step_ = none;
  }

 private:
  static constexpr double least_patience = 5;  // seconds
  static constexpr double longest_silence = 30;
  static constexpr std::int64_t none = -1;

  void loop() {
    std::unique_lock guard(mutex_);
    while (!wake_.wait_for(guard, std::chrono::milliseconds(100), [this] { return ended_; })) {
      auto const* const beats = world_.beat();
      double const silent = beats == nullptr ? 0 : beats->silent();
      if (silent < least_patience) silence_said_ = false;
      if (silent > longest_silence || (silent > least_patience && !silence_said_)) {
        silence_said_ = true;
        std::fprintf(
            stderr,
            "gpt2: %srank %d (process %ld on '%s') is silent for %.0f s: its host is gone, "
            "it is stopped, or the network is cut%s\n",
            world_.name().c_str(), beats->peer()->process.rank, beats->peer()->process.process,
            beats->peer()->host.c_str(), silent, silent > longest_silence ? advice().c_str() : "");
        if (silent > longest_silence) LastWords::unset(), world_.abort(4);
      }
      if (auto const dead = world_.dead()) {
        // The ranks below have the first word: one line, not one from each.
        auto const below = std::min(world_.rank(), 5);
        if (wake_.wait_for(guard, std::chrono::milliseconds(500 * below),
                           [this] { return ended_; }))
          return;
        LastWords::unset();
        std::fprintf(stderr, "gpt2: %srank %d (process %ld) has died%s\n", world_.name().c_str(),
                     dead->rank, dead->process, advice().c_str());
        world_.abort(4);
      }
      if (std::string const why = world_.broken(); !why.empty()) {
        LastWords::unset();
        std::fprintf(stderr, "gpt2: %s%s%s\n", world_.name().c_str(), why.c_str(),
                     advice().c_str());
        world_.abort(4);
      }
      if (double const waited = seconds_now() - began_; step_ != none && waited > patience_) {
        patience_ *= 2;
        report(waited);
      }
    }
  }
  /// How a run goes on, once there is one.
  std::string advice() const {
    if (folder_.empty()) return {};
    return nntile::concat("; the last checkpoint in '", folder_,
                          "' is whole, go on with --resume on any number of ranks");
  }
  void report(double waited) const {
    auto const waiting = world_.waiting();
    std::fprintf(stderr, "gpt2: %sstep %lld takes %.0f s, usually %.1f s; %s%s\n",
                 world_.name().c_str(), static_cast<long long>(step_), waited, usual_,
                 waiting.empty() ? "it waits for no other rank"
                                 : ("it waits for " + nntile::describe(waiting.front())).c_str(),
                 waiting.size() < 2
                     ? ""
                     : nntile::concat(", and for ", waiting.size() - 1, " more").c_str());
  }

  World const& world_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string folder_;
  std::int64_t step_ = none;
  double began_ = 0, usual_ = 0, patience_ = least_patience;
  bool ended_ = false, silence_said_ = false;
  std::thread thread_;
};

}  // namespace gpt2
