#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The text that is trained on when the user names none.

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "machine.hh"
#include "nntile/core/error.hh"
#include "nntile/io/tokens.hh"

namespace gpt2 {

/// Output of a command; empty where it cannot be run or fails. Children that the parent had ignored
/// would leave no status: here they are not.
inline std::string output_of(char const* command) {
  std::string text;
  auto* const before = std::signal(SIGCHLD, SIG_DFL);
  std::FILE* const pipe = ::popen(command, "r");
  char buffer[1 << 16];
  for (std::size_t n; pipe != nullptr && (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    text.append(buffer, n);
  if (pipe != nullptr && ::pclose(pipe) != 0) text.clear();
  std::signal(SIGCHLD, before);
  return text;
}

/// The King James Bible as Debian's package bible-kjv prints it, 4.3 MB; empty where that is not
/// installed.
inline std::string bible() { return output_of("bible -l100 gen1:1-rev22:21 2>/dev/null"); }

/// The texts of Debian's licenses, in the order of their names: about 0.3 MB.
inline std::vector<std::string> license_files() {
  std::vector<std::string> files;
  std::error_code error;
  for (auto const& entry : std::filesystem::directory_iterator("/usr/share/common-licenses", error))
    if (entry.is_regular_file() && !entry.is_symlink()) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// The corpus of the files given, or else of the bible, or else of the licenses. Throws where none
/// is there.
inline nntile::io::Corpus open_corpus(std::vector<std::string> const& files, nntile::Index seq) {
  auto const length = static_cast<std::size_t>(seq);
  if (!files.empty()) {
    std::size_t const available = available_bytes();
    return available == 0 ? nntile::io::Corpus::open(files, length)
                          : nntile::io::Corpus::open(files, length, available);
  }
  if (std::string text = bible(); !text.empty())
    return nntile::io::Corpus(std::move(text), length, "the King James Bible");
  auto const licenses = license_files();
  if (licenses.empty())
    throw nntile::ValueError(
        "--data: no text: install Debian's package bible-kjv, or name files with --data FILE...");
  return nntile::io::Corpus::open(licenses, length);
}

}  // namespace gpt2
