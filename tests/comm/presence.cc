// SPDX-License-Identifier: BSD-3-Clause
// Which ranks have died: a killed process, a stopped one, one that ends well.
#include "nntile/comm/presence.hh"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <filesystem>
#include <optional>
#include <thread>
#include <utility>

#include "nntile/comm/local.hh"
#include "nntile/comm/self.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// A folder that is removed at the end.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "nntile-presence-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

/// A process that holds a file until it is ended.
struct Holder {
  pid_t child = -1;
  std::string file;
  explicit Holder(std::string const& folder) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      detail::HeldFile const held(folder);
      (void)!::write(ends[1], held.path().data(), held.path().size());
      ::close(ends[1]);
      for (;;) ::pause();
    }
    ::close(ends[1]);
    char text[512];
    auto const size = ::read(ends[0], text, sizeof text);
    ::close(ends[0]);
    REQUIRE(size > 0);
    file.assign(text, static_cast<std::size_t>(size));
  }
  ~Holder() { end(SIGKILL); }
  void end(int signal) {
    if (child < 0) return;
    ::kill(child, signal);
    ::waitpid(child, nullptr, 0);
    child = -1;
  }
};

}  // namespace

TEST_CASE("a file is abandoned when its process is killed, not while it is stopped",
          "[comm][presence]") {
  Folder const folder;
  Holder holder(folder.path);
  CHECK_FALSE(detail::is_abandoned(holder.file));
  ::kill(holder.child, SIGSTOP);
  CHECK_FALSE(detail::is_abandoned(holder.file));
  ::kill(holder.child, SIGCONT);
  CHECK_FALSE(detail::is_abandoned(holder.file));
  holder.end(SIGKILL);
  CHECK(detail::is_abandoned(holder.file));
  CHECK(detail::is_abandoned(holder.file));
}

TEST_CASE("a file that its process removed is not abandoned", "[comm][presence]") {
  Folder const folder;
  std::string path;
  {
    detail::HeldFile const held(folder.path);
    path = held.path();
    CHECK_FALSE(detail::is_abandoned(path));
  }
  CHECK_FALSE(detail::is_abandoned(path));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a file in a relative folder is known by its path from the root", "[comm][presence]") {
  Folder const folder;
  detail::HeldFile const held(std::filesystem::relative(folder.path).string());
  CHECK(held.path().starts_with(std::filesystem::canonical(folder.path).string() + "/"));
  CHECK(std::filesystem::exists(held.path()));
}

TEST_CASE("a process that was forked leaves its parent's file alone", "[comm][presence]") {
  Folder const folder;
  std::optional<detail::HeldFile> held(std::in_place, folder.path);
  pid_t const child = ::fork();
  if (child == 0) {
    held.reset();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK(std::filesystem::exists(held->path()));
  CHECK_FALSE(detail::is_abandoned(held->path()));
  held.reset();
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("ranks know each other's processes and see none die that ends well", "[comm][presence]") {
  Folder const folder;
  LocalWorld world(3);
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(3);
  for (int rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      LocalComm comm(world, rank);
      std::string& text = wrong[static_cast<std::size_t>(rank)];
      {
        Presence const presence(comm, folder.path);
        if (presence.processes().size() != 3) text += "processes ";
        for (RankProcess const& one : presence.processes())
          if (one.process != ::getpid()) text += "process ";
        if (presence.ranks_here() != 3) text += "here ";
        for (int i = 0; i < 100; ++i)
          if (presence.dead()) text += "dead ";
      }
      for (int i = 0; i < 100; ++i) {
        Presence const again(comm, folder.path);  // others may be gone already
        if (again.dead()) text += "dead again ";
      }
      comm.barrier();
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::string>(3));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("a folder that cannot be written is an error on every rank", "[comm][presence]") {
  SelfComm self;
  CHECK(contains(message_of<CommError>([&] { Presence(self, "/nowhere/at/all"); }),
                 "presence: no locked file in '/nowhere/at/all'"));
  LocalWorld world(2);
  std::vector<std::string> texts(2);
  std::vector<std::thread> threads;
  Folder const folder;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      LocalComm comm(world, rank);
      try {
        Presence const presence(comm, rank == 1 ? "/nowhere/at/all" : folder.path);
      } catch (CommError const& error) {
        texts[static_cast<std::size_t>(rank)] = error.what();
      }
      comm.barrier();
    });
  for (std::thread& thread : threads) thread.join();
  for (std::string const& text : texts)
    CHECK(contains(text, "rank 1: presence: no locked file in '/nowhere/at/all'"));
}
