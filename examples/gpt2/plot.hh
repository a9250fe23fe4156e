#pragma once
// SPDX-License-Identifier: BSD-3-Clause
// The picture of a training run as SVG: training loss, its smoothed curve, validation losses. Knows
// numbers only; equal numbers give equal bytes.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nntile/core/utf8.hh"

namespace gpt2 {

/// The data of a plot. Losses that are not finite, or beyond 1e300, are left out.
struct LossCurve {
  std::string title;
  std::string unit = "nats per byte";
  std::vector<double> train;  // of steps train_every, 2 train_every, ...
  double train_every = 1;
  double steps = 0;                // of the run, where `train` ends before them
  std::vector<double> valid_step;  // steps at which `valid` was measured
  std::vector<double> valid;
};

namespace detail {

// Geometry in pixels of the picture's own scale; a browser scales it to its window.
inline constexpr double width = 960, height = 540;
inline constexpr double left = 78, right = 920, top = 84, bottom = 476;

/// "12.50"; of 1e15 and more "1.250e+16".
inline std::string fixed(double value, int decimals) {
  char digits[64];
  bool const plain = std::abs(value) < 1e15;
  auto const end = std::to_chars(digits, digits + sizeof digits, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific,
                                 plain ? decimals : 3)
                       .ptr;
  std::string text(digits, end);
  // "-0.0" where something negative was rounded away
  return text.find_first_of("123456789") == std::string::npos && text[0] == '-' ? text.substr(1)
                                                                                : text;
}

/// "12,000".
inline std::string grouped(double value) {
  std::string text = fixed(value, 0);
  if (text.find('e') != text.npos) return text;
  for (std::size_t at = text.size(); at > 3 && text[at - 4] != '-';) text.insert(at -= 3, 1, ',');
  return text;
}

/// Borders and ticks of an axis; ticks are 1, 2 or 5 times a power of ten apart.
struct Axis {
  double low = 0, high = 1, step = 1;
  int decimals = 0;

  /// A range that labels of some ten digits would not show is a single number's.
  static Axis over(double low, double high, int ticks) {
    double const size = std::max(1.0, std::abs(low));
    if (!(high - low > 1e-9 * size)) high = low + std::max(1.0, size / 100);
    double const rough = (high - low) / ticks;
    double const power = std::pow(10.0, std::floor(std::log10(rough)));
    double const ratio = rough / power;
    double const step = power * (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10);
    return {low, high, step, std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)))};
  }
  /// Widened to whole steps.
  Axis rounded() const {
    return {std::floor(low / step) * step, std::ceil(high / step - 1e-9) * step, step, decimals};
  }
  std::vector<double> ticks() const {
    std::vector<double> result;
    auto const first = static_cast<long long>(std::ceil(low / step - 1e-9));
    for (long long i = first; static_cast<double>(i) * step <= high + 1e-9 * step; ++i)
      result.push_back(static_cast<double>(i) * step);
    return result;
  }
};

struct Point {
  double x, y;
};
using Points = std::vector<Point>;

inline Points finite_points(std::vector<double> const& x, std::vector<double> const& y) {
  constexpr double largest = 1e300;  // sums of millions are finite
  Points points;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (std::isfinite(x[i]) && std::abs(y[i]) <= largest) points.push_back({x[i], y[i]});
  return points;
}

inline Points train_points(std::vector<double> const& losses, double every = 1) {
  std::vector<double> steps(losses.size());
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = every * static_cast<double>(i + 1);
  return finite_points(steps, losses);
}

/// Mean of the points around each, a fiftieth of the run to both sides. Where the curve begins, and
/// falls fast, the sides shrink alike; at its end only the missing one does.
inline Points smoothed(Points const& points) {
  std::size_t const count = points.size();
  std::size_t const reach = std::max(count / 50, std::min<std::size_t>(count / 8, 5));
  struct Sum {
    double value = 0, lost = 0;  // in rounding, where a huge loss takes the digits of all others
  };
  std::vector<Sum> sums(1);
  for (Point const& point : points) {
    auto const [value, lost] = sums.back();
    double const sum = value + point.y, added = sum - value;
    sums.push_back({sum, lost + ((value - (sum - added)) + (point.y - added))});
  }
  Points result;
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const first = i - std::min(reach, i);
    std::size_t const last = std::min(i + (i - first) + 1, count);
    double const sum =
        (sums[last].value - sums[first].value) + (sums[last].lost - sums[first].lost);
    result.push_back({points[i].x, sum / static_cast<double>(last - first)});
  }
  return result;
}

