// SPDX-License-Identifier: BSD-3-Clause
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "nntile/io/directory.hh"
#include "tests/io/scratch.hh"
#include "tests/support/catch.hh"

using namespace nntile;
using namespace nntile::io;
using namespace nntile::test;
using Catch::Matchers::Contains;

TEST_CASE("a file holds what was written at each position", "[io][file]") {
  Scratch const scratch;
  File file = File::create(scratch / "a");
  file.write_at(3, bytes_of("def"));
  file.write_at(0, bytes_of("abc"));
  file.sync();
  file.close();
  CHECK(get(scratch / "a") == "abcdef");
  std::string out(4, ' ');
  File::open(scratch / "a").read_at(1, std::as_writable_bytes(std::span(out)));
  CHECK(out == "bcde");
}

TEST_CASE("a read past the end says where the file ends", "[io][file]") {
  Scratch const scratch;
  put(scratch / "a", "0123456789");
  std::string out(8, ' ');
  File const file = File::open(scratch / "a");
  std::string const text =
      thrown<FormatError>([&] { file.read_at(5, std::as_writable_bytes(std::span(out))); });
  CHECK_THAT(text, Contains("ends at byte 10 where 3 more were expected"));
}

TEST_CASE("what cannot be opened is named with the reason", "[io][file]") {
  Scratch const scratch;
  CHECK_THAT(thrown([&] { File::open(scratch / "none"); }), Contains("none': No such file"));
  CHECK_THAT(thrown([&] { File::open(scratch.path()); }), Contains("Is a directory"));
  CHECK_THAT(thrown([&] { File::open("/dev/null"); }), Contains("not a regular file"));
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  CHECK_THAT(thrown([&] { File::open(scratch / "pipe"); }), Contains("not a regular file"));
}

TEST_CASE("a name that is too long is that of nothing", "[io][file]") {
  Scratch const scratch;
  CHECK_FALSE(path_exists(scratch / std::string(300, 'x')));
}

TEST_CASE("a path with a NUL byte is refused, not cut there", "[io][file]") {
  Scratch const scratch;
  put(scratch / "a", "kept");
  std::string const file = (scratch / "a") + std::string("\0b", 2);
  std::string const folder = scratch.path() + std::string("\0b", 2);
  auto const refused = Contains("a\\x00b': a NUL byte");
  CHECK_THAT(thrown([&] { File::open(file); }), refused);
  CHECK_THAT(thrown([&] { write_file(file, "new"); }), refused);
  CHECK_THAT(thrown([&] { remove_tree(file); }), refused);
  CHECK_THAT(thrown([&] { rename_path(file, scratch / "c"); }), Contains("NUL"));
  CHECK_THAT(thrown([&] { rename_path(scratch / "a", file); }), refused);
  CHECK_THAT(thrown([&] { exchange_paths(scratch / "a", file); }), refused);
  for (auto const call : {+[](std::string const& path) { (void)list_directory(path); },
                          +[](std::string const& path) { (void)make_directory(path); },
                          +[](std::string const& path) { (void)make_directories(path); },
                          +[](std::string const& path) { (void)is_directory(path); },
                          +[](std::string const& path) { (void)path_exists(path); },
                          +[](std::string const& path) { remove_tree(path); }})
    CHECK_THAT(thrown([&] { call(folder); }), Contains("\\x00b': a NUL byte"));
  CHECK(get(scratch / "a") == "kept");
  CHECK(list_directory(scratch.path()).size() == 1);
}

TEST_CASE("short reads, short writes and signals are carried to the end", "[io][file]") {
  Scratch const scratch;
  int asked = 0;
  Fault const fault{[&](FileStep, std::string const&, std::size_t& bytes) {
    bytes = std::min<std::size_t>(bytes, 3);
    return ++asked % 2 == 0 ? EINTR : 0;
  }};
  File file = File::create(scratch / "a", &fault);
  file.write_at(0, bytes_of("0123456789"));
  CHECK(get(scratch / "a") == "0123456789");
  std::string out(10, ' ');
  File::open(scratch / "a", &fault).read_at(0, std::as_writable_bytes(std::span(out)));
  CHECK(out == "0123456789");
  asked = 1;  // a signal comes first
  CHECK(list_directory(scratch.path(), &fault) == std::vector<std::string>{"a"});
}

