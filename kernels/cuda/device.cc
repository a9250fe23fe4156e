// SPDX-License-Identifier: BSD-3-Clause
// Cuda of nntile/runtime/cuda.hh, over the runtime library of CUDA.
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/lists.hh"
#include "kernels/cuda/staging.hh"
#include "nntile/runtime/cuda.hh"
#include "nntile/runtime/device_log.hh"

// The least compute capability that the kernels were compiled for, times ten.
#ifndef NNTILE_CUDA_ARCH
#define NNTILE_CUDA_ARCH 90
#endif

namespace nntile {
namespace {

std::string words(cudaError_t error) {
  return concat(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}
std::string version(int number) { return concat(number / 1000, ".", number % 1000 / 10); }

/// The calling thread's device, for a scope.
class Current {
 public:
  explicit Current(int device) noexcept {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    if (before_ != device) (void)cudaSetDevice(device);
    now_ = device;
  }
  Current(Current const&) = delete;
  Current& operator=(Current const&) = delete;
  ~Current() {
    if (before_ != now_) (void)cudaSetDevice(before_);
  }

 private:
  int before_ = 0, now_ = 0;
};

void check_versions() {
  int library = 0, driver = 0;
  (void)cudaRuntimeGetVersion(&library);
  (void)cudaDriverGetVersion(&driver);
  if (library / 1000 != CUDART_VERSION / 1000)
    throw DeviceError(concat("Cuda: nntile_cuda was compiled for CUDA ", version(CUDART_VERSION),
                             ", and the CUDA runtime library that it is linked with is ",
                             version(library), ": they must be of one major version"));
  if (driver == 0)
    throw DeviceError(
        "Cuda: this machine has no CUDA driver; install NVIDIA's, or keep tensors on the host");
  if (driver / 1000 < library / 1000)
    throw DeviceError(concat("Cuda: the driver of this machine knows CUDA ", version(driver),
                             ", and nntile_cuda needs ", version(library),
                             ": install a newer driver"));
}

int count_devices(int wanted) {
  if (wanted < 0) throw ValueError(concat("Cuda: ", wanted, " devices; 0 takes all"));
  check_versions();
  int count = 0;
  cudaError_t const error = cudaGetDeviceCount(&count);
  (void)cudaGetLastError();
  if (error != cudaSuccess || count == 0)
    throw DeviceError(concat("Cuda: no device is there: ",
                             words(error == cudaSuccess ? cudaErrorNoDevice : error)));
  if (wanted > count)
    throw DeviceError(concat("Cuda: ", wanted, " devices were asked for, and there are ", count));
  return wanted == 0 ? count : wanted;
}

void check_device(int device) {
  cudaDeviceProp properties;
  if (cudaError_t const error = cudaGetDeviceProperties(&properties, device); error != cudaSuccess)
    throw DeviceError(concat("Cuda: device ", device, ": ", words(error)));
  int const arch = 10 * properties.major + properties.minor;
  if (arch < NNTILE_CUDA_ARCH)
    throw DeviceError(concat("Cuda: device ", device, " (", properties.name, ") has sm_", arch,
                             ", and nntile_cuda has code for sm_", NNTILE_CUDA_ARCH,
                             " and newer: build it with -Ddevice_arch=sm_", arch,
                             ", or choose devices by CUDA_VISIBLE_DEVICES"));
}

}  // namespace

class Cuda::Machine {
 public:
  explicit Machine(CudaOptions const& options) : Machine(options, count_devices(options.devices)) {
    // From here on the destructor ends what is there, whatever is thrown.
    for (int device = 0; device < devices; ++device) check_device(device);
    for (int device = 0; device < devices; ++device) {
      Current const current(device);
      for (int lane = 0; lane < lanes; ++lane) {
        streams_.emplace_back();
        cudaError_t const error =
            cudaStreamCreateWithFlags(&streams_.back().stream, cudaStreamNonBlocking);
        if (error != cudaSuccess)
          throw DeviceError(concat("Cuda: device ", device, ": ", words(error)));
      }
      for (int other = 0; other < devices; ++other) {
        int can = 0;
        if (other != device && cudaDeviceCanAccessPeer(&can, device, other) == cudaSuccess && can)
          (void)cudaDeviceEnablePeerAccess(other, 0);
        (void)cudaGetLastError();  // it was enabled already
      }
    }
  }
  Machine(Machine const&) = delete;
  Machine& operator=(Machine const&) = delete;
  ~Machine() { end(); }