/// The lowest and the highest point of each of `columns` pieces, in the order in which they came:
/// what a screen can show of a long curve.
inline Points thinned(Points const& points, std::size_t columns) {
  if (points.size() <= 2 * columns) return points;
  Points result;
  for (std::size_t c = 0; c < columns; ++c) {
    auto const first = points.begin() + static_cast<std::ptrdiff_t>(c * points.size() / columns);
    auto const last =
        points.begin() + static_cast<std::ptrdiff_t>((c + 1) * points.size() / columns);
    auto [low, high] =
        std::minmax_element(first, last, [](Point const& a, Point const& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    result.push_back(*low);
    if (low != high) result.push_back(*high);
  }
  return result;
}

/// The picture while it is written.
class Canvas {
 public:
  Canvas(Axis x, Axis y) : x_(x), y_(y) {}

  std::string text;

  std::string at_x(double x) const {
    return fixed(left + (x - x_.low) / (x_.high - x_.low) * (right - left), 1);
  }
  std::string at_y(double y) const {
    return fixed(bottom - (y - y_.low) / (y_.high - y_.low) * (bottom - top), 1);
  }

  void curve(Points const& points, std::string_view style) {
    if (points.size() < 2) return dots(points, "fill=\"#2a6fb0\"", "2");
    text += "<path ";
    text += style;
    text += " d=\"";
    char command = 'M';
    for (Point const& point : points) {
      text += command + at_x(point.x) + ' ' + at_y(point.y);
      command = 'L';
    }
    text += "\"/>\n";
  }
  void dots(Points const& points, std::string_view style, std::string_view radius) {
    for (Point const& point : points) {
      text += "<circle cx=\"" + at_x(point.x) + "\" cy=\"" + at_y(point.y) + "\" r=\"";
      text += radius;
      text += "\" ";
      text += style;
      text += "/>\n";
    }
  }
  void label(double x, double y, std::string_view style, std::string_view words) {
    text += "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" ";
    text += style;
    text += '>' + nntile::detail::markup_text(words) + "</text>\n";
  }
  void line(double x1, double y1, double x2, double y2, std::string_view style) {
    text += "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) +
            "\" y2=\"" + fixed(y2, 1) + "\" ";
    text += style;
    text += "/>\n";
  }

  /// Grid, ticks and the names of the axes.
  void axes(std::string_view x_name, std::string_view y_name) {
    for (double const tick : y_.ticks()) {
      double const y = bottom - (tick - y_.low) / (y_.high - y_.low) * (bottom - top);
      line(left, y, right, y, "stroke=\"#e4e7eb\"");
      label(left - 10, y + 4.5, "text-anchor=\"end\" fill=\"#52606d\"", fixed(tick, y_.decimals));
    }
    for (double const tick : x_.ticks()) {
      double const x = left + (tick - x_.low) / (x_.high - x_.low) * (right - left);
      line(x, bottom, x, bottom + 6, "stroke=\"#7b8794\"");
      label(x, bottom + 22, "text-anchor=\"middle\" fill=\"#52606d\"", grouped(tick));
    }
    line(left, bottom, right, bottom, "stroke=\"#7b8794\"");
    label((left + right) / 2, height - 16, "text-anchor=\"middle\" fill=\"#323f4b\"", x_name);
    std::string const middle = fixed((top + bottom) / 2, 1);
    label(22, (top + bottom) / 2,
          "text-anchor=\"middle\" fill=\"#323f4b\" transform=\"rotate(-90 22 " + middle + ")\"",
          y_name);
  }

 private:
  Axis x_, y_;
};

inline constexpr std::string_view raw_style =
    "fill=\"none\" stroke=\"#a9cbe8\" stroke-width=\"1\" stroke-linejoin=\"round\"";
inline constexpr std::string_view smooth_style =
    "fill=\"none\" stroke=\"#2a6fb0\" stroke-width=\"2.5\" stroke-linejoin=\"round\"";
inline constexpr std::string_view valid_style =
    "fill=\"none\" stroke=\"#d1495b\" stroke-width=\"1.5\" stroke-dasharray=\"5 4\"";
inline constexpr std::string_view dot_style =
    "fill=\"#d1495b\" stroke=\"#ffffff\" stroke-width=\"1.5\"";

/// Pixels of the letters of a title: smaller ones for the path of a text than fit into the picture.
inline std::string title_size(std::string_view title) {
  constexpr double most = 20, all = 1400;  // of letters 0.6 as wide as high
  return fixed(std::min(most, all / static_cast<double>(std::max<std::size_t>(title.size(), 1))),
               0);
}

/// A row of samples and names above the plot's right end.
inline void legend(Canvas& canvas) {
  struct Entry {
    std::string_view style;
    char const* name;
    double x;
  };
  double const y = top - 20;
  for (Entry const& entry :
       {Entry{raw_style, "training", right - 348}, Entry{smooth_style, "smoothed", right - 238},
        Entry{valid_style, "validation", right - 118}}) {
    canvas.line(entry.x, y, entry.x + 28, y, entry.style);
    canvas.label(entry.x + 36, y + 4.5, "fill=\"#323f4b\"", entry.name);
  }
  canvas.text +=
      "<circle cx=\"" + fixed(right - 104, 1) + "\" cy=\"" + fixed(y, 1) + "\" r=\"4.5\" ";
  canvas.text += dot_style;
  canvas.text += "/>\n";
}

/// "4,000 steps, training loss 1.512, validation loss 1.633".
inline std::string summary(double steps, Points const& smooth, Points const& valid) {
  std::string text = grouped(steps) + (steps == 1 ? " step" : " steps");
  if (!smooth.empty()) text += ", training loss " + fixed(smooth.back().y, 3);
  if (!valid.empty()) text += ", validation loss " + fixed(valid.back().y, 3);
  return text;
}

inline Axis y_axis(Points const& train, Points const& valid) {
  double low = HUGE_VAL, high = -HUGE_VAL;
  for (Points const* const points : {&train, &valid})
    for (Point const& point : *points) {
      low = std::min(low, point.y);
      high = std::max(high, point.y);
    }
  if (low > high) low = 0, high = 1;
  return Axis::over(low, high, 7).rounded();
}

}  // namespace detail

/// The text of an SVG file. A run without losses gives axes and a note.
inline std::string loss_svg(LossCurve const& curve) {
  using namespace detail;
  Points const train = train_points(curve.train, curve.train_every);
  Points const smooth = smoothed(train);
  Points const valid = finite_points(curve.valid_step, curve.valid);
  double const steps =
      std::max(curve.steps, curve.train_every * static_cast<double>(curve.train.size()));
  double last = std::max(steps, 1.0);
  for (Point const& point : valid) last = std::max(last, point.x);
  Axis x = Axis::over(0, last, 8);
  x.step = std::max(x.step, 1.0);  // its labels are whole
  Canvas canvas(x, y_axis(train, valid));
  canvas.text =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 540\" width=\"960\" "
      "height=\"540\" "
      "font-family=\"system-ui, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif\" "
      "font-size=\"14\">\n"
      "<title>" +
      nntile::detail::markup_text(curve.title) +
      "</title>\n<rect width=\"960\" height=\"540\" fill=\"#ffffff\"/>\n";
  canvas.label(left, 34,
               "font-size=\"" + title_size(curve.title) + "\" font-weight=\"600\" fill=\"#1f2933\"",
               curve.title);
  canvas.label(left, 58, "fill=\"#52606d\"", summary(steps, smooth, valid));
  canvas.axes("step", "loss (" + curve.unit + ")");
  legend(canvas);
  constexpr std::size_t columns = 842;  // one a pixel
  canvas.curve(thinned(train, columns), raw_style);
  canvas.curve(thinned(smooth, columns / 4), smooth_style);
  Points const dots = thinned(valid, columns / 2);
  if (valid.size() > 1) canvas.curve(dots, valid_style);
  canvas.dots(dots, dot_style, valid.size() > 60 ? "3" : "4.5");
  if (train.empty() && valid.empty())
    canvas.label((left + right) / 2, (top + bottom) / 2, "text-anchor=\"middle\" fill=\"#7b8794\"",
                 "no losses yet");
  return canvas.text + "</svg>\n";
}

}  // namespace gpt2
