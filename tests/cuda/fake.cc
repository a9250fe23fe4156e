// SPDX-License-Identifier: BSD-3-Clause
#include "tests/cuda/fake.hh"

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "nntile/core/random.hh"
#include "nntile/core/threads.hh"
#include "nntile/testing/device/memory.hh"

using nntile::testing::EmulatedMemory;

// A stream: a thread that runs work in order, now and then late.
struct CUstream_st {
  explicit CUstream_st(std::uint64_t seed)
      : delays(seed != 0), state(seed), thread([this] { run(); }) {}
  ~CUstream_st() {
    push({});
    thread.join();
  }
  void push(std::function<void()> work) {
    // A call has looked for errors before it queues its work, sometimes long before.
    thread_local std::uint64_t late = 1;
    if (delays && work && (late = nntile::mix_bits(late)) % 8 == 0)
      nntile::detail::sleep_ns(static_cast<std::int64_t>(late / 8 % 100'000));
    std::lock_guard const lock(mutex);
    queue.push_back(std::move(work));
    ++queued;
    changed.notify_all();
  }
  bool idle() {
    std::lock_guard const lock(mutex);
    return ended == queued;
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return ended == queued; });
  }
  void run() {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [this] { return !queue.empty(); });
      auto const work = std::move(queue.front());
      queue.pop_front();
      lock.unlock();
      if (delays && (state = nntile::mix_bits(state)) % 4 == 0)
        nntile::detail::sleep_ns(static_cast<std::int64_t>(state / 8 % 20'000));
      if (work) work();
      lock.lock();
      ++ended;
      changed.notify_all();
      if (!work) return;
    }
  }

  bool const delays;
  std::uint64_t state;  // the thread's own
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  std::uint64_t queued = 0, ended = 0;
  std::thread thread;
};
struct CUevent_st {
  bool timed = true;
  std::atomic<std::uint64_t> recorded{0}, reached{0};
  std::atomic<std::int64_t> time{0};  // of the last
};

namespace nntile::test::fake {
namespace {

struct State {
  Machine machine;
  std::uint64_t seed = 0;
  std::unique_ptr<EmulatedMemory> memory;
  std::mutex mutex;
  std::map<void*, std::size_t> pinned, there;
  std::atomic<int> jobs{0}, objects{0}, unpinned{0};
  int fails_at_job = 0;
  std::atomic<bool> broken{false}, holds{false}, held{false};
};
State& state() {
  static State the;
  return the;
}
thread_local cudaError_t last = cudaSuccess;

/// What a call says: once a kernel has failed, that.
cudaError_t says(cudaError_t error = cudaSuccess) {
  if (state().broken) error = cudaErrorIllegalAddress;
  if (error != cudaSuccess && error != cudaErrorNotReady) last = error;
  return error;
}
bool fails() {
  if (++state().jobs == state().fails_at_job) state().broken = true;
  return state().broken;
}

}  // namespace

Machine& machine() { return state().machine; }
void reset(Machine const& machine, std::uint64_t seed, int fails_at_job) {
  State& the = state();
  the.machine = machine;
  the.seed = seed;
  the.memory = std::make_unique<EmulatedMemory>(8, std::size_t{1} << 26);
  the.jobs = 0;
  the.unpinned = 0;
  the.fails_at_job = fails_at_job;
  the.broken = the.holds = the.held = false;
  last = cudaSuccess;
}
std::int64_t live_bytes() {
  std::int64_t sum = 0;
  for (auto const& [at, bytes] : state().pinned) sum += static_cast<std::int64_t>(bytes);
  for (auto const& [at, bytes] : state().there) sum += static_cast<std::int64_t>(bytes);
  return sum;
}
std::int64_t live_objects() { return state().objects; }
std::int64_t unpinned_copies() { return state().unpinned; }
void hold_a_function() { state().holds = true; }
bool holds_a_function() { return state().held; }
int& current_device() {
  thread_local int device = 0;
  return device;
}

Status run(KernelCall const& call, void* stream) noexcept {
  if (says() != cudaSuccess) return {cudaGetErrorString(last)};
  static_cast<cudaStream_t>(stream)->push([buffers = call.buffers, arguments = call.arguments] {
    if (fails()) return;
    Head head;
    std::memcpy(&head, arguments, sizeof head);
    std::vector<void*> bytes;
    for (std::uint64_t i = 0; i < head.buffers; ++i)
      bytes.push_back(state().memory->use(buffers[i]));
    testing::EmulatedBytes const workspace(max_workspace_bytes);
    char text[status_text_bytes];
    Status const status =
        head.inner->cpu({bytes.data(), static_cast<std::byte const*>(arguments) + sizeof head, text,
                         workspace.get()});
    for (std::uint64_t i = 0; i < head.buffers; ++i) state().memory->release(buffers[i]);
    if (!status.ok()) state().broken = true;
  });
  return {};
}

}  // namespace nntile::test::fake