  int const devices, lanes;

  void* allocate(std::size_t bytes, Place place) {
    if (lost()) throw DeviceError(concat("allocate: ", why_));
    bool const there = place.kind == Place::Kind::device;
    Current const current(there ? place.device : 0);
    void* pointer = nullptr;
    std::size_t const some = bytes == 0 ? 1 : bytes;
    cudaError_t const error =
        there ? cudaMalloc(&pointer, some) : cudaHostAlloc(&pointer, some, cudaHostAllocPortable);
    if (error == cudaSuccess) {
      if (log_ != nullptr) log_->changed(place, static_cast<std::int64_t>(bytes));
      return pointer;
    }
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation) {
      lose(error, "allocate");
      throw DeviceError(concat("allocate: ", why_));
    }
    if (!there) throw OutOfMemory(concat("allocate: ", bytes, " bytes pinned: ", words(error)));
    std::size_t free = 0, all = 0;
    (void)cudaMemGetInfo(&free, &all);
    throw OutOfMemory(concat("allocate: ", bytes, " bytes on device ", place.device, ", where ",
                             free, " of ", all,
                             " bytes are free; evict to the host (PlanOptions::capacity), or use "
                             "smaller tensors"));
  }
  void free(void* pointer, std::size_t bytes, Place place) noexcept {
    if (log_ != nullptr) log_->changed(place, -static_cast<std::int64_t>(bytes));
    if (place.kind != Place::Kind::device) {
      (void)cudaFreeHost(pointer);
    } else {
      Current const current(place.device);
      (void)cudaFree(pointer);
    }
    (void)cudaGetLastError();
  }
  /// Kernels that were launched with a smaller block end first.
  void lend(int device, std::size_t bytes) {
    std::unique_lock const nothing_is_launched(mutex_);
    if (lost()) throw DeviceError(concat("lend: ", why_));
    Current const current(device);
    if (cudaError_t const error = take({device, 0}, bytes); error != cudaSuccess) {
      (void)cudaGetLastError();
      throw OutOfMemory(concat("lend: ", bytes, " bytes of workspace on device ", device,
                               " beside what is allocated: ", words(error)));
    }
  }
  Status launch(Stream at, DeviceJob const& job, char* text) noexcept {
    Current const current(at.device);
    cudaStream_t const stream = lane(at).stream;
    if (log_ != nullptr && !lost()) begin(at, job);
    std::shared_lock launching(mutex_);
    if (lost()) return {why_};
    Status const status =
        &job.codelet == &copy_codelet ? copy(job, stream) : run(at, job, text, stream);
    launching.unlock();
    if (status.ok()) return status;
    (void)cudaGetLastError();
    cudaError_t const now = cudaStreamQuery(stream);
    if (now == cudaSuccess || now == cudaErrorNotReady) return status;
    lose(now, job.codelet.name);
    return {why_};
  }
  std::uint64_t mark(Stream at) noexcept {
    Lane& own = lane(at);
    Current const current(at.device);
    std::lock_guard const lock(own.mutex);
    cudaEvent_t const event = make_event(own);
    if (event != nullptr) try {
        own.marks.push_back({own.last + 1, event, std::exchange(own.begun, {})});
        if (cudaError_t const error = cudaEventRecord(event, own.stream); error != cudaSuccess)
          lose(error, "an event");
      } catch (std::bad_alloc const&) {
        (void)cudaEventDestroy(event);
        lose(cudaErrorMemoryAllocation, "an event");
      }
    return ++own.last;
  }
  StreamProgress query(Stream at, std::uint64_t mark, char* text) noexcept {
    Lane& own = lane(at);
    Current const current(at.device);
    std::lock_guard const lock(own.mutex);
    while (!lost() && own.reached < mark && !own.marks.empty()) {
      Mark& next = own.marks.front();
      cudaError_t const error = cudaEventQuery(next.event);
      if (error == cudaErrorNotReady) {
        (void)cudaGetLastError();
        break;
      }
      if (error != cudaSuccess) {
        lose(error, "work that was launched");
        break;
      }
      own.reached = next.number;
      if (next.begun.event != nullptr) end(own, next);
      keep(own, next.event);
      own.marks.pop_front();
    }
    if (own.reached >= mark) return StreamProgress::ended;
    if (!lost()) return StreamProgress::running;
    std::memcpy(text, why_, status_text_bytes);
    return StreamProgress::failed;
  }
  void wait(Stream at, Stream other, std::uint64_t mark) noexcept {
    Lane& its = lane(other);
    Current const current(at.device);
    std::lock_guard const lock(its.mutex);
    for (Mark const& each : its.marks) {
      if (each.number < mark) continue;
      if (cudaError_t const error = cudaStreamWaitEvent(lane(at).stream, each.event, 0);
          error != cudaSuccess)
        lose(error, "an event");
      return;
    }
  }

