#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Records of microbenchmarks, in the form of bench/: figures with their spread, and JSON.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nntile/io/json_text.hh"
#include "nntile/ops/kernel.hh"

namespace nntile::testing {

/// One figure. `low` and `high` are the 5th and 95th percentile of `runs` runs, `value` the median.
struct BenchRecord {
  std::string bench, case_name, runtime, metric;
  double value = 0;
  std::string unit;
  double low = 0, high = 0;
  int runs = 0;
};

/// The q-th quantile of one sample or more, 0 to 1, between neighbours linearly. Throws ValueError
/// for no sample, and another q.
inline double quantile(std::vector<double> samples, double q) {
  if (samples.empty() || !(q >= 0 && q <= 1))
    throw ValueError(concat("quantile ", q, " of ", samples.size(),
                            " samples; one from 0 to 1, of 1 sample or more"));
  std::sort(samples.begin(), samples.end());
  double const at = q * static_cast<double>(samples.size() - 1);
  auto const below = static_cast<std::size_t>(at);
  double const above = samples[std::min(below + 1, samples.size() - 1)];
  return samples[below] + (at - static_cast<double>(below)) * (above - samples[below]);
}

/// The record of one sample or more. Throws ValueError without.
inline BenchRecord bench_record(std::string bench, std::string of, std::string runtime,
                                std::string metric, std::string unit,
                                std::vector<double> const& samples) {
  return {std::move(bench),        std::move(of),           std::move(runtime),
          std::move(metric),       quantile(samples, 0.5),  std::move(unit),
          quantile(samples, 0.05), quantile(samples, 0.95), static_cast<int>(samples.size())};
}

/// `{bench, case, runtime, metric, value, unit, low, high, runs}`.
inline io::Json to_json(BenchRecord const& record) {
  return io::Json::object({{"bench", record.bench},
                           {"case", record.case_name},
                           {"runtime", record.runtime},
                           {"metric", record.metric},
                           {"value", record.value},
                           {"unit", record.unit},
                           {"low", record.low},
                           {"high", record.high},
                           {"runs", record.runs}});
}

namespace detail {

/// The system's field about its first processor; empty if it has none.
inline std::string cpu_field(char const* field) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    std::size_t const colon = line.find(':');
    std::string const name = line.substr(0, colon);
    if (colon != std::string::npos && name.substr(0, name.find('\t')) == field)
      return line.substr(std::min(colon + 2, line.size()));
  }
  return "";
}

/// Its name, and where the system says so, family and model, by which a name that a virtual machine
/// hides is known.
inline void add_cpu(io::Json& machine) {
  std::string const name = cpu_field("model name"), family = cpu_field("cpu family"),
                    model = cpu_field("model");
  machine["cpu"] = name.empty() ? "unknown" : name;
  if (family.empty() || model.empty()) return;
  machine["cpu_family"] = static_cast<std::int64_t>(std::atoi(family.c_str()));
  machine["cpu_model"] = static_cast<std::int64_t>(std::atoi(model.c_str()));
}

inline std::string today() {
  std::time_t const now = std::time(nullptr);
  std::tm day{};
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &day));
  return text;
}

}  // namespace detail

/// The first record of a file: the machine, the compiler, the day. Add "flags" and "commit" where
/// the program knows them.
inline io::Json machine_record() {
  io::Json machine =
      io::Json::object({{"date", detail::today()},
                        {"cores", static_cast<std::int64_t>(std::thread::hardware_concurrency())},
                        {"kernels", name_of(kernels::best())},
                        {"compiler", __VERSION__}});
  detail::add_cpu(machine);
  return machine;
}

/// Writes an array of records, the machine's first. Throws ValueError for a number that is not
/// finite, and leaves the file as it was; Error with the path where it cannot.
inline void write_records(std::string const& path, io::Json const& records) {
  std::string const text = io::to_text(records, 1);
  std::ofstream file(path);  // may be a terminal
  file << text << '\n';
  file.close();
  if (!file) throw Error(concat("cannot write records to ", io::path_in_quotes(path)));
}
inline void write_records(std::string const& path, std::vector<BenchRecord> const& records,
                          io::Json machine = machine_record()) {
  io::Json all = io::Json::array();
  all.push_back(std::move(machine));
  for (BenchRecord const& record : records) all.push_back(to_json(record));
  write_records(path, all);
}

}  // namespace nntile::testing
