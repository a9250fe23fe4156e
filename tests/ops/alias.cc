// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/ops/alias.hh"

#include <cstring>
#include <numeric>
#include <set>

#include "nntile/ops.hh"
#include "nntile/runtime/serial/serial.hh"
#include "nntile/tile/tile.hh"
#include "tests/support/catch.hh"
#include "tests/support/message.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

/// Operands of an op, every axis of the same extent, each group of the ranks that the op fixes.
struct Sample {
  Operands operands;  // that a caller sees
  std::vector<Tiling> tilings;
  std::vector<DType> dtypes;
};

/// With every axis whole or cut; "k..." is one dimension where nothing fixes it.
Sample sample_of(OpInfo const& op, void const* attrs, Index tile) {
  Sample sample;
  Index extent = 131;  // two blocks of 64 and a rest
  for (OperandInfo const& operand : op.operands(attrs))
    if (nntile::detail::axis_tokens(operand.axes).size() > 3) extent = 3;  // four dimensions
  nntile::detail::GroupTable ranks;
  for (GroupRank const& fixed : op.ranks(attrs)) ranks[fixed.group] = fixed.rank;
  for (OperandInfo const& operand : op.operands(attrs)) {
    if (operand.carry != Carry::none) continue;
    std::vector<AxisTiling> axes;
    for (auto const token : nntile::detail::axis_tokens(operand.axes)) {
      int const rank = token.many && ranks[token.group] >= 0 ? ranks[token.group] : 1;
      for (int d = 0; d < rank; ++d)
        axes.push_back(token.whole || tile == 0 ? AxisTiling::whole(extent)
                                                : AxisTiling::uniform(extent, tile));
    }
    sample.operands.push_back(operand);
    sample.tilings.emplace_back(std::move(axes));
    DType const element = op.dtypes.empty() ? DType::fp32 : op.dtypes[op.dtypes.size() > 1];
    sample.dtypes.push_back(dtype_of_kind(operand.kind, usual_types(op, element)));
  }
  return sample;
}

/// Deterministic values: small positive floats that depend on `seed`, and the integer 1, which is a
/// token, a label and a step.
void set(std::span<std::byte> bytes, DType dtype, std::size_t seed) {
  for_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i * sizeof(T) < bytes.size(); ++i) {
      T value;
      if constexpr (std::is_integral_v<T>)
        value = T(1);
      else
        value = T(static_cast<float>((i * 7 + seed * 5) % 11 + 1) / 4);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
}

/// Runs the op on serial and returns the bytes of its results. Operand o begins with values that
/// depend on like[o], and lies in the memory of operand of[o].
std::vector<std::byte> run(OpInfo const& op, void const* attrs, Sample const& sample,
                           std::vector<std::size_t> const& of,
                           std::vector<std::size_t> const& like) {
  Serial runtime;
  std::vector<std::vector<Serial::Handle>> handles(sample.operands.size());
  std::vector<TiledOperand<Serial>> operands;
  for (std::size_t o = 0; o < handles.size(); ++o)
    for (Index tile = 0; tile < sample.tilings[o].tile_count(); ++tile) {
      Index const count = element_count(sample.tilings[o].box(tile).extent);
      handles[o].push_back(
          runtime.allocate(static_cast<std::size_t>(count) * size_of(sample.dtypes[o])));
      set(runtime.lock(handles[o].back(), Access::write), sample.dtypes[o],
          like[o] + static_cast<std::size_t>(tile));
      runtime.unlock(handles[o].back());
    }
  for (std::size_t o = 0; o < handles.size(); ++o)
    operands.push_back({&runtime, sample.dtypes[o], &sample.tilings[o], handles[of[o]].data(),
                        sample.operands[o].name});
  submit_op<Serial>(op, attrs, operands, [](Event) {});
  runtime.wait_all();
  std::vector<std::byte> bytes;
  for (std::size_t o = 0; o < handles.size(); ++o)
    for (auto const handle : handles[of[o]]) {
      auto const tile = runtime.lock(handle, Access::read);
      if (writes(sample.operands[o].access)) bytes.insert(bytes.end(), tile.begin(), tile.end());
      runtime.unlock(handle);
    }
  return bytes;
}