 private:
  Machine(CudaOptions const& options, int count)
      : devices(count), lanes(options.lanes), log_(options.log) {
    if (lanes < 1) throw ValueError(concat("Cuda: ", lanes, " lanes; there must be at least 1"));
  }

  /// A job of a log, and the event before it; null: none.
  struct Begun {
    cudaEvent_t event = nullptr;
    LoggedJob job;
  };
  struct Mark {
    std::uint64_t number;
    cudaEvent_t event;
    Begun begun;
  };
  struct Lane {
    cudaStream_t stream = nullptr;
    Begun begun;                   // that has no mark yet
    cudaEvent_t origin = nullptr;  // of times in a log: an event,
    std::int64_t origin_ns = 0;    // and when that was
    std::mutex mutex;
    std::deque<Mark> marks;  // not seen yet
    std::vector<cudaEvent_t> spare;
    std::uint64_t last = 0, reached = 0;
    void* workspace = nullptr;  // of the largest size that a kernel here has asked for
    std::size_t workspace_bytes = 0;
  };

  Lane& lane(Stream at) noexcept {
    return streams_[static_cast<std::size_t>(at.device * lanes + at.lane)];
  }
  /// An event of the lane, or null. It is timed where there is a log.
  cudaEvent_t make_event(Lane& own) noexcept {
    cudaEvent_t event = nullptr;
    if (!own.spare.empty()) {
      event = own.spare.back();
      own.spare.pop_back();
    } else if (cudaError_t const error = cudaEventCreateWithFlags(
                   &event, log_ == nullptr ? cudaEventDisableTiming : cudaEventDefault);
               error != cudaSuccess) {
      lose(error, "an event");
    }
    return event;
  }
  void keep(Lane& own, cudaEvent_t event) noexcept {
    try {
      own.spare.push_back(event);
    } catch (std::bad_alloc const&) {
      (void)cudaEventDestroy(event);
    }
  }
  /// An event before a job that is logged, the last thing before its launch: on an idle stream it
  /// is reached at once. Without memory there is no record of the job.
  void begin(Stream at, DeviceJob const& job) noexcept {
    Lane& own = lane(at);
    std::lock_guard const lock(own.mutex);
    if (own.origin == nullptr && !set_origin(own)) return;
    try {
      own.begun.job = DeviceLog::record(at, job, [](void const* pointer) {
        cudaPointerAttributes attributes;
        bool const known = cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess;
        if (!known) (void)cudaGetLastError();
        return known && attributes.type == cudaMemoryTypeDevice ? device(attributes.device) : host;
      });
    } catch (std::bad_alloc const&) {
      if (own.begun.event != nullptr) keep(own, std::exchange(own.begun.event, nullptr));
      return;
    }
    if (own.begun.event == nullptr) own.begun.event = make_event(own);
    if (own.begun.event != nullptr) (void)cudaEventRecord(own.begun.event, own.stream);
  }
  /// Waits for the stream, once: the clocks of host and device meet.
  bool set_origin(Lane& own) noexcept {
    own.origin = make_event(own);
    if (own.origin == nullptr) return false;
    (void)cudaEventRecord(own.origin, own.stream);
    (void)cudaStreamSynchronize(own.stream);
    own.origin_ns = detail::monotonic_ns();
    return true;
  }
  /// A logged job has ended. CUDA counts in milliseconds of fp32, so that the origin follows.
  void end(Lane& own, Mark& mark) noexcept {
    float begin = 0, end = 0;  // ms
    if (cudaEventElapsedTime(&begin, own.origin, mark.begun.event) == cudaSuccess &&
        cudaEventElapsedTime(&end, own.origin, mark.event) == cudaSuccess) {
      auto const ns = [&](float ms) {
        return own.origin_ns + static_cast<std::int64_t>(1e6 * static_cast<double>(ms));
      };
      mark.begun.job.begin = ns(begin);
      mark.begun.job.end = ns(end);
      log_->ran(std::move(mark.begun.job));
      if (end > 1000) {
        own.origin_ns = ns(end);
        std::swap(own.origin, mark.event);
      }
    }
    (void)cudaGetLastError();
    keep(own, mark.begun.event);
  }
  bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// After an error that lasts: waits for launches and then for what still runs, since nothing that
  /// was launched is waited for from then on, and no function of a stream may write to the host
  /// behind that. The text is constant then; precisions keep it within its bytes.
  void lose(cudaError_t error, char const* where) noexcept {
    std::unique_lock const lock(mutex_);
    if (lost()) return;
    for (Lane const& each : streams_) (void)cudaStreamSynchronize(each.stream);
    std::snprintf(why_, sizeof why_,
                  "the devices are lost: %.50s (%.30s), at %.30s or before; CUDA runs nothing more "
                  "in this process",
                  cudaGetErrorString(error), cudaGetErrorName(error), where);
    lost_.store(true, std::memory_order_release);
  }
  Status run(Stream at, DeviceJob const& job, char* text, cudaStream_t stream) noexcept {
    std::size_t const wanted = job.codelet.device_workspace;
    if (cudaError_t const error = take(at, wanted); error != cudaSuccess) {
      std::snprintf(text, status_text_bytes,
                    "%.40s: %zu bytes of workspace on device %d beside what is allocated: %.50s",
                    job.codelet.name, wanted, at.device, cudaGetErrorString(error));
      return {text};
    }
    void* const workspace = wanted == 0 ? nullptr : lane(at).workspace;
    return job.codelet.cuda({job.buffers.data(), job.arguments, text, workspace}, stream);
  }
  /// Gives a stream a workspace of that size, if it has a smaller one.
  cudaError_t take(Stream at, std::size_t bytes) noexcept {
    Lane& own = lane(at);
    if (bytes <= own.workspace_bytes) return cudaSuccess;
    give_back(own, at.device);  // waits for kernels that use it
    cudaError_t const error = cudaMalloc(&own.workspace, bytes);
    if (error != cudaSuccess) return error;
    own.workspace_bytes = bytes;
    if (log_ != nullptr) log_->changed(device(at.device), static_cast<std::int64_t>(bytes));
    return cudaSuccess;
  }
  void give_back(Lane& own, int number) noexcept {
    if (own.workspace_bytes == 0) return;
    if (log_ != nullptr)
      log_->changed(device(number), -static_cast<std::int64_t>(own.workspace_bytes));
    (void)cudaFree(std::exchange(own.workspace, nullptr));
    own.workspace_bytes = 0;
  }
  Status copy(DeviceJob const& job, cudaStream_t stream) noexcept {
    std::int64_t bytes;
    std::memcpy(&bytes, job.arguments, sizeof bytes);
    if (bytes <= 0) return {};
    void const* const source = job.buffers[0];
    void* const target = job.buffers[1];
    bool const to_host = unknown(target), from_host = unknown(source);
    auto const count = static_cast<std::size_t>(bytes);
    cudaError_t const error =
        to_host || from_host ? staging_.copy(target, source, count, to_host, stream)
                             : cudaMemcpyAsync(target, source, count, cudaMemcpyDefault, stream);
    return error == cudaSuccess ? Status{} : Status{cudaGetErrorString(error)};
  }
  /// Whether it is memory that CUDA did not give and does not know.
  static bool unknown(void const* pointer) noexcept {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess)
      return attributes.type == cudaMemoryTypeUnregistered;
    (void)cudaGetLastError();
    return true;
  }
  void end() noexcept {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].stream == nullptr) continue;  // it could not be made
      Current const current(static_cast<int>(i) / lanes);
      (void)cudaStreamSynchronize(streams_[i].stream);  // functions of the host hold blocks
      for (Mark const& mark : streams_[i].marks) {
        (void)cudaEventDestroy(mark.event);
        if (mark.begun.event != nullptr) (void)cudaEventDestroy(mark.begun.event);
      }
      for (cudaEvent_t const event : {streams_[i].begun.event, streams_[i].origin})
        if (event != nullptr) (void)cudaEventDestroy(event);
      for (cudaEvent_t const event : streams_[i].spare) (void)cudaEventDestroy(event);
      (void)cudaStreamDestroy(streams_[i].stream);
      give_back(streams_[i], static_cast<int>(i) / lanes);
    }
    streams_.clear();
    (void)cudaGetLastError();
  }

  // These end behind the streams.
  std::shared_ptr<void const> const products_ = kernels::cuda::keep_products();
  kernels::cuda::Staging staging_;
  DeviceLog* const log_;      // null: none
  std::deque<Lane> streams_;  // by device
  std::shared_mutex mutex_;   // launches share it, losing has it alone
  std::atomic<bool> lost_{false};
  char why_[status_text_bytes] = {};
};

