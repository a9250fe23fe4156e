#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Seeds mistakes in copies of the kernels of kernels/cuda: each is chosen while the copy runs.

usage: simt_mutants.py ROOT OUTPUT...   writes simt_mutants_list.cc, and simt_mutants_<unit>.cc for
                                        each unit, to the outputs of these names

A mistake is text of a source in which what changes stands between « and », and what it becomes. The
text must be there once; a source that changes takes its mistakes along, or the build says which.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
import usage

# Sources, with the headers that are copied too, and the codelets of each.
UNITS = {
    "gemm": (["gemm_pipelined.hh", "gemm.cu"],
             [("Gemm", "Gemm<float>", "fp32"), ("Gemm", "Gemm<bf16_t>", "bf16")]),
    "cross_entropy": (["runs.hh", "rows.hh", "cross_entropy.cu"],
                      [("CrossEntropy", "CrossEntropy<float, std::int64_t>", "fp32, DType::int64"),
                       ("CrossEntropyBackward", "CrossEntropyBackward<bf16_t, std::int64_t>", "bf16, DType::int64")]),
    "sum_slice": (["columns.hh", "rows.hh", "sum_slice.cu"], [("SumSlice", "SumSlice<float>", "fp32")]),
    "layer_norm": (["columns.hh", "rows.hh", "layer_norm.cu"],
                   [("LayerNorm", "LayerNorm<float>", "fp32"),
                    ("LayerNormWeightBackward", "LayerNormWeightBackward<float>", "fp32")]),
    "argmax": (["rows.hh", "best.hh", "argmax.cu"], [("Argmax", "Argmax<float>", "fp32")]),
    "attention": (["rows.hh", "attention_pairs.hh", "attention_backward.hh", "attention.cu"],
                  [("Attention", "Attention<float>", "fp32"),
                   ("AttentionBackward", "AttentionBackward<float>", "fp32")]),
    "cast": (["runs.hh", "cast.cu"], [("Cast", "Cast<bf16_t, float>", "bf16, DType::fp32"),
             ("Cast", "Cast<bf16_t, double>", "bf16, DType::fp64"),
                           ("Cast", "Cast<fp16_t, double>", "fp16, DType::fp64"),
                           ("Cast", "Cast<std::int32_t, float>", "int32, DType::fp32")]),
    "embedding": (["rows.hh", "embedding.cu"],
                  [("Embedding", "Embedding<float, std::int64_t>", "fp32, DType::int64"),
                   ("EmbeddingBackward", "EmbeddingBackward<float, std::int64_t>",
                    "fp32, DType::int64"),
                   ("EmbeddingBackward", "EmbeddingBackward<bf16_t, std::int64_t>",
                    "bf16, DType::int64")]),
    "adamw_step": (["adamw_step.cu"], [("AdamwStep", "AdamwStep<float, float>", "fp32")]),
}

