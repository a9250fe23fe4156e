#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// MPI as a communicator: the only header that includes mpi.h. Programs that use it are compiled and
// linked as MPI programs are (mpicxx, or pkg-config nntile-mpi).

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/comm/concept.hh"
#include "nntile/comm/open_requests.hh"
#include "nntile/core/error.hh"
#include "nntile/core/threads.hh"

namespace nntile {

namespace detail {

/// The MPI whose mpi.h this is, as its library names itself.
#if defined(OPEN_MPI)
inline constexpr std::string_view mpi_of_build = "Open MPI";
#elif defined(MPICH_VERSION) || defined(MPICH_NAME)
inline constexpr std::string_view mpi_of_build = "MPICH";
#else
inline constexpr std::string_view mpi_of_build = "";
#endif

/// Throws CommError where a library of another kind than the build's answers: MPICH's relatives
/// (Intel's, Cray's, MVAPICH) share its binary interface, Open MPI does not.
inline void check_mpi_library(std::string_view library) {
  bool const is_open_mpi = library.starts_with("Open MPI");
  if (mpi_of_build.empty() || is_open_mpi == (mpi_of_build == "Open MPI")) return;
  throw CommError(concat("MpiComm: compiled with the mpi.h of ", mpi_of_build,
                         ", but the library in this process is '",
                         library.substr(0, library.find_first_of("\n,")),
                         "': compile and link with one MPI (mpicxx.mpich and mpiexec.mpich, or "
                         "mpicxx.openmpi and mpiexec.openmpi)"));
}

/// The text of an MPI error code.
inline std::string mpi_error(int code) {
  char text[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return concat("MPI error ", code);
  return std::string(text, static_cast<std::size_t>(length));
}

}  // namespace detail

/// Throws CommError where the environment says that a launcher of another kind than the program's
/// MPI has started several processes: each of them is then a world of its own. For the beginning of
/// a program's main, behind MPI_Init_thread.
inline void check_mpi_launcher_environment() {
  bool const is_open_mpi = detail::mpi_of_build == "Open MPI";
  char const* const started =
      std::getenv(is_open_mpi ? "PMI_SIZE" : "OMPI_COMM_WORLD_SIZE");  // the other kind's
  int size = 0;
  (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
  long const processes = started != nullptr ? std::strtol(started, nullptr, 10) : 1;
  if (size != 1 || processes < 2) return;
  throw CommError(concat("MPI: the launcher of ", is_open_mpi ? "MPICH" : "Open MPI", " started ",
                         processes, " processes, but this program is built with ",
                         detail::mpi_of_build, ", to which each is a world of 1: start it with ",
                         is_open_mpi ? "mpiexec.openmpi" : "mpiexec.mpich"));
}

/// The ranks of an MPI communicator, which it duplicates: the caller's keeps its messages, its
/// error handler and its place. Starts and ends no MPI, has no threads. Its thread level is that of
/// MPI_Query_thread; below MPI_THREAD_SERIALIZED it is made and called on the thread that
/// initialised MPI alone. Made and destroyed by all ranks together; destroy it before MPI_Finalize.
class MpiComm {
 public:
  static constexpr char const* communicator_name = "mpi";

  /// Collective. Throws CommError: an MPI of another kind than the build's, not initialised or
  /// ended, no communicator within a group, a call on another thread than the main one.
  explicit MpiComm(MPI_Comm comm) {
    char library[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
    int length = 0;
    (void)MPI_Get_library_version(library, &length);
    detail::check_mpi_library(library);
    int initialised = 0, finalised = 0;
    (void)MPI_Initialized(&initialised);
    if (initialised == 0)
      throw CommError(
          "MpiComm: MPI is not initialised; call MPI_Init_thread before, since the "
          "library does not");
    (void)MPI_Finalized(&finalised);
    if (finalised != 0) throw CommError("MpiComm: MPI has been finalised; make it before");
    int level = MPI_THREAD_SINGLE, main = 0;
    (void)MPI_Query_thread(&level);
    level_ = level >= MPI_THREAD_MULTIPLE     ? ThreadLevel::multiple
             : level >= MPI_THREAD_SERIALIZED ? ThreadLevel::serialized
             : level >= MPI_THREAD_FUNNELED   ? ThreadLevel::funneled
                                              : ThreadLevel::single;
    (void)MPI_Is_thread_main(&main);
    main_ = main != 0 ? detail::this_thread() : 0;
    check_thread("its constructor");
    if (comm == MPI_COMM_NULL)
      throw CommError(
          "MpiComm: the communicator is MPI_COMM_NULL; a rank outside a group makes "
          "none");
    int between_groups = 0;
    check("MPI_Comm_test_inter", MPI_Comm_test_inter(comm, &between_groups));
    if (between_groups != 0)
      throw CommError(
          "MpiComm: an intercommunicator joins two groups; merge them before "
          "(MPI_Intercomm_merge)");
    check("MPI_Comm_dup", MPI_Comm_dup(comm, &comm_));
    (void)MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
    (void)MPI_Comm_rank(comm_, &rank_);
    (void)MPI_Comm_size(comm_, &size_);
    int* bound = nullptr;
    int has_bound = 0;
    (void)MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &has_bound);
    tag_bound_ = has_bound != 0 ? *bound : least_tag_bound;
    requests_ = OpenRequests(size_, tag_bound_);
    sizes_.resize(static_cast<std::size_t>(size_));
  }
  MpiComm(MpiComm const&) = delete;
  MpiComm& operator=(MpiComm const&) = delete;
  ~MpiComm() {
    int finalised = 0;
    (void)MPI_Finalized(&finalised);
    if (finalised != 0) return;
    (void)MPI_Comm_free(&comm_);
  }

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::int64_t tag_bound() const { return tag_bound_; }
  ThreadLevel thread_level() const { return level_; }
  bool on_main_thread() const {
    int main = 0;
    (void)MPI_Is_thread_main(&main);
    return main != 0;
  }

  Request send(std::span<std::byte const> bytes, Message message) {
    check_thread("send");
    reserve();
    OpenRequest const open = requests_.open(true, message, bytes.size());
    MPI_Request handle = MPI_REQUEST_NULL;
    requests_.keep(open, [&] { check(open, isend(bytes, open, &handle)); });
    handles_.push_back(handle);
    started_.push_back({open, {}, {}, bytes.size()});
    return open.request;
  }
  Request receive(std::span<std::byte> bytes, Message message) {
    check_thread("receive");
    reserve();
    OpenRequest const open = requests_.open(false, message, bytes.size());
    requests_.keep(open, [&] {
      Key const key{message.peer, message.number};
      auto const arrived = arrived_.lower_bound(key);
      if (arrived == arrived_.end() || arrived->first != key)
        return (void)wanted_.emplace(key, Started{open, bytes, {}, 0});
      auto const [handle, size] = arrived->second;
      Started one = receive_of(open, bytes, size);
      arrived_.erase(arrived);
      start(std::move(one), handle);
    });
    return open.request;
  }
  /// Throws std::bad_alloc, too; what it has not reported by then the next one does.
  void test(std::vector<EndedRequest>& ended) {
    check_thread("test");
    while (!wanted_.empty() && take_one()) {
    }
    if (indices_.empty()) find_ended();
    for (; told_ != indices_.size(); ++told_) {
      Started const& one = started_[static_cast<std::size_t>(indices_[told_])];
      bool const fits = one.size == one.open.bytes;
      ended.push_back({one.open.request, fits ? std::string{} : wrong_size(one.open, one.size),
                       !fits && one.size == 0});
      requests_.close(one.open, fits);
    }
    forget_ended();
  }
  void barrier() {
    check_thread("barrier");
    check("MPI_Barrier", MPI_Barrier(comm_));
  }
  /// Throws CommError: more than 2 GiB - 1 bytes of all ranks together, another rank lacks memory.
  std::vector<std::vector<std::byte>> all_gather(std::span<std::byte const> bytes) {
    check_thread("all_gather");
    std::uint64_t const mine = bytes.size();
    check("MPI_Allgather",
          MPI_Allgather(&mine, 1, MPI_UINT64_T, sizes_.data(), 1, MPI_UINT64_T, comm_));
    std::uint64_t all = 0;
    for (std::uint64_t const size : sizes_) all += size;
    if (all > INT_MAX)
      throw CommError(concat("all_gather: the ranks give ", all, " bytes together, MPI counts to ",
                             INT_MAX, "; give them in pieces"));
    std::vector<int> counts, offsets;
    std::vector<std::byte> together;
    std::vector<std::vector<std::byte>> gathered;
    int lacking = size_, lowest = size_;  // the rank that lacks memory; none
    try {
      int offset = 0;
      for (std::uint64_t const size : sizes_) {
        counts.push_back(static_cast<int>(size));
        offsets.push_back(std::exchange(offset, offset + counts.back()));
        gathered.emplace_back(size);
      }
      together.resize(all);
    } catch (std::bad_alloc const&) {
      lacking = rank_;  // said to the others, who would wait for it
    }
    check("MPI_Allreduce", MPI_Allreduce(&lacking, &lowest, 1, MPI_INT, MPI_MIN, comm_));
    if (lacking == rank_) throw std::bad_alloc();
    if (lowest != size_) throw CommError(concat("all_gather: rank ", lowest, " lacks memory"));
    check("MPI_Allgatherv",
          MPI_Allgatherv(bytes.data(), static_cast<int>(mine), MPI_BYTE, together.data(),
                         counts.data(), offsets.data(), MPI_BYTE, comm_));
    for (std::size_t rank = 0; rank < gathered.size(); ++rank)
      std::copy_n(together.begin() + offsets[rank], counts[rank], gathered[rank].begin());
    return gathered;
  }
  /// Throws CommError.
  PeerTraffic traffic(int peer) const { return requests_.traffic(peer); }

 private:
  using Key = std::pair<int, std::int64_t>;  // rank, number

  /// A send, or a receive whose message has arrived.
  struct Started {
    OpenRequest open;
    std::span<std::byte> room;
    std::vector<std::byte> instead;  // takes a message of another size
    std::size_t size;                // of the message
  };
  struct Arrived {
    MPI_Message handle;
    std::size_t size;
  };

  int isend(std::span<std::byte const> bytes, OpenRequest const& open, MPI_Request* handle) {
    int const tag = static_cast<int>(open.message.number);
#if MPI_VERSION >= 4
    return MPI_Isend_c(bytes.data(), static_cast<MPI_Count>(bytes.size()), MPI_BYTE,
                       open.message.peer, tag, comm_, handle);
#else
    if (bytes.size() > INT_MAX)
      throw CommError(concat(describe(open), ": ", bytes.size(), " bytes, this MPI counts to ",
                             INT_MAX, "; an MPI of version 4 counts further"));
    return MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, open.message.peer, tag,
                     comm_, handle);
#endif
  }

  /// Takes a message that has arrived and starts its receive, or keeps it for one; false if there
  /// is none. A receive that were posted before would end the program when more bytes come than it
  /// expects: MPICH raises that at MPI_COMM_WORLD's handler, which is the caller's.
  bool take_one() {
    if (!taken_) probe();
    if (!taken_) return false;
    auto const& [key, message] = *taken_;
    if (auto const wanted = wanted_.find(key); wanted != wanted_.end()) {
      reserve();
      Started one = receive_of(wanted->second.open, wanted->second.room, message.size);
      MPI_Message const handle = message.handle;
      wanted_.erase(wanted);
      taken_.reset();
      start(std::move(one), handle);
    } else {
      arrived_.insert(*taken_);
      taken_.reset();
    }
    return true;
  }
  void probe() {
    int any = 0;
    MPI_Message handle = MPI_MESSAGE_NULL;
    MPI_Status status;
    check("MPI_Improbe", MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &any, &handle, &status));
    if (any == 0) return;
#if MPI_VERSION >= 4
    MPI_Count size = 0;
    (void)MPI_Get_count_c(&status, MPI_BYTE, &size);
#else
    int size = 0;
    (void)MPI_Get_count(&status, MPI_BYTE, &size);
#endif
    taken_.emplace(Key{status.MPI_SOURCE, status.MPI_TAG},
                   Arrived{handle, static_cast<std::size_t>(size)});
  }
  /// A receive of a message of that size. Throws std::bad_alloc.
  static Started receive_of(OpenRequest const& open, std::span<std::byte> room, std::size_t size) {
    Started one{open, room, {}, size};
    if (size == room.size()) return one;
    one.instead.resize(size);
    one.room = one.instead;
    return one;
  }
  /// Behind `reserve`: takes no memory.
  void start(Started one, MPI_Message handle) {
    MPI_Request request = MPI_REQUEST_NULL;
#if MPI_VERSION >= 4
    check(one.open, MPI_Imrecv_c(one.room.data(), static_cast<MPI_Count>(one.size), MPI_BYTE,
                                 &handle, &request));
#else
    check(one.open,
          MPI_Imrecv(one.room.data(), static_cast<int>(one.size), MPI_BYTE, &handle, &request));
#endif
    handles_.push_back(request);
    started_.push_back(std::move(one));
  }
  /// Asks MPI for the places of what has ended.
  void find_ended() {
    if (handles_.empty()) return;
    indices_.resize(handles_.size());
    int count = 0;
    int const code = MPI_Testsome(static_cast<int>(handles_.size()), handles_.data(), &count,
                                  indices_.data(), MPI_STATUSES_IGNORE);
    bool const none = code != MPI_SUCCESS || count == MPI_UNDEFINED;
    indices_.resize(none ? 0 : static_cast<std::size_t>(count));
    check("MPI_Testsome", code);
  }
  /// Room for one more, so that a request that has started is not lost. Throws std::bad_alloc.
  void reserve() {
    if (handles_.size() == handles_.capacity()) handles_.reserve(2 * handles_.size() + 16);
    if (started_.size() == started_.capacity()) started_.reserve(2 * started_.size() + 16);
  }
  void forget_ended() {
    if (indices_.empty()) return;
    indices_.clear();
    told_ = 0;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      if (handles_[i] == MPI_REQUEST_NULL) continue;
      if (kept != i) {
        handles_[kept] = handles_[i];
        started_[kept] = std::move(started_[i]);
      }
      ++kept;
    }
    handles_.resize(kept);
    started_.erase(started_.begin() + static_cast<std::ptrdiff_t>(kept), started_.end());
  }
  void check(std::string_view call, int code) const {
    if (code != MPI_SUCCESS)
      throw CommError(concat("MpiComm: rank ", rank_, ": ", call, ": ", detail::mpi_error(code)));
  }
  void check(OpenRequest const& open, int code) const {
    if (code != MPI_SUCCESS) check(describe(open), code);
  }
  void check_thread(char const* call) const {
    if (level_ >= ThreadLevel::serialized || detail::this_thread() == main_) return;
    throw CommError(concat("MpiComm: ", call,
                           " on a thread that is not the one that initialised "
                           "MPI, at thread level ",
                           name_of(level_),
                           "; call it there, or ask "
                           "MPI_Init_thread for MPI_THREAD_MULTIPLE"));
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  std::int64_t tag_bound_ = least_tag_bound;
  ThreadLevel level_ = ThreadLevel::single;
  std::uintptr_t main_ = 0;  // 0: not known
  OpenRequests requests_{1, least_tag_bound};
  std::vector<std::uint64_t> sizes_;                    // by rank, in all_gather
  std::map<Key, Started> wanted_;                       // receives whose message has not arrived
  std::multimap<Key, Arrived> arrived_;                 // messages whose receive was not posted
  std::optional<std::pair<Key const, Arrived>> taken_;  // one that may be in neither yet
  std::vector<MPI_Request> handles_;
  std::vector<Started> started_;  // at the same positions
  std::vector<int> indices_;      // of those that have ended, until all have been reported
  std::size_t told_ = 0;          // of these
};
static_assert(Communicator<MpiComm>);

}  // namespace nntile
