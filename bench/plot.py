#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws the records of a bench: a panel for each metric, a line for each case, a dot for each runtime (hollow: with one
worker; square: kernels held to AVX2), from the 5th to the 95th percentile. Records with a `task_us` or `ranks`
are points of curves over it: a panel for each case, above the others.

usage: plot.py RECORDS.json PICTURE.svg
"""
import sys

import summary

COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#e9a23b", "#7b4fa3", "#4f8f9d", "#8c5b3f", "#666666",
           "#c2557a", "#9aa53a", "#2f4b7c", "#b08968"]
ROW = 0.2  # inches
DOT = 0.45  # rows
CURVES = 3  # panels of curves beside each other
CURVE_HEIGHT = 2.3  # inches
AXES = {"task_us": "duration of a task [us]", "ranks": "ranks"}  # of curves
PLAIN_RATIO = 20  # a panel whose values lie further apart has a logarithmic axis


def order(values):
    """Each once, in the order they came."""
    return list(dict.fromkeys(values))


def base(runtime):
    return runtime.removesuffix("_v3").removesuffix("_1")


def mark(runtime, colour):
    """One worker is hollow, in the colour of two."""
    return {"marker": "s" if runtime.endswith("_v3") else "o", "color": colour, "markersize": 4,
            "markerfacecolor": "white" if "_1" in runtime else colour}


def about(machine):
    parts = [f"{key} {machine[key]}" if key in ("kernels", "commit") else str(machine[key])
             for key in ("date", "cpu", "machine", "compiler", "flags", "kernels", "commit") if key in machine]
    if "cores" in machine:
        parts.insert(2, f"{machine['cores']} cores")
    return ", ".join(parts)


def draw(axes, metric, records, colours):
    cases = order(record["case"] for record in records)
    runtimes = order(record["runtime"] for record in records)
    for index, record in enumerate(records):
        shift = (runtimes.index(record["runtime"]) - (len(runtimes) - 1) / 2) * 0.7 / len(runtimes)
        y = cases.index(record["case"]) + shift
        colour = colours[record["runtime"]]
        axes.plot([record["low"], record["high"]], [y, y], color=colour, linewidth=1.2, solid_capstyle="butt")
        axes.plot([record["value"]], [y], **mark(record["runtime"], colour))
    values = [record["value"] for record in records]
    if min(values) > 0 and max(values) > PLAIN_RATIO * min(values):
        axes.set_xscale("log")
    elif min(values) >= 0 and records[0]["unit"] != "ratio":
        axes.set_xlim(0, 1.05 * max(record["high"] for record in records) or 1)
    if records[0]["unit"] == "ratio":
        axes.axvline(1, color="#999999", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(cases)), cases)
    axes.set_ylim(len(cases) - 0.4, -0.6)
    axes.grid(axis="x", color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_title(f"{metric} [{records[0]['unit']}]", loc="left", fontsize=9)
    axes.tick_params(which="both", labelsize=7)


def axis_of(record):
    """The axis of curves that a record has a place on; none: it is of no curve."""
    return next((axis for axis in AXES if axis in record), None)


def draw_curves(axes, case, records, colours):
    """Efficiency against the size of tasks, where it is one half, the size is METG(50 %); or against ranks."""
    axis = axis_of(records[0])
    for runtime in order(record["runtime"] for record in records):
        points = sorted((r[axis], r["value"], r["low"], r["high"]) for r in records if r["runtime"] == runtime)
        sizes, values, lows, highs = zip(*points)
        axes.fill_between(sizes, lows, highs, color=colours[runtime], alpha=0.15, linewidth=0)
        axes.plot(sizes, values, color=colours[runtime], linewidth=1.2, marker="o", markersize=2)
    if axis == "ranks":
        most = max(record[axis] for record in records)
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks := [4**i for i in range(9) if 4**i <= most], [str(tick) for tick in ticks])
        axes.set_ylim(0, 1.02)
    else:
        axes.axhline(0.5, color="#999999", linewidth=0.8, zorder=0)
        axes.set_xscale("log")
        axes.set_ylim(0, 1)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.set_axisbelow(True)
    axes.set_title(f"{case}: {records[0]['metric']}", loc="left", fontsize=8)
    axes.set_xlabel(AXES[axis], fontsize=7)
    axes.tick_params(which="both", labelsize=7)


def main():
    if len(sys.argv) != 3:
        asked = sys.argv[1:] in (["--help"], ["-h"])
        print(__doc__.strip(), file=sys.stdout if asked else sys.stderr)
        sys.exit(0 if asked else 2)
    try:
        machine, *records = summary.records_of(sys.argv[1])
    except (OSError, ValueError) as error:
        sys.exit(f"{sys.argv[1]}: no picture: {error}")
    try:
        import matplotlib
        matplotlib.use("svg")
        from matplotlib import pyplot
    except ImportError:
        print("no picture: matplotlib is not there; Debian's package is python3-matplotlib")
        return
    if not records:
        sys.exit(f"{sys.argv[1]}: there are no records in it")
    # A fixed salt and no date: the same records give the same file.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "nntile", "font.family": "sans-serif"})
    runtimes = order(record["runtime"] for record in records)
    bases = order(base(runtime) for runtime in runtimes)
    colours = {runtime: COLOURS[bases.index(base(runtime)) % len(COLOURS)] for runtime in runtimes}
    points = [r for r in records if axis_of(r)]
    curves = {case: [r for r in points if r["case"] == case] for case in order(r["case"] for r in points)}
    panels = {metric: [r for r in records if r["metric"] == metric]
              for metric in order(r["metric"] for r in records if not axis_of(r))}
    rows = [len({r["case"] for r in panel}) * max(1, DOT * len({r["runtime"] for r in panel})) + 3 for panel in panels.values()]
    lines = -(-len(curves) // CURVES)
    rows = [CURVE_HEIGHT / ROW] * lines + rows
    figure = pyplot.figure(figsize=(8, ROW * sum(rows) + 1))
    grid = figure.add_gridspec(len(rows), CURVES, height_ratios=rows)
    for place, (case, panel) in enumerate(curves.items()):
        draw_curves(figure.add_subplot(grid[place // CURVES, place % CURVES]), case, panel, colours)
    for line, (metric, panel) in enumerate(panels.items(), lines):
        draw(figure.add_subplot(grid[line, :]), metric, panel, colours)
    marks = [pyplot.Line2D([], [], linewidth=1.2, **mark(name, colour)) for name, colour in colours.items()]
    height = figure.get_figheight()
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.75 / height))
    heading = f"{records[0]['bench']}: {about(machine)}"
    figure.text(0.01, 1 - 0.2 / height, heading, fontsize=min(9, 1000 / len(heading)))
    figure.legend(marks, [name or "g++" for name in colours], loc="upper left", ncols=6, fontsize=7, frameon=False,
                  bbox_to_anchor=(0, 1 - 0.22 / height))
    figure.savefig(sys.argv[2], metadata={"Date": None})


main()
