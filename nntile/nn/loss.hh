#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The loss of a language model.

#include "nntile/graph/apply.hh"
#include "nntile/ops/cross_entropy.hh"
#include "nntile/ops/sum_slice.hh"

namespace nntile::nn {

/// Sum over tokens of -log softmax(logits)[label], divided by the number of all tokens: logits[v,
/// s, b], labels int64 [s, b], result a scalar in nats. A label of -100 adds nothing to the sum,
/// but its token counts in the divisor, unlike in torch.nn.functional.cross_entropy. Sums over s,
/// then over b, and scales in the last stage. Without tokens the result is 0.
inline Node mean_cross_entropy(Node const& logits, Node const& labels,
                               std::string const& name = "loss") {
  Node total = cross_entropy(logits, labels);
  Index const tokens = element_count(labels.shape());
  double const scale = 1.0 / static_cast<double>(tokens > 0 ? tokens : 1);
  bool later = false;
  for (; total.shape().size() > 1; later = true)
    total = sum_slice({.axis = 0, .ascending = later}, total);
  return sum_slice({.axis = 0, .alpha = scale, .ascending = later}, total,
                   logits.graph().tensor({.shape = {}, .dtype = total.dtype()}, name));
}

}  // namespace nntile::nn
