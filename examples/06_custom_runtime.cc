// SPDX-License-Identifier: BSD-3-Clause
// A runtime of your own: bring threads, and Engine makes a runtime of them. The battery says
// whether it keeps the law.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <nntile/nntile.hh>
#include <nntile/runtime/engine/nest.hh>
#include <nntile/testing/conformance.hh>
#include <thread>
#include <vector>

using namespace nntile;

class Threads {
 public:
  explicit Threads(RuntimeOptions const& options) : workers_(options.workers.value_or(2)) {
    int const spawned = options.own_driver ? workers_ : workers_ - 1;
    for (int i = 0; i < spawned; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Threads() {
    set(stop_, true);
    for (auto& thread : threads_) thread.join();
  }
  void spawn(Job job) {
    std::lock_guard const lock(mutex_);
    jobs_.push_back(job);
    changed_.notify_one();
  }
  bool help() {
    std::unique_lock lock(mutex_);
    if (jobs_.empty()) return false;
    Job const job = jobs_.front();
    jobs_.pop_front();
    lock.unlock();
    job();
    return true;
  }
  void on_idle(Job job) { set(idle_, job); }
  Workers workers() const { return {.cpu = workers_}; }

 private:
  template <class T> void set(T& variable, T value) {
    std::lock_guard const lock(mutex_);
    variable = value;
    changed_.notify_all();
  }
  void work() {
    using namespace std::chrono_literals;
    for (std::unique_lock lock(mutex_); !stop_; lock.lock()) {
      if (jobs_.empty()) changed_.wait_for(lock, idle_.call != nullptr ? 100us : 1s);
      Job const idle = jobs_.empty() ? idle_ : Job{};
      lock.unlock();
      if (!help() && idle.call != nullptr) idle();
    }
  }
  int const workers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  Job idle_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

int main() {
  Engine<Threads> runtime(RuntimeOptions{.workers = 2});
  Tile<float, Engine<Threads>> x(runtime, Shape{3}, "x"), y(runtime, Shape{3}, "y");
  x.write(std::vector{-1.0f, 0.0f, 1.0f});
  gelutanh(x, y);
  std::printf("gelutanh(1) = %.6f\n", static_cast<double>(y.read()[2]));

  auto const make = [](RuntimeOptions const& options) { return Engine<Threads>(options); };
  auto const report = testing::conformance(make, {.max_workers = 2, .rounds = 1});
  std::printf("%s", to_string(report).c_str());
  return report.passed() ? 0 : 1;
}
