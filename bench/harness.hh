#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// What benches share: options, samples, a table for people, records for programs.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "nntile/ops/kernel.hh"
#include "nntile/testing/records.hh"

namespace nntile::bench {

struct Options {
  bool quick = false;
  std::string json;
  std::string isa = "best";
};

/// Takes an option that one bench alone has out of the arguments; its value, or nothing.
inline std::string take_option(int& argc, char** argv, std::string_view name) {
  std::string value;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (argv[i] == name && i + 1 < argc)
      value = argv[++i];
    else
      argv[kept++] = argv[i];
  }
  argc = kept;
  return value;
}

inline bool is_isa(std::string const& name) {
  for (char const* const known : {"best", "v2", "v3", "v4"})
    if (name == known) return true;
  return false;
}

/// Ends the program where a file cannot be written, rather than after the measurements.
inline void require_writable(std::string const& path) {
  if (std::FILE* const file = std::fopen(path.c_str(), "ab")) {
    std::fclose(file);
    return;
  }
  std::fprintf(stderr, "--json: cannot write '%s': %s\n", path.c_str(), std::strerror(errno));
  std::exit(2);
}

/// --quick, --json FILE, --help, and of a bench that heeds it --isa NAME; anything else ends the
/// program with a line that says so.
inline Options parse(int argc, char** argv, char const* what, bool heeds_isa = false) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view const argument = argv[i];
    bool const more = i + 1 < argc;
    if (argument == "--quick")
      options.quick = true;
    else if (argument == "--json" && more && *argv[i + 1] != 0)
      options.json = argv[++i];
    else if (heeds_isa && argument == "--isa" && more && is_isa(argv[i + 1]))
      options.isa = argv[++i];
    else {
      bool const help = argument == "--help";
      std::fprintf(help ? stdout : stderr, "%s%s\nusage: %s [--quick] [--json FILE]%s\n",
                   help ? "" : concat("unknown option or value: '", argument, "'\n").c_str(), what,
                   argv[0], heeds_isa ? " [--isa best|v2|v3|v4]" : "");
      std::exit(help ? 0 : 2);
    }
  }
  if (!options.json.empty()) require_writable(options.json);
  return options;
}

/// Ends the program with a line that says which cases there are, where `chosen` takes none of them.
template <class Cases, class Chosen>
void require_case(char const* bench, std::string const& given, Cases const& cases, Chosen chosen) {
  if (std::any_of(std::begin(cases), std::end(cases), chosen)) return;
  std::string names;
  for (auto const& each : cases) names += concat(' ', each.name);
  std::fprintf(stderr, "bench_%s: no case '%s'; there are%s\n", bench, given.c_str(),
               names.c_str());
  std::exit(2);
}

/// What --isa names, the best there is by default. Ends the program where there are no such
/// kernels.
inline Isa isa_of(Options const& options) {
  Isa isa = kernels::best();
  for (Isa const named : {Isa::v2, Isa::v3, Isa::v4})
    if (options.isa == name_of(named)) isa = named;
  if (kernels::available(isa)) return isa;
  std::fprintf(stderr, "no kernels for %s here\n", name_of(isa));
  std::exit(1);
}

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using testing::quantile;

/// Prints each figure as it comes, and writes all of them where that is asked for; ends the program
/// where it cannot.
class Records {
 public:
  Records(std::string bench, Options options)
      : bench_(std::move(bench)), options_(std::move(options)) {
    records_.push_back(machine());
    std::printf("%-28s %-14s %-22s %12s %12s %12s  %s\n", "case", "runtime", "metric", "median",
                "5 %", "95 %", "unit");
  }
  Records(Records const&) = delete;
  Records& operator=(Records const&) = delete;
  ~Records() {
    if (options_.json.empty()) return;
    try {
      testing::write_records(options_.json, records_);
    } catch (std::exception const& error) {
      std::fprintf(stderr, "bench_%s: %s\n", bench_.c_str(), error.what());
      std::fflush(nullptr);
      std::_Exit(2);  // what is in the file is of another run, or none
    }
  }

  Options const& options() const { return options_; }

  void add(std::string const& name, std::string const& runtime, std::string const& metric,
           std::string const& unit, std::vector<double> const& samples) {
    testing::BenchRecord const record =
        testing::bench_record(bench_, name, runtime, metric, unit, samples);
    std::printf("%-28s %-14s %-22s %12.5g %12.5g %12.5g  %s\n", name.c_str(), runtime.c_str(),
                metric.c_str(), record.value, record.low, record.high, unit.c_str());
    std::fflush(stdout);
    records_.push_back(to_json(record));
  }
  /// A point of a curve, at `where` of its axis `axis`: for the file alone.
  void add_point(std::string const& name, std::string const& runtime, std::string const& metric,
                 std::string const& unit, std::vector<double> const& samples,
                 std::string const& axis, double where) {
    io::Json point = to_json(testing::bench_record(bench_, name, runtime, metric, unit, samples));
    point[axis] = where;
    records_.push_back(std::move(point));
  }
  /// Sample by sample, rival over ours.
  void add_ratio(std::string const& name, std::string const& runtime, std::string const& metric,
                 std::vector<double> const& rival, std::vector<double> const& ours) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(rival.size(), ours.size()); ++i)
      ratios.push_back(rival[i] / ours[i]);
    add(name, runtime, metric, "ratio", ratios);
  }

 private:
#ifdef NNTILE_BENCH_SOURCE
  static std::string commit() {
    char text[64] = {};
    if (std::FILE* const pipe =
            popen("git -C '" NNTILE_BENCH_SOURCE "' rev-parse --short=12 HEAD 2>&1", "r")) {
      if (std::fgets(text, sizeof text, pipe) == nullptr) text[0] = 0;
      if (pclose(pipe) != 0) text[0] = 0;
    }
    text[std::strcspn(text, "\n")] = 0;
    return text[0] == 0 ? "unknown" : text;
  }
#endif
  static io::Json machine() {
    io::Json record = testing::machine_record();
#ifdef NNTILE_BENCH_FLAGS
    record["flags"] = NNTILE_BENCH_FLAGS;
#endif
#ifdef NNTILE_BENCH_SOURCE
    record["commit"] = commit();
#endif
    return record;
  }

  std::string bench_;
  Options options_;
  io::Json records_ = io::Json::array();
};

}  // namespace nntile::bench
