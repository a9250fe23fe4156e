#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The way of a watchdog's thread to the object that hangs.

#include <mutex>

namespace nntile::test {

/// A member of T by which others reach the T that was made last, while it lives.
template <class T> class Newest {
 public:
  explicit Newest(T& mine) : mine_(&mine) {
    std::lock_guard const hold(mutex_);
    newest_ = mine_;
  }
  Newest(Newest const&) = delete;
  ~Newest() {
    std::lock_guard const hold(mutex_);
    if (newest_ == mine_) newest_ = nullptr;
  }

  template <class Function> static void visit(Function function) {
    std::lock_guard const hold(mutex_);
    if (newest_ != nullptr) function(*newest_);
  }

 private:
  static inline std::mutex mutex_;
  static inline T* newest_ = nullptr;
  T* const mine_;
};

}  // namespace nntile::test