/// Tries each result of the op in the memory of each operand of its shape and dtype: what is
/// refused must name both, what is not must give the bits of separate memory. Adds the latter to
/// `allowed`: "add: z=x".
void check_pairs(OpInfo const& op, void const* attrs, Index tile, std::set<std::string>& allowed) {
  Sample const sample = sample_of(op, attrs, tile);
  std::vector<std::size_t> apart(sample.operands.size());
  std::iota(apart.begin(), apart.end(), 0u);
  for (std::size_t r = 0; r < apart.size(); ++r)
    for (std::size_t o = 0; o < apart.size(); ++o) {
      bool const fits =
          sample.tilings[o] == sample.tilings[r] && sample.dtypes[o] == sample.dtypes[r];
      if (o == r || !writes(sample.operands[r].access) || !fits) continue;
      std::vector<std::size_t> shared = apart;
      shared[r] = o;
      INFO(op.name << ": " << sample.operands[r].name << " = " << sample.operands[o].name);
      std::vector<std::byte> in_place;
      std::string const text =
          message_of<ValueError>([&] { in_place = run(op, attrs, sample, shared, shared); });
      if (in_place.empty()) {
        CHECK(contains(text, concat(op.name, ": its result ")));
        CHECK(contains(text, concat(" ('", sample.operands[r].name, "')")));
        CHECK(contains(text, concat(" ('", sample.operands[o].name, "')")));
        continue;
      }
      allowed.insert(concat(op.name, ": ", sample.operands[r].name, "=", sample.operands[o].name));
      CHECK(in_place == run(op, attrs, sample, apart, shared));
    }
}

template <OpStruct Op> void check_op(std::set<std::string>& allowed) {
  typename Op::Attrs attrs{};
  for (Index const tile : {Index{0}, Index{64}}) check_pairs(op_info<Op>, &attrs, tile, allowed);
  if constexpr (requires { attrs.beta; }) {
    attrs.beta = 0.5;
    check_pairs(op_info<Op>, &attrs, 0, allowed);
  }
}

template <class... Lists> std::set<std::string> allowed_pairs() {
  std::set<std::string> allowed;
  ([&]<class... Ops>(OpList<Ops...>) { (check_op<Ops>(allowed), ...); }(Lists{}), ...);
  return allowed;
}

}  // namespace

TEST_CASE("a result in an operand's memory has the bits of separate memory, or is refused by name",
          "[ops][alias]") {
  std::set<std::string> const expected{"add: z=x",
                                       "add: z=y",
                                       "add_fiber: z=x",
                                       "add_slice: z=x",
                                       "copy: y=x",
                                       "cross_entropy_backward: dlogits=logits",
                                       "gelutanh: y=x",
                                       "gelutanh_backward: dx=dy",
                                       "gelutanh_backward: dx=x",
                                       "scale: y=x",
                                       "softmax: y=x",
                                       "softmax_backward: dx=dy",
                                       "softmax_backward: dx=y"};
  CHECK(allowed_pairs<adamw_step_ops, add_ops, add_fiber_ops, add_slice_ops, argmax_ops,
                      attention_ops, cast_ops, copy_ops, cross_entropy_ops, embedding_ops, fill_ops,
                      gelutanh_ops, gemm_ops, global_norm_ops, kv_cache_append_ops, layer_norm_ops,
                      randn_ops, sample_ops, scale_ops, softmax_ops, sum_slice_ops>() == expected);
}

TEST_CASE("a refusal names what a result may replace, unless that is what it may not",
          "[ops][alias]") {
  Serial runtime;
  Tile<float, Serial> const a(runtime, {4}, "a"), b(runtime, {4}, "b");
  auto const refusal = [&](auto const& x) {
    return message_of<ValueError>([&] { add_fiber(x, b, b); });
  };
  std::string const text =
      "add_fiber: its result z ('b') is also its operand f ('b'), which it may not overwrite; give "
      "z a tensor of its own";
  CHECK(refusal(a) == text + " or the one of x");
  CHECK(refusal(b) == text);
}

TEST_CASE("views of one base meet unless they are two indices of one dimension", "[ops][alias]") {
  int base = 0, other = 0;
  Footprint const whole{&base}, first{&base, 1, 0}, second{&base, 1, 1}, across{&base, 0, 0};
  CHECK(whole.overlaps(first));
  CHECK(first.overlaps(whole));
  CHECK(first.overlaps(first));
  CHECK(first.overlaps(across));
  CHECK_FALSE(first.overlaps(second));
  CHECK_FALSE(whole.overlaps(Footprint{&other}));
  CHECK_FALSE(Footprint{}.overlaps(Footprint{}));
}