TEST_CASE("a full disk is an error that says so", "[io][file]") {
  if (!path_exists("/dev/full")) return skip("no /dev/full");
  File file = File::create("/dev/full");
  CHECK_THAT(thrown([&] { file.write_at(0, bytes_of("x")); }),
             Contains("write '/dev/full' at byte 0: No space left on device; free space"));
}

TEST_CASE("a file size limit is an error and not a signal", "[io][file]") {
  Scratch const scratch;
  CHECK(status_in_child([&] {
          rlimit const limit{4096, 4096};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          File file = File::create(scratch / "a");
          std::string const text(10000, 'x');
          std::string const error = thrown([&] { file.write_at(0, bytes_of(text)); });
          sigset_t pending;
          sigpending(&pending);
          bool const clean = sigismember(&pending, SIGXFSZ) == 0;
          return clean && error.find("File too large") != std::string::npos ? 0 : 1;
        }) == 0);
  CHECK(get(scratch / "a").size() == 4096);
}

TEST_CASE("a failing sync and a failing close are errors", "[io][file]") {
  Scratch const scratch;
  for (FileStep const broken : {FileStep::sync, FileStep::close}) {
    Fault const fault{
        [&](FileStep step, std::string const&, std::size_t&) { return step == broken ? EIO : 0; }};
    PendingFile file(scratch / "a", Appear::renamed, &fault);
    CHECK_THAT(thrown([&] { file.commit(); }),
               Contains(name_of(broken)) && Contains("Input/output error"));
    CHECK_FALSE(path_exists(scratch / "a"));
  }
}

