// SPDX-License-Identifier: BSD-3-Clause
// StarPU aborts when it cannot write its calibration files, and when two processes write them at
// once.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "kernels/starpu/process.hh"
#include "nntile/core/error.hh"

namespace nntile::starpu_shim {

namespace {

// StarPU 1.3 and 1.4 keep paths in 256 bytes and append "/.starpu/sampling/codelets/45/" and a file
// name.
constexpr std::size_t longest_folder = 160;

char const* advice = "; set STARPU_HOME to a short path of a folder that can be written";

}  // namespace

void EnvironmentCalibrationLock::add(char const* folder, char const* variable) {
  std::string const named = concat("StarPU: ", variable, "='", folder, "'");
  auto const refuse = [&](std::error_code cause) {
    throw ValueError(concat(named, " cannot be written (", cause.message(), ")", advice));
  };
  std::string path = folder;
  if (path.size() > longest_folder)
    throw ValueError(
        concat(named, " has ", path.size(), " characters, StarPU takes ", longest_folder, advice));
  if (std::string_view(variable) != "STARPU_PERF_MODEL_DIR") path += "/.starpu/sampling";
  std::error_code failed;
  std::filesystem::create_directories(path + "/codelets", failed);
  if (!failed) std::filesystem::create_directories(path + "/bus", failed);
  if (failed) refuse(failed);
  // A file in the folder that StarPU writes to: proves that it can, and keeps other processes of
  // ours out meanwhile.
  File& file = files_[count_++];
  file.descriptor = open((path + "/bus/nntile.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file.descriptor < 0 || pwrite(file.descriptor, "\n", 1, 0) != 1)
    refuse(std::error_code(errno, std::generic_category()));
  // A second variable may name the same folder, whose lock this process would wait for in vain.
  struct stat mine{}, other{};
  fstat(file.descriptor, &mine);
  for (int i = 0; i + 1 < count_; ++i)
    if (fstat(files_[i].descriptor, &other) == 0 && other.st_ino == mine.st_ino &&
        other.st_dev == mine.st_dev)
      return;
  // On a file system without locks StarPU warns and goes on; so does this. A signal ends the call.
  while (flock(file.descriptor, LOCK_EX) != 0 && errno == EINTR) {
  }
}

EnvironmentCalibrationLock::EnvironmentCalibrationLock() {
  // 1.3.10 takes XDG_CACHE_HOME before STARPU_HOME and 1.4 after it: whichever are set must do.
  for (char const* variable : {"STARPU_PERF_MODEL_DIR", "STARPU_HOME", "XDG_CACHE_HOME"})
    if (char const* folder = std::getenv(variable)) add(folder, variable);
  for (char const* variable : {"HOME", "TMPDIR", "TEMP", "TMP"})
    if (char const* folder = std::getenv(variable); folder != nullptr && count_ == 0)
      add(folder, variable);
  if (count_ == 0) add("/tmp", "no HOME, hence TMP");
}

EnvironmentCalibrationLock::File::~File() {
  if (descriptor < 0) return;
  flock(descriptor, LOCK_UN);  // a process that was forked meanwhile shares the lock, and keeps it
  close(descriptor);
}

}  // namespace nntile::starpu_shim
