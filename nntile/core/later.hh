#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Defers the instantiation of a type until the enclosing template is instantiated.

namespace nntile {

namespace detail {
template <class T, class By> struct Later { using type = T; };
}  // namespace detail

/// T, as a type that depends on `By`, a parameter of the enclosing template. Without it a container
/// of a class type costs every inclusion of the header 10 ms.
template <class T, class By> using later_t = typename detail::Later<T, By>::type;

}  // namespace nntile
