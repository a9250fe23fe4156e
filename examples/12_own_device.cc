// SPDX-License-Identifier: BSD-3-Clause
// An accelerator of your own: say how to allocate, launch and look for the end, and every runtime
// drives it. The battery says whether it keeps the law.
#include <cfenv>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <nntile/core/copy.hh>
#include <nntile/nntile.hh>
#include <nntile/runtime/ring/nest.hh>
#include <nntile/testing/conformance.hh>
#include <nntile/testing/device.hh>
#include <string>
#include <thread>

using namespace nntile;

/// One device with one stream: a thread that runs the CPU's kernels. Where yours has a queue of its
/// own, `launch` and `mark` put something there, and `query` reads a word that the device writes.
class MyDevice {
 public:
  static constexpr bool exists = true;
  // Yours may do without: it is faster where kernels may run on what a failed one has left. The
  // battery counts the runs of each, and of a task behind a failed one there shall be none.
  static constexpr bool runs_ahead = false;
  ~MyDevice() {
    push({});
    thread_.join();
  }
  int devices() const { return 1; }
  int lanes() const { return 1; }
  bool runs(Codelet const& codelet) const { return codelet.cpu != nullptr; }

  void* allocate(std::size_t bytes, Place place) {
    void* const memory = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (memory == nullptr)
      throw OutOfMemory(concat("my device: no ", bytes, " bytes on ", to_string(place)));
    return memory;
  }
  void free(void* memory, std::size_t, Place) noexcept { std::free(memory); }
  void* reach(void* memory) noexcept { return memory; }  // the host sees it: it may be locked

  Status launch(Stream, DeviceJob const& job, char*) noexcept {
    push([this, job] {
      std::fesetenv(FE_DFL_ENV);  // whatever the thread that made this one had set
      char text[status_text_bytes];
      Status const status = job.codelet.cpu({job.buffers.data(), job.arguments, text, workspace_});
      if (!status.ok()) failure_ = status.error;
    });
    return {};
  }
  std::uint64_t mark(Stream) noexcept {
    std::uint64_t const number = ++marks_;
    push([this, number] {
      std::lock_guard const lock(mutex_);
      if (!failure_.empty()) failures_[number] = std::exchange(failure_, {});
      reached_ = number;
    });
    return number;
  }
  StreamProgress query(Stream, std::uint64_t mark, char* text) noexcept {
    std::lock_guard const lock(mutex_);
    if (reached_ < mark) return StreamProgress::running;
    auto const found = failures_.find(mark);
    if (found == failures_.end()) return StreamProgress::ended;
    std::strncpy(text, found->second.c_str(), status_text_bytes - 1);
    return StreamProgress::failed;
  }
  void wait(Stream, Stream, std::uint64_t) noexcept {}  // there is one stream

 private:
  using Work = std::function<void()>;
  void push(Work work) {
    std::lock_guard const lock(mutex_);
    queue_.push_back(std::move(work));
    changed_.notify_one();
  }
  void run() {
    for (std::unique_lock lock(mutex_);; lock.lock()) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      Work const work = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }
  alignas(64) std::byte workspace_[max_workspace_bytes];  // for kernels that need some
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t marks_ = 0, reached_ = 0;
  std::string failure_;                            // of a job behind the last mark
  std::map<std::uint64_t, std::string> failures_;  // by mark
  std::thread thread_{[this] { run(); }};
};
static_assert(RequiredDevice<MyDevice>);
struct MyPolicy : RingPolicy {
  using Device = MyDevice;
};
using MyRing = BasicRing<MyPolicy>;

int main() {
  MyRing runtime;
  float values[] = {1, 2, 3};
  std::int64_t const bytes = sizeof values;
  auto const here = runtime.adopt(std::as_writable_bytes(std::span(values)));
  auto const there = runtime.allocate(sizeof values, {Place::Kind::device, 0});
  auto const copy = [&](auto from, auto to) {
    Use<DataHandle> const uses[] = {{from, Access::read}, {to, Access::write}};
    runtime.submit({&copy_codelet, uses, std::as_bytes(std::span(&bytes, 1)), {}, {}});
  };
  constexpr static Codelet twice{.name = "twice", .cpu = [](KernelCall const& call) noexcept {
                                   for (int i = 0; i < 3; ++i)
                                     static_cast<float*>(call.buffers[0])[i] *= 2;
                                   return Status{};
                                 }};
  Use<DataHandle> const update[] = {{there, Access::update}};
  copy(here, there);
  runtime.submit({&twice, update, {}, {}, {}});  // on the device, where its buffer is
  copy(there, here);
  runtime.wait_all();
  std::printf("twice 3 = %g\n", static_cast<double>(values[2]));

  // With buffers in all places in turn.
  auto const make = [](RuntimeOptions const& o) { return testing::Scattered<MyRing>(o); };
  auto const report = testing::conformance(make, {.max_workers = 2, .rounds = 1, .heavy = false});
  std::printf("%s", to_string(report).c_str());
  return report.passed() ? 0 : 1;
}
