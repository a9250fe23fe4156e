#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Names inside a directory of checkpoints, and which of them is the newest.

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/io/manifest_parse.hh"

namespace nntile::io {

/// "step-0000000100".
inline std::string checkpoint_name(std::uint64_t step) {
  std::string const digits = std::to_string(step);
  return concat("step-", std::string(digits.size() < 10 ? 10 - digits.size() : 0, '0'), digits);
}

/// The step of a checkpoint's name; none for any other name, "step-0000000100.tmp" included.
inline std::optional<std::uint64_t> step_of(std::string_view name) {
  if (!name.starts_with("step-") || name.size() < 15) return std::nullopt;
  std::uint64_t step = 0;
  auto const [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || checkpoint_name(step) != name)
    return std::nullopt;
  return step;
}

/// Steps of the committed checkpoints in a directory, ascending. A directory without a manifest is
/// not one.
inline std::vector<std::uint64_t> checkpoint_steps(std::string const& directory,
                                                   Fault const* fault = nullptr) {
  std::vector<std::uint64_t> steps;
  for (std::string const& name : list_directory(directory, fault))
    if (auto const step = step_of(name);
        step && path_exists(concat(directory, '/', name, '/', manifest_name)))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// The name of the checkpoint that a save set aside under this one, and was cut off before another
/// had it; none for any other name. The next run renames it back.
inline std::optional<std::string> name_before_old(std::string const& directory,
                                                  std::string_view name) {
  if (!name.ends_with(".old")) return std::nullopt;
  name.remove_suffix(4);
  if (!step_of(name) || path_exists(concat(directory, '/', name))) return std::nullopt;
  return std::string(name);
}

/// Path of the newest committed checkpoint in a directory, also of one that a save had set aside
/// when it was cut off; none where there is none. Nothing is changed. Throws Error when the
/// directory cannot be read.
inline std::optional<std::string> latest_checkpoint(std::string const& directory,
                                                    Fault const* fault = nullptr) {
  std::optional<std::uint64_t> latest;
  std::string path;
  for (std::string const& name : list_directory(directory, fault)) {
    auto const step = step_of(name_before_old(directory, name).value_or(name));
    std::string candidate = concat(directory, '/', name);
    if (!step || (latest && *step < *latest)) continue;
    if (!path_exists(concat(candidate, '/', manifest_name))) continue;
    latest = step;
    path = std::move(candidate);
  }
  if (!latest) return std::nullopt;
  return path;
}

}  // namespace nntile::io