# (kind, source, (text, becomes)...)
MUTANTS = [
    ("barrier", "gemm.cu", ("store(0);\n    «thread.sync();»", "")),
    ("barrier", "gemm.cu", ("store(1 - side);\n      «thread.sync();»", "")),
    ("barrier", "gemm.cu", ("multiply(thread, side, k, sums);\n    «thread.sync();»", "")),
    ("barrier", "gemm.cu", ("first_row(thread), four);\n      }\n      «thread.sync();»", "")),
    ("barrier", "gemm.cu", ("c.put(i + to * args.ldc, sum.v);\n      }\n      «thread.sync();»", "")),
    ("barrier", "gemm.cu", ("store(«1 - side»);", "side")),
    ("barrier", "gemm.cu", ("store(1 - side);\n      «thread.sync();»", "thread.sync_warp();")),
    ("end of memory", "gemm.cu", ("if («whole && steps == depth»)", "whole")),
    ("end of memory", "gemm.cu", ("«line + (by_steps ? 1 : 4) <= there» &&", "line < there")),
    ("end of memory", "gemm.cu", ("«thread.rank() < fours» && line", "true")),
    ("end of memory", "gemm.cu", ("k_first ? «line < there && step + i < steps» :", "line < there")),
    ("end of memory", "gemm.cu", ("k_first ? «line < there && step + i < steps» :",
                                  "line <= there && step + i < steps")),
    ("end of memory", "gemm.cu", (": «line + i < there && step < steps»;",
                                  "line + i <= there && step < steps")),
    ("end of memory", "gemm.cu", (": «line + i < there && step < steps»;",
                                  "line + i < there && step <= steps")),
    ("end of memory", "gemm.cu", ("if («i >= args.m || to >= args.n») continue;",
                                  "i >= args.m || to > args.n")),
    ("end of memory", "gemm.cu", ("if («i >= args.m || to >= args.n») continue;",
                                  "i > args.m || to >= args.n")),
    ("end of memory", "gemm.cu", ("«bias != nullptr && i < args.m»;", "bias != nullptr")),
    ("end of memory", "gemm.cu", ("if (!pair && «i0 + place(i) < args.m && j0 + place(j) < args.n»)",
                                  "i0 + place(i) < args.m")),
    ("alignment", "gemm.cu", ("«reinterpret_cast<std::uintptr_t>(from) % alignof(Quad<S>) == 0»;", "true")),
    ("edge of a tile", "gemm.cu", ("thread.four(of_left, «k * padded_rows + 64 * q + first_row(thread)»)",
                                   "(k + 1) * padded_rows + 64 * q + first_row(thread)")),
    ("edge of a tile", "gemm.cu", ("k < «static_cast<int>(end - begin)»; ++k)",
                                   "static_cast<int>(end - begin) - 1")),
    ("lane", "gemm.cu", ("+ thread.rank() % «warp_size» / 8);", "16")),
    ("order", "gemm.cu", ("k < depth; ++k) multiply(thread, side, «k», sums);", "depth - 1 - k")),
    ("contraction", "gemm.cu", ("sums[j][i] = «fma(of_a[i], of_b[j], sums[j][i])»;",
                                "of_a[i] * of_b[j] + sums[j][i]")),

    ("barrier", "gemm_pipelined.hh", ("wait_for_copies<0>();\n      «thread.sync();»", "")),
    ("barrier", "gemm_pipelined.hh", ("add_few(thread, few, sums);\n      «thread.sync();»", "")),
    ("barrier", "gemm_pipelined.hh", ("«thread.sync();»\n    Vec<T> from_a[2]", "")),
    ("barrier", "gemm_pipelined.hh", ("«thread.sync();»\n        }\n        int const of", "")),
    ("barrier", "gemm_pipelined.hh", ("«thread.sync();»\n        }\n        int const of", "thread.sync_warp();")),
    ("copy", "gemm_pipelined.hh", ("«thread.template wait_for_copies<0>();»\n      thread.sync();", "")),
    ("copy", "gemm_pipelined.hh", ("«thread.template wait_for_copies<stages - 2>();»\n    thread.sync();", "")),
    ("copy", "gemm_pipelined.hh", ("«thread.template wait_for_copies<stages - 2>();»\n          thread.sync();", "")),
    ("copy", "gemm_pipelined.hh", ("«thread.template wait_for_copies<stages - 2>();»\n          thread.sync();",
                                   "thread.template wait_for_copies<stages - 1>();")),
    ("copy", "gemm_pipelined.hh", ("«thread.end_copies();»\n        }\n        if constexpr (last)", "")),
    ("copy", "gemm_pipelined.hh", ("«coming = stage;»", "")),
    ("end of memory", "gemm_pipelined.hh", ("bool const wanted = «rest >= stages»,", "rest >= stages - 1")),
    ("end of memory", "gemm_pipelined.hh", ("from, «step < steps»);", "step <= steps")),
    ("end of memory", "gemm_pipelined.hh", ("«step + lanes < steps»", "step + lanes <= steps")),
    ("end of memory", "gemm_pipelined.hh", ("from + apart * l, «step < steps»);", "step <= steps")),
    ("end of memory", "gemm_pipelined.hh", ("Index const row = «std::min<Index>(own_row, args.m - rows)»;", "own_row")),
    ("end of memory", "gemm_pipelined.hh", ("column = «std::min<Index>(own_column, args.n - columns)»;", "own_column")),
    ("end of memory", "gemm_pipelined.hh", ("right(thread, stage), «stage < panels»);\n      thread.end_copies",
                                            "stage <= panels")),
    ("alignment", "gemm_pipelined.hh", ("«args.ldc % 4 == 0» &&", "true")),
    ("alignment", "gemm_pipelined.hh", ("«reinterpret_cast<std::uintptr_t>(to + i0) % alignof(Quad<T>) == 0»;", "true")),
    ("alignment", "gemm_pipelined.hh", ("alignof(Quad<float>) == 0 &&\n                           «ld % 4 == 0» &&", "true")),
    ("edge of a tile", "gemm_pipelined.hh", ("bool const whole = «i0 >= own_row» &&", "true")),
    ("edge of a tile", "gemm_pipelined.hh", ("if («i0 + row_at(i) + each >= own_row»)", "true")),
    ("edge of a tile", "gemm_pipelined.hh", ("if («j0 + column_at(j) < own_column») continue;", "false")),
    ("edge of a tile", "gemm_pipelined.hh", ("for (int k = 0; «k < steps»; ++k)", "k < steps - 1")),
    ("lane", "gemm_pipelined.hh", ("lane / 16 * 2 + «lane % 2»", "0")),
    ("order", "gemm_pipelined.hh", ("take_rows(thread, left(thread, 0), «k», from_a);", "steps - 1 - k"),
     ("take_columns(thread, right(thread, 0), «k», j, from_b);", "steps - 1 - k")),
    ("order", "gemm_pipelined.hh", ("«add_few(thread, few, sums);»", "")),
    ("contraction", "gemm_pipelined.hh", ("sums[each][i] = «fma(from_a[i], from_b[each], sums[each][i])»;",
                                          "from_a[i] * from_b[each] + sums[each][i]")),
    ("zero", "gemm_pipelined.hh", ("if («!zero» && i0", "true")),

    ("barrier", "rows.hh", ("= value;\n      «thread_.sync();»", "")),
    ("barrier", "rows.hh", ("use(static_cast<T>(all[at]));\n      «thread_.sync();»", "")),
    ("lane", "rows.hh", ("at / sixteens], «at % sixteens * canonical_lanes»)", "0")),
    ("lane", "rows.hh", ("half = «canonical_lanes / 2»; half > 0; half /= 2) NNTILE", "canonical_lanes")),
    ("lane", "rows.hh", ("half = «canonical_lanes / 2»; half > 0; half /= 2)\n    best", "canonical_lanes / 4")),
    ("barrier", "rows.hh", ("keep(begin);\n      }\n      «team.thread().sync();»", "")),
    ("barrier", "rows.hh", ("= sum;\n      }\n      «team.thread().sync();»", "")),
    ("lane", "rows.hh", ("if («team.rank() % canonical_lanes != 0») return;", "team.rank() % warp_size != 0")),
    ("lane", "rows.hh", ("base) / canonical_block + «each * sixteens» + sixteen", "(strides_ahead - 1 - each) * sixteens")),
    ("edge of a tile", "rows.hh", ("«(begin - base)» / canonical_block", "begin")),
    ("order", "rows.hh", ("sum += four.of[«k»];", "3 - k")),
    ("end of memory", "rows.hh", ("begin += at_once) {\n      if («begin + at_once <= n»)", "begin < n")),
    ("end of memory", "rows.hh", ("for (; «begin + at_once <= end»; begin", "begin + 1 <= end")),
    ("lane", "rows.hh", ("if (rank() % «canonical_lanes» == 0) all", "warp_size")),
    ("order", "rows.hh", ("half = «canonical_lanes / 2»; half > 0; half /= 2) NNTILE", "1"),
     ("canonical_lanes / 2; «half > 0»; half /= 2) NNTILE", "half < canonical_lanes"),
     ("canonical_lanes / 2; half > 0; «half /= 2») NNTILE", "half *= 2")),
    ("order", "rows.hh", ("t = 1; t < 4; ++t) value += of(«t»);", "4 - t")),
    ("order", "rows.hh", ("lanes[lane] += term(values_[«4 * stride + t»].of", "4 * stride + (t + 1) % 4")),
    ("lane", "rows.hh", ("for (int half = «2»; half > 0; half /= 2) NNTILE_UNROLL()\n    for (int lane", "1")),
    ("order", "rows.hh", ("return («(lanes[0] + lanes[2]) + (lanes[1] + lanes[3])»).v;",
                          "(lanes[0] + lanes[1]) + (lanes[2] + lanes[3])")),
    ("barrier", "rows.hh", ("= block;\n    }\n    «sync();»", "")),
    ("barrier", "rows.hh", ("sums, count);\n    «sync();»", "")),
    ("lane", "rows.hh", ("if («team_.rank() % 4 == 0») sums", "team_.rank() % 8 == 0")),
    ("lane", "rows.hh", ("shared<T>(\n        static_cast<std::size_t>(«team» * parts)", "0")),
    ("edge of a tile", "rows.hh", ("sums[each * («size / 4») + team_.rank()", "size / 8")),
    ("order", "rows.hh", ("values[«at / sixteens»]", "several - 1 - at / sixteens")),
    ("order", "rows.hh", ("T sum = «start», blocks", "T(0)"), ("  }\n  return «sum»;\n}", "sum + start")),
    ("end of memory", "rows.hh", ("if («first + t * canonical_lanes < n») value",
                                  "first + t * canonical_lanes <= n")),
    ("end of memory", "rows.hh", ("if (whole || «first - lane + canonical_block <= n»)", "first < n")),
    ("end of memory", "rows.hh", ("for_each_of(rank(), size, «n», bodies...)", "n + 1")),
    ("edge of a tile", "rows.hh", ("four % 4 * «16»;", "4")),
    ("end of memory", "rows.hh", ("held = fours && «length % 4 == 0»;", "true")),
    ("end of memory", "rows.hh", ("if («step(four) < left_») values_", "step(four) <= left_")),
    ("end of memory", "rows.hh", ("if («step(four) < left_») body", "step(four) <= left_")),
    ("edge of a tile", "rows.hh", ("if («begin + t * 16 >= left_») continue;", "begin + t * 16 + 4 >= left_")),
    ("zero", "rows.hh", ("return «top + T(0)»;", "top")),
    ("NaN", "rows.hh", ("return «a > b || a != a ? a : b»;", "a > b ? a : b")),
    ("NaN", "rows.hh", ("if («nan») best", "false")),
    ("edge of a tile", "rows.hh", ("i + («ahead - 1») * size < n", "ahead - 2")),

    ("contraction", "sum_slice.cu",
     ("sum = «fma(from.alpha, get(from.x + slab + k * args.whole.k), sum)»;",
      "from.alpha * get(from.x + slab + k * args.whole.k) + sum")),
    ("order", "sum_slice.cu",
     ("sum = «fma(from.alpha, get(from.x + slab + k * args.whole.k), sum)»;",
      "fma(from.alpha, get(from.x + slab + (args.k - 1 - k) * args.whole.k), sum)")),

    ("contraction", "sum_slice.cu", ("{ sum = «fma(from.alpha, x[0], sum)»; }", "from.alpha * x[0] + sum")),

    ("barrier", "columns.hh", ("«thread.sync();»  // those", "")),
    ("barrier", "columns.hh", ("make_rows(std::false_type{}, left);\n    }\n    «thread.sync();»", "")),
    ("barrier", "columns.hh", ("«thread.sync();»  // those", "thread.sync_warp();")),
    ("end of memory", "columns.hh", ("if (whole || «first + each * Tile::apart < left») held",
                                     "first + each * Tile::apart <= left")),
    ("end of memory", "columns.hh", ("if («begin + rows <= k»)", "begin < k")),
    ("end of memory", "columns.hh", ("bool const reads = «rank % columns < count»;", "rank % columns <= count")),
    ("end of memory", "columns.hh", ("if («rank < rows && begin + rank < k»)", "rank < rows")),
    ("end of memory", "columns.hh", ("bool const adds = «column < columns && column < count»;", "column < columns")),
    ("edge of a tile", "columns.hh", ("bool const adds = «column < columns && column < count»;", "column < count")),
    ("edge of a tile", "columns.hh", ("if (!whole && «row >= left») continue;", "row + 1 >= left")),
    ("edge of a tile", "columns.hh", ("if («left > rows») read(begin + rows);", "left > rows + 1")),
    ("edge of a tile", "columns.hh", ("if (left > rows) read(«begin + rows»);", "begin + rows + 1")),
    ("edge of a tile", "columns.hh", ("row < «static_cast<int>(left)»; ++row) add", "static_cast<int>(left) - 1")),
    ("edge of a tile", "columns.hh", ("if («rank < rows && rank < left»)", "rank < rows && rank + 1 < left")),
    ("edge of a tile", "columns.hh", ("own[of] = strip.of_row[of][«begin + rank»];", "rank")),
    ("edge of a tile", "columns.hh", ("strips = «(m + Strip::columns - 1)» /", "m")),
    ("order", "columns.hh", ("row < rows; ++row) add(«row»);", "rows - 1 - row")),
    ("order", "columns.hh", ("++row) add(«row»);\n    }\n  }", "static_cast<int>(left) - 1 - row")),

    ("contraction", "layer_norm.cu", ("sums.by_gamma = «fma(of[0], of[1], sums.by_gamma)»;",
                                      "of[0] * of[1] + sums.by_gamma")),
    ("contraction", "layer_norm.cu",
     ("values.of[k] = «fma((of.of[k] - mean) * rstd, get(factors.of + k), get(terms.of + k))»;",
      "(of.of[k] - mean) * rstd * get(factors.of + k) + get(terms.of + k)")),
    ("reciprocal", "layer_norm.cu", ("mean = chain.last ? «Vec<V>::raw(sum) / count» :",
                                     "Vec<V>::raw(sum) * (Vec<V>(1) / count)")),

    ("edge of a tile", "cross_entropy.cu", ("picked < p + «count»)", "count - 1")),
    ("edge of a tile", "cross_entropy.cu", ("if («p + k» == picked)", "p + count - 1 - k")),
    ("alignment", "cross_entropy.cu", ("return «packs(Operand::logits, args.ldx)» &&", "true"),
     ("&& «packs(Operand::dlogits, args.lddx)»", "true")),
    ("end of memory", "runs.hh", ("Index i = rank * length; «i + length <= n»;", "i < n")),
    ("edge of a tile", "runs.hh", ("Index i = «n / length * length» + rank;", "n / length * length + 1")),

    ("order", "best.hh", ("Best<V> result = «a.where <= b.where ? a : b»;", "b")),
    ("lane", "best.hh", ("half = «canonical_lanes / 2»; half > 0", "canonical_lanes / 4")),
    ("edge of a tile", "best.hh", ("offer(best, value(i), «begin + i»);", "i")),

    ("barrier", "attention_pairs.hh", ("«thread_.sync();»\n      fetch_columns(outers", "")),
    ("barrier", "attention_pairs.hh", ("depth * line);\n      «thread_.sync();»", "")),
    ("barrier", "attention_pairs.hh", ("«thread_.sync();»\n      NNTILE_UNROLL(4)", "")),
    ("barrier", "attention_pairs.hh", ("= value.v;\n      }\n      «thread_.sync();»", "")),
    ("end of memory", "attention_pairs.hh", ("if («row < rows.count»)", "row <= rows.count")),
    ("end of memory", "attention_pairs.hh", ("if («e < d») value", "e <= d")),
    ("end of memory", "attention_pairs.hh", ("outer(i) < rows && «column(c) < d») body", "column(c) <= d")),
    ("end of memory", "attention_pairs.hh", ("if («outer(i) < rows» && column(c)", "outer(i) <= rows")),
    ("edge of a tile", "attention_pairs.hh", ("if («step >= steps») continue;", "step > steps")),
    ("barrier", "attention.cu", ("args.d);\n      «thread.sync();»", "")),
    ("barrier", "attention.cu", ("= best.v;\n      }\n      «thread.sync();»", "")),
    ("barrier", "attention.cu", ("raw(shift)).v;\n      }\n      «thread.sync();»", "")),
    ("barrier", "attention.cu", ("*= factor;\n      }\n      «thread.sync();»", "")),
    ("barrier", "attention.cu", ("total;\n      }\n      «block.thread().sync();»", "")),
    ("edge of a tile", "attention.cu", ("return «j <= i + diagonal»;", "j < i + diagonal")),
    ("edge of a tile", "attention.cu", ("if («block.inner_at(j) < keys» && sees", "true")),
    ("order", "attention.cu", ("total += block.pair_at(«j», query);", "keys - 1 - j")),
    ("NaN", "attention.cu", ("top = «total == total ? next + V(0) : total»;", "next + V(0)")),

    ("rounding", "cast.cu", ("convert<To>(«run.of[k]»);", "static_cast<From>(static_cast<float>(run.of[k]))")),
    ("end of memory", "cast.cu", ("To* const to = y + («i + c * of_y»);", "i + c * of_y + 1")),
    ("end of memory", "runs.hh", ("if («i + length <= n»)\n      body", "i < n")),
    ("edge of a tile", "runs.hh", ("for (; «i < n»; ++i) body", "i + 1 < n")),
    ("edge of a tile", "runs.hh", ("Index i = «place.i * length»;", "place.i * (length - 1)")),
    ("lane", "runs.hh", ("values.of[«begin + 2 * k + 1»].v", "begin + 2 * k")),

    ("order", "embedding.cu", ("list[count + «__builtin_popcount(word & ((1u << lane) - 1))»]",
                               "__builtin_popcount(word & (~1u << lane))")),
    ("order", "embedding.cu", ("word = words[«each * token_warps + of»];\n", "of * compared + each")),
    ("order", "embedding.cu", ("values[each + k] = base[numbers.of[«k»]", "3 - k")),
    ("edge of a tile", "embedding.cu", ("if («first + each >= count») continue;", "first + each > count")),
    ("edge of a tile", "embedding.cu", ("if («thread.rank() < ahead») list", "thread.rank() < ahead / 4")),
    ("order", "embedding.cu", ("from + list[first + each] < «args.left_terms»", "args.left_terms - 1")),
    ("lane", "embedding.cu", ("base = dy + «from» * args", "i")),
    ("lane", "embedding.cu", ("«each * threads + thread.rank()»);\n          count",
                              "thread.rank()")),
    ("lane", "embedding.cu", ("words[«thread_.rank() / warp_size»] = own", "0")),
    ("lane", "embedding.cu", ("half = «warp_size / 2»; half > 0; half /= 2) bits", "warp_size / 4")),
    ("lane", "embedding.cu", ("Pair const p(at + «first_lane(firsts.open)» *", "0")),
    ("lane", "embedding.cu", ("table + (v + «first_lane(rows.open)» *", "0")),
    ("barrier", "embedding.cu", ("words[thread_.rank() / warp_size] = own;\n      «thread_.sync();»", "")),
    ("barrier", "embedding.cu", ("= word;\n        }\n        «thread.sync();»", "")),
    ("barrier", "embedding.cu", ("list[count + thread.rank()] = 0;\n        «thread.sync();»", "")),
    ("barrier", "embedding.cu", ("«turn_ ^= token_warps * sizeof(std::uint32_t);»", "")),
    ("end of memory", "embedding.cu", ("if («each * threads < left» && own", "each * threads <= left")),
    ("end of memory", "embedding.cu", ("if (v >= 0 && «v < args.v»)\n", "v <= args.v")),
    ("end of memory", "embedding.cu", ("item < items && v >= 0 && «v < args.v»,", "v <= args.v")),
    ("end of memory", "embedding.cu", ("firsts.set(k, «item < items» &&", "true")),
    ("end of memory", "embedding.cu", ("rows.set(k, «each < args.v»,", "each <= args.v")),
    ("end of memory", "embedding.cu", ("bool const own = «e < args.e»;", "e <= args.e")),
    ("end of memory", "embedding.cu", ("if («each * token_threads < left») values", "true")),
    ("edge of a tile", "embedding.cu", ("if («at < end[k]» && values", "at <= end[k]")),
    ("edge of a tile", "embedding.cu", ("if («each * token_threads >= left») continue;", "each * token_threads + 2 >= left")),
    ("edge of a tile", "embedding.cu", ("if («end_ > last») last", "last == 0")),
    ("edge of a tile", "embedding.cu", ("begin += «met_ahead * token_threads») {", "(met_ahead + 1) * token_threads")),
    ("edge of a tile", "embedding.cu", ("from += «run») {", "run + 32")),

    ("barrier", "adamw_step.cu", ("«thread.sync();»", "")),
    ("lane", "adamw_step.cu", ("if («thread.rank() < 2») {", "thread.rank() < 1")),
]

