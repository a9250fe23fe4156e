#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// Traits that every op's header asks of types of its own, by the compilers' words for them: those
// of <type_traits> say the same and instantiate three templates a type.

namespace nntile {

/// Its value is its bytes.
template <class T>
concept TriviallyCopyable = __is_trivially_copyable(T);

/// A struct without members.
template <class T>
concept Empty = __is_empty(T);

}  // namespace nntile
