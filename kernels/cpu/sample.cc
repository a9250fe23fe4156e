// SPDX-License-Identifier: BSD-3-Clause
// Sampling without memory of its own: instead of sorting, the lowest kept logit is found byte by
// byte.
#include "nntile/ops/sample.hh"

#include "kernels/cpu/functions.hh"
#include "kernels/cpu/text.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

/// A logit as an integer of the same order; both zeros are one.
NNTILE_ALWAYS_INLINE std::uint64_t rank_key(double value) {
  auto const word = __builtin_bit_cast(std::uint64_t, value + 0.0);
  return (word >> 63) != 0 ? ~word : word | (std::uint64_t{1} << 63);
}

/// Logits above `key` are kept, and the first `ties` of those equal to it.
struct Threshold {
  std::uint64_t key = 0;
  Index ties = 0;
};

template <class T> class Column {
 public:
  Column(T const* logits, Index classes, double temperature)
      : logits_(logits), classes_(classes), temperature_(temperature) {}

  /// Fails, by the column's number, where nothing can be drawn.
  Status find_max(KernelCall const& call, Index column) {
    max_ = -__builtin_inf();
    for (Index v = 0; v < classes_; ++v) {
      double const value = at(v);
      if (!(value < __builtin_inf()))
        return FailureText(call) << "logit " << v << " of column " << column << " is "
                                 << (value != value ? "nan" : "inf");
      if (value > max_) max_ = value, largest_ = v;
    }
    if (max_ > -__builtin_inf()) return {};
    return FailureText(call) << "no logit of column " << column << " is finite: all are -inf";
  }
  Index largest() const { return largest_; }

  /// Calls visit(class, key, weight) for every kept class upwards, until it returns false.
  template <class Visit>
  NNTILE_ALWAYS_INLINE void for_each_kept(Threshold threshold, Visit visit) const {
    constexpr Index chunk = 64;
    double weights[chunk];
    for (Index begin = 0; begin < classes_; begin += chunk) {
      Index const n = begin + chunk < classes_ ? chunk : classes_ - begin;
      for (Index i = 0; i < n; ++i) weights[i] = (at(begin + i) - max_) / temperature_;
      for_each_vec<double>(n, [&](Index i, auto part) {
        store(weights + i,
              exp(load(static_cast<double const*>(weights) + i, part)) *
                  Vec<double>(ops::Sample::unit),
              part);
      });
      for (Index i = 0; i < n; ++i) {
        std::uint64_t const key = rank_key(at(begin + i));
        if (key < threshold.key || (key == threshold.key && threshold.ties-- <= 0)) continue;
        if (!visit(begin + i, key, static_cast<std::uint64_t>(weights[i]))) return;
      }
    }
  }

  /// Narrows `kept` to the fewest largest classes whose measure(weight) adds up to `enough`.
  template <class Measure>
  Threshold narrow(Threshold kept, std::uint64_t enough, Measure measure) const {
    std::uint64_t prefix = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
      std::uint64_t sums[256] = {};
      for_each_kept(kept, [&](Index, std::uint64_t key, std::uint64_t weight) {
        if (shift != 56 && (key >> (shift + 8)) != prefix) return true;
        sums[(key >> shift) & 255] += measure(weight);
        return true;
      });
      int digit = 255;
      while (digit > 0 && sums[digit] < enough) enough -= sums[digit--];
      prefix = (prefix << 8) | static_cast<std::uint64_t>(digit);
    }
    // Equal keys have equal weights.
    std::uint64_t const each = weight_at(kept, prefix, measure);
    return {prefix, static_cast<Index>((enough + each - 1) / each)};
  }

 private:
  template <class Measure>
  std::uint64_t weight_at(Threshold kept, std::uint64_t wanted, Measure measure) const {
    std::uint64_t result = 1;
    for_each_kept(kept, [&](Index, std::uint64_t key, std::uint64_t weight) {
      if (key != wanted) return true;
      result = measure(weight);
      return false;
    });
    return result > 0 ? result : 1;
  }
  NNTILE_ALWAYS_INLINE double at(Index v) const {
    return static_cast<double>(static_cast<compute_t<T>>(logits_[v]));
  }

  T const* logits_;  // [v]
  Index classes_;
  double temperature_;
  double max_ = 0;
  Index largest_ = 0;
};

template <class T>
Index draw(ops::Sample::Args const& args, Column<T> const& column, RandomWords const& words) {
  Threshold kept{0, args.v};
  auto const one = [](std::uint64_t) { return std::uint64_t{1}; };
  auto const itself = [](std::uint64_t weight) { return weight; };
  auto const total_of = [&] {
    std::uint64_t total = 0;
    column.for_each_kept(kept, [&](Index, std::uint64_t, std::uint64_t weight) {
      total += weight;
      return true;
    });
    return total;
  };
  if (args.top_k > 0 && args.top_k < args.v)
    kept = column.narrow(kept, static_cast<std::uint64_t>(args.top_k), one);
  if (args.top_p < 1)
    kept = column.narrow(kept, ops::Sample::wanted(args.top_p, total_of()), itself);
  std::uint64_t left = ops::Sample::draw(words, total_of());
  Index chosen = 0;
  column.for_each_kept(kept, [&](Index v, std::uint64_t, std::uint64_t weight) {
    chosen = v;
    if (left < weight) return false;
    left -= weight;
    return true;
  });
  return chosen;
}

template <class T> struct Sample {
  static Status run(KernelCall const& call) noexcept {
    auto const args = arguments<ops::Sample>(call);
    using Operand = ops::Sample::Operand;
    Buffers<ops::Sample> const buffers(call);
    T const* const logits = buffers.at<T>(Operand::logits);  // [v, j]
    auto const step = static_cast<std::uint64_t>(*buffers.at<std::int64_t>(Operand::step));
    auto* const y = buffers.at<std::int64_t>(Operand::y);  // [j]
    for (Index j = 0; j < args.count; ++j) {
      Column<T> column(logits + j * args.leading, args.v, args.temperature);
      Index const number = ops::Sample::column(args, j);
      if (Status const status = column.find_max(call, number); !status.ok()) return status;
      y[j] = args.temperature == 0
                 ? column.largest()
                 : draw(args, column, philox(args.key, static_cast<std::uint64_t>(number), step));
    }
    return {};
  }
};

constinit auto const kernels = op_kernels<ops::Sample, Sample>();

}  // namespace
NNTILE_KERNEL_LIST(sample, kernels)
}  // namespace nntile::kernels::NNTILE_ISA
