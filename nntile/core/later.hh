#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Types that a template names, but not before it is used.

namespace nntile {

namespace detail {
template <class T, class By> struct Later { using type = T; };
}  // namespace detail

/// T; the compiler looks into it when the template whose parameter `By` is comes to be used. A
/// container of one's own type costs 10 ms of every inclusion of a header otherwise.
template <class T, class By> using later_t = typename detail::Later<T, By>::type;

}  // namespace nntile
