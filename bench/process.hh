#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// A rival in a process of its own: it answers a line with a line, and is stopped in between, since
// the threads of some rivals keep spinning.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace nntile::bench {

/// A child whose standard input and output are pipes. It ends when this object does.
class Process {
 public:
  /// `environment` holds NAME=VALUE texts that are added, and the NAMEs alone of variables that are
  /// taken away. A program that cannot be started answers nothing.
  explicit Process(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    signal(SIGPIPE, SIG_IGN);  // a child that died shows as a missing answer
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // it may be stopped, and only the parent would resume it
      dup2(to[0], STDIN_FILENO);
      dup2(from[1], STDOUT_FILENO);
      for (std::string& setting : environment)
        setting.find('=') == std::string::npos ? unsetenv(setting.c_str()) : putenv(setting.data());
      std::vector<char*> argv;
      for (std::string& argument : arguments) argv.push_back(argument.data());
      argv.push_back(nullptr);
      execvp(argv[0], argv.data());
      _exit(127);
    }
    close(to[0]);
    close(from[1]);
    to_ = fdopen(to[1], "w");
    from_ = fdopen(from[0], "r");
  }
  Process(Process const&) = delete;
  Process& operator=(Process const&) = delete;
  ~Process() {
    if (to_ != nullptr) std::fclose(to_);
    if (from_ != nullptr) std::fclose(from_);
    send(SIGCONT);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }

  /// Sends a line and waits for one; none when the child has ended, or has been ended since nothing
  /// came for as many seconds as `limit`, if that is not 0.
  std::optional<std::string> ask(std::string const& line, int limit = 0) {
    send(SIGCONT);
    if (to_ == nullptr || std::fprintf(to_, "%s\n", line.c_str()) < 0 || std::fflush(to_) != 0)
      return std::nullopt;
    if (limit > 0 && from_ != nullptr) {
      pollfd answers{fileno(from_), POLLIN, 0};
      is_late_ = poll(&answers, 1, 1000 * limit) == 0;
      if (is_late_) {
        send(SIGKILL);
        return std::nullopt;
      }
    }
    auto answer = read();
    send(SIGSTOP);
    return answer;
  }
  /// Whether the last question had no answer within its limit.
  bool is_late() const { return is_late_; }
  /// Waits for a line; none when the child has ended.
  std::optional<std::string> read() {
    std::string line;
    for (int c; from_ != nullptr && (c = std::fgetc(from_)) != EOF;) {
      if (c == '\n') return line;
      line += static_cast<char>(c);
    }
    return std::nullopt;
  }

 private:
  void send(int which) {
    if (pid_ > 0) kill(pid_, which);
  }

  pid_t pid_ = -1;
  std::FILE* to_ = nullptr;
  std::FILE* from_ = nullptr;
  bool is_late_ = false;
};

}  // namespace nntile::bench