using namespace nntile::test::fake;

extern "C" {

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = machine().library;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = machine().driver;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = machine().devices;
  return says(machine().devices == 0 ? cudaErrorNoDevice : cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "Fake");
  properties->major = machine().major;
  properties->minor = machine().minor;
  return says();
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  current_device() = device;
  return cudaSuccess;
}
char const* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return "an error";
  }
}
char const* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorIllegalAddress ? "cudaErrorIllegalAddress" : "cudaError";
}
cudaError_t cudaGetLastError() { return std::exchange(last, cudaSuccess); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return says();
}
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) {
  return says(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  *stream = new CUstream_st(
      state().seed == 0 ? 0 : state().seed + static_cast<unsigned>(current_device()));
  ++state().objects;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  --state().objects;
  delete stream;
  return says();
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->synchronize();
  return says();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return says(stream->idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->push([event, number = event->recorded.load()] {
    while (event->reached < number) nntile::detail::yield_core();
  });
  return says();
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  ++state().objects;
  *event = new CUevent_st;
  (*event)->timed = (flags & cudaEventDisableTiming) == 0;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  --state().objects;
  delete event;
  return says();
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  std::uint64_t const number = ++event->recorded;
  stream->push([event, number] {
    event->time = nntile::detail::monotonic_ns();
    event->reached = number;
  });
  return says();
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  if (!from->timed || !to->timed || from->reached < from->recorded || to->reached < to->recorded)
    return says(cudaErrorInvalidResourceHandle);
  *ms = static_cast<float>(1e-6 * static_cast<double>(to->time - from->time));
  return says();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return says(event->reached < event->recorded ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  try {
    *pointer = state().memory->allocate(bytes, nntile::device(current_device()));
  } catch (nntile::OutOfMemory const&) {
    return says(cudaErrorMemoryAllocation);
  }
  std::lock_guard const lock(state().mutex);
  state().there[*pointer] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  std::lock_guard const lock(state().mutex);
  state().there.erase(pointer);
  (void)state().memory->free(pointer, nntile::device(0));
  return says();
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  *pointer = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  std::lock_guard const lock(state().mutex);
  state().pinned[*pointer] = bytes;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* pointer) {
  std::lock_guard const lock(state().mutex);
  state().pinned.erase(pointer);
  std::free(pointer);
  return says();
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* all) {
  *all = std::size_t{1} << 26;
  *free = *all - state().memory->used(current_device());
  return says();
}
cudaError_t cudaMemcpyAsync(void* target, void const* source, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  for (void const* const each : {static_cast<void const*>(target), source}) {
    cudaPointerAttributes attributes;
    (void)cudaPointerGetAttributes(&attributes, each);
    state().unpinned += attributes.type == cudaMemoryTypeUnregistered;
  }
  stream->push([=] {
    if (fails()) return;
    auto* const from = const_cast<void*>(source);
    std::memcpy(state().memory->use(target), state().memory->use(from), bytes);
    state().memory->release(target);
    state().memory->release(from);
  });
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  bool const holds = state().holds.exchange(false);
  if (holds) stream->synchronize();
  if (cudaError_t const error = says(); error != cudaSuccess) return error;
  if (holds) {
    state().held = true;
    nntile::detail::sleep_ns(50'000'000);
  }
  stream->push([=] { function(data); });
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, void const* pointer) {
  std::lock_guard const lock(state().mutex);
  auto const& pinned = state().pinned;
  auto const above = pinned.upper_bound(const_cast<void*>(pointer));
  bool const known =
      above != pinned.begin() &&
      static_cast<std::byte*>(std::prev(above)->first) + std::prev(above)->second > pointer;
  attributes->type = state().memory->contains(pointer) ? cudaMemoryTypeDevice
                     : known                           ? cudaMemoryTypeHost
                                                       : cudaMemoryTypeUnregistered;
  attributes->device = state().memory->place_of(pointer).device;
  return says();
}

}  // extern "C"