SEEDED = "::nntile::test::simt::is_seeded"


def changed(source, text):
    """The text with all mistakes of the source."""
    places = {}  # (begin, end): [(number, becomes)]
    for number, (_, of, *changes) in enumerate(MUTANTS, 1):
        for anchor, becomes in changes if of == source else []:
            before, old, after = re.fullmatch("(.*?)«(.*)»(.*)", anchor, re.DOTALL).groups()
            if text.count(before + old + after) != 1:
                sys.exit(f"simt_mutants.py: {source} has not once: {before}{old}{after}")
            begin = text.index(before + old + after) + len(before)
            places.setdefault((begin, begin + len(old)), []).append((number, becomes))
    result, end = text, len(text) + 1
    for (begin, last), news in sorted(places.items(), reverse=True):
        old = text[begin:last]
        assert last <= end, f"{source}: mistakes overlap: {old}"
        if old.endswith(";"):
            code = "".join(f"if ({SEEDED}({n})) {{ {new} }} else " for n, new in news) + f"{{ {old} }}"
        else:
            code = "(" + "".join(f"{SEEDED}({n}) ? ({new}) : " for n, new in news) + f"({old}))"
        result = result[:begin] + code + result[last:]
        end = begin
    return result


def unit_text(root, name):
    sources, codelets = UNITS[name]
    whole = ""
    for source in sources:
        text = changed(source, (root / "kernels/cuda" / source).read_text(encoding="utf-8"))
        for other in sources:
            text = text.replace(f'#include "kernels/cuda/{other}"\n', "")
        text = text.replace("#pragma once\n", "")
        if source.endswith(".hh"):  # beside the unchanged one
            text = re.sub(r"^namespace nntile::kernels::cuda\S* \{$", r"\g<0> inline namespace seeded {",
                          text, flags=re.MULTILINE)
            text = text.replace("}  // namespace nntile", "} }  // namespace nntile")
        whole += text
    entries = ", ".join(f'{{"{op}", nullptr, &{body}::enqueue, nullptr, 0, '
                        f"&computation_of<ops::{op}, DType::{types}>}}" for op, body, types in codelets)
    whole = re.sub(r"constinit auto const kernels\s*=.*?;", f"constexpr Codelet mistaken[] = {{{entries}}};",
                   whole, flags=re.DOTALL)
    whole = re.sub(r"NNTILE_KERNEL_LIST\((\w+), (.*)kernels\)",
                   r"extern std::span<Codelet const> const mistaken_\1;"
                   r" constinit std::span<Codelet const> const mistaken_\1 = \2mistaken;", whole)
    return ('#include <bit>\n#include <span>\n#include "nntile/core/computation.hh"\n'
            '#include "kernels/cuda/kernel.hh"\n#include "tests/support/simt/seeded.hh"\n' + whole)