void use_cuda_kernels() noexcept {
  kernels::join_device_kernels(kernels::cuda::lists(), &kernels::cuda::fast_kernels);
}

Cuda::Cuda(CudaOptions const& options) : machine_(new Machine(options)) { use_cuda_kernels(); }
Cuda::~Cuda() = default;
std::string Cuda::fast_products() { return kernels::cuda::fast_products(); }

int Cuda::devices() const noexcept { return machine_->devices; }
int Cuda::lanes() const noexcept { return machine_->lanes; }
void* Cuda::allocate(std::size_t bytes, Place place) { return machine_->allocate(bytes, place); }
void Cuda::lend(int device, std::size_t bytes) { machine_->lend(device, bytes); }
void Cuda::free(void* pointer, std::size_t bytes, Place place) noexcept {
  machine_->free(pointer, bytes, place);
}
std::optional<Place> Cuda::place_of(void const* pointer) const noexcept {
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  switch (attributes.type) {
    case cudaMemoryTypeUnregistered:
      return host;
    case cudaMemoryTypeHost:
      return pinned;
    case cudaMemoryTypeDevice:
      return device(attributes.device);
    default:
      return {};  // managed memory is of all
  }
}
Status Cuda::launch(Stream stream, DeviceJob const& job, char* text) noexcept {
  return machine_->launch(stream, job, text);
}
std::uint64_t Cuda::mark(Stream stream) noexcept { return machine_->mark(stream); }
StreamProgress Cuda::query(Stream stream, std::uint64_t mark, char* text) noexcept {
  return machine_->query(stream, mark, text);
}
void Cuda::wait(Stream stream, Stream other, std::uint64_t mark) noexcept {
  machine_->wait(stream, other, mark);
}

}  // namespace nntile
