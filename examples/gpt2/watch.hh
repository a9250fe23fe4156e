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
#include "signals.hh"

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
/// minute, or MPI has failed on this rank alone; and, where it was asked to end, when a step does
/// not, or it is asked again. With one rank it does nothing.
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

  /// Where a run can go on from; "" before there is a checkpoint.
  void saves_in(std::string const& folder) {
    std::lock_guard const guard(mutex_);
    moved_ = seconds_now();
    if (said_ && folder_ == folder) return;
    said_ = true;
    folder_ = folder;
    if (world_.size() > 1)
      LastWords::set(nntile::concat("gpt2: ", world_.name(),
                                    "aborted by MPI, as where another rank has died in the middle ",
                                    "of a message", advice(), "\n"));
  }
  void begin(std::int64_t step) {
    std::lock_guard const guard(mutex_);
    step_ = step, began_ = moved_ = seconds_now(),
    patience_ = std::max(least_patience, 10 * usual_);
  }
  void end() {
    std::lock_guard const guard(mutex_);
    double const took = seconds_now() - began_;
    usual_ = usual_ == 0 ? took : 0.9 * usual_ + 0.1 * took;
    step_ = none, moved_ = seconds_now();
  }
  /// Something has ended that is no step.
  void moves() {
    std::lock_guard const guard(mutex_);
    moved_ = seconds_now();
  }

 private:
  static constexpr double least_patience = 5;  // seconds
  static constexpr double grace = 10;
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
        if (!has_the_word(guard)) return;
        LastWords::unset();
        std::fprintf(stderr, "gpt2: %srank %d (process %ld) has died%s\n", world_.name().c_str(),
                     dead->rank, dead->process, advice().c_str());
        world_.abort(4);
      }
      if (cannot_end()) {
        if (!has_the_word(guard)) return;
        if (!cannot_end()) continue;  // it could, meanwhile
        LastWords::unset();
        std::fprintf(stderr, "gpt2: %s%s; %s%s\n", world_.name().c_str(), asked().c_str(),
                     waits().c_str(), advice().c_str());
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
  /// The ranks below have the first word: one line, not one from each. Returns false where the job
  /// has ended meanwhile.
  bool has_the_word(std::unique_lock<std::mutex>& guard) {
    return !wake_.wait_for(guard, std::chrono::milliseconds(500 * std::min(world_.rank(), 5)),
                           [this] { return ended_; });
  }
  /// Whether the run, which was asked to end, is ended here: it was asked again, or nothing has
  /// ended for a while, and it is another rank that this one waits for.
  bool cannot_end() const {
    if (!EndSignals::asked()) return false;
    if (EndSignals::asked_again()) return true;
    double const since = std::max(EndSignals::first_time(), moved_);
    return seconds_now() - since > std::max(grace, 2 * usual_) && !world_.waiting().empty();
  }
  std::string asked() const {
    std::string const where =
        step_ == none ? "between two steps" : nntile::concat("in step ", step_);
    if (EndSignals::asked_again()) return "asked to end a second time, " + where;
    auto const ago = static_cast<int>(seconds_now() - EndSignals::first_time());
    return nntile::concat("asked to end ", ago, " s ago, and nothing ends ", where);
  }
  /// What this rank waits for.
  std::string waits() const {
    auto const waiting = world_.waiting();
    if (waiting.empty()) return "it waits for no other rank";
    return nntile::concat(
        "it waits for ", nntile::describe(waiting.front()),
        waiting.size() < 2 ? "" : nntile::concat(", and for ", waiting.size() - 1, " more"));
  }
  /// How a run goes on, once there is one.
  std::string advice() const {
    if (folder_.empty()) return {};
    return nntile::concat("; the last checkpoint in '", folder_,
                          "' is whole, go on with --resume on any number of ranks");
  }
  void report(double waited) const {
    std::fprintf(stderr, "gpt2: %sstep %lld takes %.0f s, usually %.1f s; %s\n",
                 world_.name().c_str(), static_cast<long long>(step_), waited, usual_,
                 waits().c_str());
  }

  World const& world_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string folder_;
  std::int64_t step_ = none;
  double began_ = 0, usual_ = 0, patience_ = least_patience;
  double moved_ = seconds_now();  // when something ended last
  bool ended_ = false, silence_said_ = false, said_ = false;
  std::thread thread_;
};

}  // namespace gpt2
