#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A thread of a check, whose exceptions fail the check instead of ending the process.

#include <exception>
#include <thread>
#include <utility>

namespace nntile::testing {

/// Runs `body` once. Destruction waits for it, and forgets what it threw.
class CheckThread {
 public:
  template <class Body>
  explicit CheckThread(Body body)
      : thread_([this, body = std::move(body)] {
          try {
            body();
          } catch (...) {
            thrown_ = std::current_exception();
          }
        }) {}
  CheckThread(CheckThread const&) = delete;
  CheckThread& operator=(CheckThread const&) = delete;
  ~CheckThread() {
    if (thread_.joinable()) thread_.join();
  }
  /// Waits for the body, and throws what it threw. Once.
  void join() {
    thread_.join();
    if (thrown_ != nullptr) std::rethrow_exception(thrown_);
  }

 private:
  std::exception_ptr thrown_;
  std::thread thread_;  // last: it uses the other
};

}  // namespace nntile::testing
