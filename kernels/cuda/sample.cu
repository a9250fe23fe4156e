// SPDX-License-Identifier: BSD-3-Clause
// A team of threads samples a column. Weights are whole numbers, so that their sums have no order:
// what the CPU's kernel finds by adding one class after another is found four bits of a key at a
// time, each time from sixteen sums. Bound: of 50,257 classes 35 passes over the column, which
// stays in the cache, at 10^4 instructions a thread.
#include "nntile/ops/sample.hh"

#include "kernels/cuda/best.hh"

namespace nntile::kernels::cuda {
namespace {

constexpr int digit_bits = 4, digits = 1 << digit_bits;  // of a key, that are found at once
/// Of a block: the sums of each warp.
constexpr std::size_t shared_bytes = row_threads / warp_size * digits * sizeof(std::uint64_t);

template <class T, int size> class Column {
  using V = compute_t<T>;
  using Key = bits_t<V>;
  using Word = std::uint64_t;
  using Args = ops::Sample::Args;

 public:
  static constexpr Index none = -1;

  NNTILE_DEVICE Column(Team<size> const& team, Args const& args, T const* logits)
      : team_(team), args_(args), logits_(logits) {}

  /// The class that is drawn, or `none` where a logit is NaN or none is finite.
  NNTILE_DEVICE Index draw(RandomWords const& words) {
    Best<V> const best =
        first_largest(team_, args_.v, 0, no_best<V>(), [&](Index v) { return at(v); });
    if (!(best.value - best.value == 0)) return none;
    if (args_.temperature == 0) return best.where;
    max_ = static_cast<double>(best.value);
    while ((Index{1} << class_bits_) < args_.v) class_bits_ += digit_bits;
    auto const one = [](V) { return Word{1}; };
    auto const weight = [&](V value) { return weight_of(value); };
    if (args_.top_k > 0 && args_.top_k < args_.v) narrow(static_cast<Word>(args_.top_k), one);
    if (args_.top_p < 1) narrow(ops::Sample::wanted(args_.top_p, total()), weight);
    return nth(ops::Sample::draw(words, total()) + 1, [&](V, Index) { return true; }, weight);
  }

 private:
  static constexpr int key_bits = 8 * sizeof(Key);
  static constexpr Key sign = Key{1} << (key_bits - 1);

  /// Zeros are one, as their keys are.
  NNTILE_DEVICE V at(Index v) const { return static_cast<V>(logits_[v]) + V(0); }
  /// An integer of the same order as the value, and back.
  static NNTILE_DEVICE Key key_of(V value) {
    auto const word = bits(Vec<V>::raw(value)).v;
    return (word & sign) != 0 ? ~word : word | sign;
  }
  static NNTILE_DEVICE V value_of(Key key) {
    return from_bits(Bits<V>((key & sign) != 0 ? key ^ sign : ~key)).v;
  }
  NNTILE_DEVICE Word weight_of(V value) const {
    Vec<double> const x((static_cast<double>(value) - max_) / args_.temperature);
    return static_cast<Word>((exp(x) * Vec<double>(ops::Sample::unit)).v);
  }

  /// The classes that are left: those above the key, and of those equal to it the first ones.
  NNTILE_DEVICE bool is_kept(V value, Index v) const {
    Key const key = key_of(value);
    return key > least_ || (key == least_ && v <= last_);
  }

  NNTILE_DEVICE Word total() const {
    Word sum = 0;
    team_.for_each(args_.v, [&](Index v) {
      if (V const value = at(v); is_kept(value, v)) sum += weight_of(value);
    });
    for (int half = canonical_lanes / 2; half > 0; half /= 2)
      sum += team_.thread().exchange(sum, half);
    Word all = 0;
    team_.gather(sum, [&](Word part) { all += part; });
    return all;
  }

  /// The sum over the team of sums[d], in lane d of each sixteen: lanes halve what they hold with
  /// each exchange.
  NNTILE_DEVICE Word sum_of_lane(Word (&sums)[digits]) const {
    Thread const& thread = team_.thread();
    int const lane = thread.rank() % warp_size;
    for (int half = digits / 2; half > 0; half /= 2)
      for (int d = 0; d < half; ++d) {
        bool const upper = (lane & half) != 0;
        Word const other = thread.exchange(upper ? sums[d] : sums[d + half], half);
        sums[d] = (upper ? sums[d + half] : sums[d]) + other;
      }
    Word const sum = sums[0] + thread.exchange(sums[0], digits);
    if constexpr (size == warp_size) return sum;
    Shared<Word> const all = thread.template shared<Word>(0, size / warp_size * digits);
    if (lane < digits) all[team_.rank() / warp_size * digits + lane] = sum;
    thread.sync();
    Word result = 0;
    for (int warp = 0; warp < size / warp_size; ++warp)
      result += all[warp * digits + lane % digits];
    thread.sync();
    return result;
  }

  /// The largest key, of `bits` bits, from which up the measures of the kept classes that
  /// takes(value, v) add up to `enough`, which is left without those above.
  template <class Takes, class KeyOf, class Measure>
  NNTILE_DEVICE Word find(int bits, Word& enough, Takes takes, KeyOf key_of_class,
                          Measure measure) const {
    Word prefix = 0;
    for (int shift = bits - digit_bits; shift >= 0; shift -= digit_bits) {
      Word sums[digits] = {};
      team_.for_each(args_.v, [&](Index v) {
        V const value = at(v);
        Word const key = key_of_class(value, v) >> shift;
        if (key >> digit_bits != prefix || !is_kept(value, v) || !takes(value, v)) return;
        Word const here = measure(value);
        for (int d = 0; d < digits; ++d) sums[d] += d == static_cast<int>(key % digits) ? here : 0;
      });
      Word const of_lane = sum_of_lane(sums);
      int digit = digits - 1;
      for (int d = digits - 1; d > 0; --d) {
        Word const sum = team_.thread().from(of_lane, d);
        if (digit != d || sum >= enough) continue;
        enough -= sum;
        --digit;
      }
      prefix = prefix << digit_bits | static_cast<Word>(digit);
    }
    return prefix;
  }

  /// The first kept class up to which the measures of those that takes(value, v) reach `enough`.
  template <class Takes, class Measure>
  NNTILE_DEVICE Index nth(Word enough, Takes takes, Measure measure) const {
    Word const mask = (Word{1} << class_bits_) - 1;
    Word const found = find(
        class_bits_, enough, takes, [&](V, Index v) { return mask - static_cast<Word>(v); },
        measure);
    return static_cast<Index>(mask - found);
  }

  /// Keeps the fewest largest classes whose measures add up to `enough`.
  template <class Measure> NNTILE_DEVICE void narrow(Word enough, Measure measure) {
    auto const key = static_cast<Key>(find(
        key_bits, enough, [](V, Index) { return true; },
        [](V value, Index) { return static_cast<Word>(key_of(value)); }, measure));
    // Equal keys have equal weights.
    Word const weight = measure(value_of(key)), each = weight > 0 ? weight : 1;
    last_ = nth((enough + each - 1) / each, [&](V value, Index) { return key_of(value) == key; },
                [](V) { return Word{1}; });
    least_ = key;
  }

  Team<size> const& team_;
  Args const& args_;
  T const* logits_;  // [v]
  double max_ = 0;
  int class_bits_ = digit_bits;
  Key least_ = 0;
  Index last_ = 0;  // no class has the key 0, which is a NaN's
};

template <class T> struct Sample {
  template <int size> struct Kernel {
    static constexpr int threads = row_threads;
    DeviceCall<ops::Sample> call;
    explicit Kernel(KernelCall const& from) : call(from) {}

    NNTILE_DEVICE void operator()(Thread& thread) const {
      using Operand = ops::Sample::Operand;
      auto const& args = call.args();
      auto const buffers = call.buffers();
      T const* const logits = buffers.template at<T const>(Operand::logits);  // [v, j]
      auto const step =
          static_cast<std::uint64_t>(*buffers.template at<std::int64_t const>(Operand::step));
      auto* const y = buffers.template at<std::int64_t>(Operand::y);  // [j]
      Team<size> const team(thread);
      team.for_each_row(args.count, [&](Index j) {
        Column<T, size> column(team, args, logits + j * args.leading);
        auto const number = static_cast<std::uint64_t>(ops::Sample::column(args, j));
        Index const drawn = column.draw(philox(args.key, number, step));
        if (team.rank() == 0) y[j] = drawn;
      });
    }
  };

  static Status enqueue(KernelCall const& call, void* stream) noexcept {
    auto const args = arguments<ops::Sample>(call);
    return launch_over_rows<Kernel>(args.count, args.v, stream, call, shared_bytes);
  }
};

constinit auto const kernels = op_kernels<ops::Sample, Sample>();

}  // namespace
NNTILE_KERNEL_LIST(sample, kernels)
}  // namespace nntile::kernels::cuda