def list_text():
    lines = ['#include "tests/support/simt/seeded.hh"', "namespace nntile {"]
    lines += [f"namespace kernels::cuda {{ extern std::span<Codelet const> const mistaken_{name}; }}" for name in UNITS]
    lines += ["namespace test::simt {", "std::vector<Unit> seeded_units() {", "  return {"]
    lines += [f'    {{"{name}", kernels::cuda::mistaken_{name}}},' for name in UNITS]
    lines += ["  };", "}", "std::vector<Mutant> mutants() {", "  return {"]
    for number, (kind, source, *changes) in enumerate(MUTANTS, 1):
        words = []
        for anchor, becomes in changes:
            old = re.search("«(.*)»", anchor, re.DOTALL)[1]
            words.append(f"{old} becomes {becomes}" if becomes else f"{old} is missing")
        units = ", ".join(f'"{name}"' for name, (sources, _) in UNITS.items() if source in sources)
        lines.append(f'    {{{number}, "{kind}", "{source}", R"~({"; ".join(words)})~", {{{units}}}}},')
    return "\n".join([*lines, "  };", "}", "}", "}", ""])


def main(root, *outputs):
    for output in map(pathlib.Path, outputs):
        name = output.stem.removeprefix("simt_mutants_")
        output.write_text(list_text() if name == "list" else unit_text(pathlib.Path(root), name), encoding="utf-8")


if __name__ == "__main__":
    main(*usage.check(__doc__, 2))