TEST_CASE("a pending file appears at commit and leaves nothing without", "[io][file]") {
  Scratch const scratch;
  put(scratch / "a", "old");
  {
    PendingFile const dropped(scratch / "a");
  }
  CHECK(get(scratch / "a") == "old");
  write_file(scratch / "a", "new");
  CHECK(get(scratch / "a") == "new");
  CHECK(list_directory(scratch.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("a file is not written through a link or pipe that has its first name", "[io][file]") {
  Scratch const scratch;
  put(scratch / "other", "old");
  REQUIRE(::symlink("other", (scratch / "a.tmp").c_str()) == 0);
  REQUIRE(::mkfifo((scratch / "b.tmp").c_str(), 0600) == 0);
  CHECK_THAT(thrown([&] { write_file(scratch / "a", "text"); }),
             Contains("a.tmp': there is a link"));
  CHECK_THAT(thrown([&] { write_file(scratch / "b", "text"); }),
             Contains("b.tmp': there is a device, pipe or socket of that name"));
  CHECK(get(scratch / "other") == "old");
  CHECK(list_directory(scratch.path()) == std::vector<std::string>{"a.tmp", "b.tmp", "other"});
}

TEST_CASE("a device, pipe, link or directory is not replaced by a file", "[io][file]") {
  Scratch const scratch;
  put(scratch / "file", "old");
  REQUIRE(::mkfifo((scratch / "pipe").c_str(), 0600) == 0);
  REQUIRE(::symlink("file", (scratch / "link").c_str()) == 0);
  make_directory(scratch / "folder");
  struct Name {
    char const *name, *kind;
  };
  for (Name const& each :
       {Name{"pipe", "a device, pipe"}, {"link", "a link"}, {"folder", "a directory"}}) {
    std::string const path = scratch / each.name;
    CHECK_THAT(thrown([&] { write_file(path, "text"); }),
               Contains(concat("create '", path, "': there is ", each.kind)));
    CHECK_THAT(thrown([&] { write_file(path, "text", Appear::in_place); }),
               Contains("choose another name"));
  }
  CHECK(list_directory(scratch.path()) ==
        std::vector<std::string>{"file", "folder", "link", "pipe"});
  struct stat status{};
  REQUIRE(::lstat((scratch / "pipe").c_str(), &status) == 0);
  CHECK(S_ISFIFO(status.st_mode));
  CHECK(get(scratch / "link") == "old");
  write_file(scratch / "file", "new");
  CHECK(get(scratch / "link") == "new");
}

TEST_CASE("directories are made with their parents and removed with their contents", "[io][file]") {
  Scratch const scratch;
  make_directories(scratch / "a/b/c");
  put(scratch / "a/b/file", "x");
  put(scratch / "kept", "x");
  REQUIRE(::symlink((scratch / "kept").c_str(), (scratch / "a/link").c_str()) == 0);
  remove_tree(scratch / "a");
  CHECK(list_directory(scratch.path()) == std::vector<std::string>{"kept"});
  CHECK_THAT(thrown([&] { make_directories(scratch / "kept/a"); }), Contains("Not a directory"));
}

TEST_CASE("a directory that another run makes meanwhile is there", "[io][file]") {
  Scratch const scratch;
  Fault const other{[&](FileStep step, std::string const& path, std::size_t&) {
    if (step == FileStep::make_directory) ::mkdir(path.c_str(), 0777);
    return 0;
  }};
  CHECK_FALSE(make_directory(scratch / "a", &other));
  CHECK_NOTHROW(make_directories(scratch / "b/c", &other));
  CHECK(make_directory(scratch / "d"));
  Fault const file{[&](FileStep step, std::string const& path, std::size_t&) {
    if (step == FileStep::make_directory) put(path, "x");
    return 0;
  }};
  CHECK_THAT(thrown([&] { make_directory(scratch / "e", &file); }), Contains("File exists"));
  REQUIRE(::symlink("none", (scratch / "link").c_str()) == 0);
  CHECK_THAT(thrown([&] { make_directory(scratch / "link"); }), Contains("File exists"));
}

TEST_CASE("a locked directory refuses a second run until the first ends", "[io][file]") {
  Scratch const scratch;
  {
    DirectoryLock const first(scratch.path());
    CHECK_THAT(thrown([&] { DirectoryLock second(scratch.path()); }),
               Contains("in use by another run"));
  }
  CHECK_NOTHROW(DirectoryLock(scratch.path()));
}

TEST_CASE("a process that was forked leaves its parent's files and locks alone", "[io][file]") {
  Scratch const scratch;
  std::optional<PendingFile> file(std::in_place, scratch / "a");
  std::optional<DirectoryLock> lock(std::in_place, scratch.path());
  CHECK(status_in_child([&] { return file.reset(), lock.reset(), 0; }) == 0);
  CHECK_NOTHROW(file->commit());
  CHECK_THROWS_AS(DirectoryLock(scratch.path()), Error);
}

TEST_CASE("a lock ends with its object, whatever was forked meanwhile", "[io][file]") {
  Scratch const scratch;
  std::optional<DirectoryLock> lock(std::in_place, scratch.path());
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    for (;;) ::pause();
  }
  lock.reset();
  CHECK_NOTHROW(DirectoryLock(scratch.path()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("a large file is refused before it is read", "[io][file]") {
  Scratch const scratch;
  put(scratch / "a", "0123456789");
  CHECK(read_file(scratch / "a", 10) == "0123456789");
  CHECK_THAT(thrown<FormatError>([&] { read_file(scratch / "a", 9); }),
             Contains("10 bytes where at most 9"));
}

TEST_CASE("names and paths stay on one line, and paths are whole", "[io][file]") {
  CHECK(in_quotes("a\nb\x1b[31m\x7f\xC3\xA9") == "'a\\x0ab\\x1b[31m\\x7f\xC3\xA9'");
  CHECK(in_quotes(std::string(150, 'n')) == "'" + std::string(100, 'n') + "...' (150 bytes)");
  CHECK(path_in_quotes(std::string(150, 'p')) == "'" + std::string(150, 'p') + "'");
  std::string const text = thrown([&] { File::open("no\nfile"); });
  CHECK_THAT(text, Contains("open 'no\\x0afile': No such file"));
}
