// SPDX-License-Identifier: BSD-3-Clause
#include "examples/gpt2/plot.hh"

#include <limits>

#include "tests/support/catch.hh"

using namespace gpt2;
using Catch::Matchers::Contains;

namespace {

/// A falling curve of `steps` losses and four validation losses.
LossCurve falling(std::size_t steps) {
  LossCurve curve;
  curve.title = "tiny";
  for (std::size_t i = 0; i < steps; ++i)
    curve.train.push_back(1.5 + 4.0 / static_cast<double>(1 + i) +
                          0.1 * static_cast<double>(i % 3));
  for (std::size_t i = 1; i <= 4; ++i) {
    curve.valid_step.push_back(static_cast<double>(i * steps / 4));
    curve.valid.push_back(1.6 + 1.0 / static_cast<double>(i));
  }
  return curve;
}

/// Names of open elements when the text ends; "<" where a tag or an entity is malformed.
std::string unbalanced(std::string const& svg) {
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    std::size_t const end = svg.find('>', at);
    if (end == std::string::npos || svg.find('<', at + 1) < end) return "<";
    std::string const tag = svg.substr(at + 1, end - at - 1);
    if (tag.back() == '/') continue;
    if (tag[0] != '/')
      open.push_back(tag.substr(0, tag.find(' ')));
    else if (open.empty() || open.back() != tag.substr(1))
      return "<" + tag;
    else
      open.pop_back();
  }
  return open.empty() ? "" : open.back();
}

std::size_t count(std::string const& text, std::string const& piece) {
  std::size_t found = 0;
  for (std::size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1))
    ++found;
  return found;
}

}  // namespace

TEST_CASE("the picture has title, axes, legend, two curves and the validation points",
          "[io][plot]") {
  std::string const svg = loss_svg(falling(100));
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  CHECK(unbalanced(svg).empty());
  for (char const* const words :
       {">tiny<", ">step<", ">loss (nats per byte)<", ">training<", ">smoothed<", ">validation<",
        ">100 steps, training loss 1.6", "validation loss 1.850<"})
    CHECK_THAT(svg, Contains(words));
  CHECK(count(svg, "<path") == 3);
  CHECK(count(svg, "<circle") == 5);  // one in the legend
}

TEST_CASE("equal numbers give equal pictures", "[io][plot]") {
  CHECK(loss_svg(falling(500)) == loss_svg(falling(500)));
  CHECK(loss_svg(falling(500)) != loss_svg(falling(501)));
}

TEST_CASE("a million steps make a small picture that keeps the extremes", "[io][plot]") {
  LossCurve curve = falling(1'000'000);
  curve.train[654321] = 7.25;
  std::string const svg = loss_svg(curve);
  CHECK(svg.size() < 60'000);
  CHECK_THAT(svg, Contains(">8<") && Contains(">1,000,000<"));
  auto const points = detail::thinned(detail::train_points(curve.train), 842);
  CHECK(std::any_of(points.begin(), points.end(), [](detail::Point p) { return p.y == 7.25; }));
}

TEST_CASE("as many validations make a small picture, too", "[io][plot]") {
  LossCurve curve;
  for (int i = 0; i < 262'144; ++i) {
    curve.valid_step.push_back(i);
    curve.valid.push_back(i == 123'456 ? 7.25 : 2);
  }
  std::string const svg = loss_svg(curve);
  CHECK(svg.size() < 150'000);
  CHECK_THAT(svg, Contains(">8<"));
}

TEST_CASE("a run without losses, with one, and with equal ones is drawn", "[io][plot]") {
  CHECK_THAT(loss_svg({}), Contains("no losses yet"));
  LossCurve curve;
  curve.train = {2.0};
  CHECK_THAT(loss_svg(curve), Contains(">1 step, training loss 2.000<"));
  curve.train = {2.0, 2.0, 2.0};
  for (std::string const& svg : {loss_svg({}), loss_svg(curve)}) {
    CHECK(unbalanced(svg).empty());
    CHECK(count(svg, "nan") == 0);
    CHECK(count(svg, "inf") == 0);
  }
}

TEST_CASE("losses that are not finite are left out", "[io][plot]") {
  LossCurve curve = falling(10);
  curve.train[3] = std::numeric_limits<double>::quiet_NaN();
  curve.train[4] = std::numeric_limits<double>::infinity();
  curve.valid[1] = -std::numeric_limits<double>::infinity();
  std::string const svg = loss_svg(curve);
  CHECK(count(svg, "nan") + count(svg, "inf") == 0);
  CHECK(count(svg, "<circle") == 4);
}

TEST_CASE("a title cannot break the picture", "[io][plot]") {
  LossCurve curve = falling(10);
  curve.title = "a<b> & \"c\"\n</svg>";
  std::string const svg = loss_svg(curve);
  CHECK(unbalanced(svg).empty());
  CHECK_THAT(svg, Contains("a&lt;b&gt; &amp; &quot;c&quot; &lt;/svg&gt;"));
}

TEST_CASE("a title that is too long for the picture has smaller letters", "[io][plot]") {
  LossCurve curve = falling(3);
  curve.title = std::string(70, 'x');
  CHECK_THAT(loss_svg(curve), Contains("font-size=\"20\" font-weight"));
  curve.title = std::string(200, 'x');
  CHECK_THAT(loss_svg(curve), Contains("font-size=\"7\" font-weight"));
}

TEST_CASE("a title that is not UTF-8 makes a picture that is", "[io][plot]") {
  LossCurve curve = falling(10);
  curve.title = "caf\xe9 & caf\xc3\xa9 \xf0\x9f";
  CHECK_THAT(loss_svg(curve),
             Contains(">caf\xef\xbf\xbd &amp; caf\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd</title>"));
}

TEST_CASE("ticks are round numbers", "[io][plot]") {
  using detail::Axis;
  CHECK(Axis::over(0, 3600, 8).ticks() ==
        std::vector<double>{0, 500, 1000, 1500, 2000, 2500, 3000, 3500});
  Axis const y = Axis::over(1.43, 5.6, 7).rounded();
  CHECK(y.low == 1);
  CHECK(y.high == 6);
  CHECK(detail::fixed(Axis::over(0.1, 0.9, 7).step, Axis::over(0.1, 0.9, 7).decimals) == "0.2");
  CHECK(detail::grouped(1234567) == "1,234,567");
  CHECK(detail::grouped(-123) == "-123");
  CHECK(detail::fixed(-0.01, 1) == "0.0");
}

TEST_CASE("steps have whole numbers, each of them once", "[io][plot]") {
  LossCurve curve;
  for (int steps = 1; steps <= 4; ++steps) {
    curve.train.assign(static_cast<std::size_t>(steps), 7.5);
    std::string const svg = loss_svg(curve);
    for (int step = 0; step <= steps; ++step)
      CHECK(count(svg, ">" + std::to_string(step) + "</text>") == 1);
  }
}

TEST_CASE("losses of any size are drawn by numbers that say it", "[io][plot]") {
  LossCurve curve;
  for (std::vector<double> const& losses : {std::vector{1e17},
                                            {1e17, 3e17},
                                            {1e300, 1e300},
                                            {-1.7e308, 1.7e308},
                                            {1e-320, 2e-320},
                                            {1., 1 + 1e-15},
                                            {1e-300},
                                            {0., 1e-70}}) {
    curve.train = losses;
    std::string const svg = loss_svg(curve);
    CAPTURE(losses, svg);
    CHECK(unbalanced(svg).empty());
    CHECK(count(svg, "nan") + count(svg, "inf") == 0);
    CHECK(std::all_of(svg.begin(), svg.end(), [](char c) { return c == '\n' || c >= ' '; }));
  }
  curve.train = {1e17, 3e17};
  CHECK_THAT(loss_svg(curve), Contains("training loss 3.000e+17<") && Contains(">1.000e+17<"));
}

TEST_CASE("a loss that was huge once is not in the smoothed ones long after", "[io][plot]") {
  LossCurve curve;
  curve.train.assign(200, 2.0);
  curve.train[50] = 1e20;
  curve.train[60] = -3e20;
  CHECK_THAT(loss_svg(curve), Contains(">200 steps, training loss 2.000<"));
}

TEST_CASE("smoothing keeps a straight line and its end is a mean", "[io][plot]") {
  detail::Points line;
  for (int i = 0; i < 500; ++i) line.push_back({static_cast<double>(i), 2.0 * i});
  auto const smooth = detail::smoothed(line);
  REQUIRE(smooth.size() == 500);
  CHECK(smooth[0].y == 0);
  CHECK(smooth[250].y == 500);
  CHECK(smooth[499].y == 988);  // the mean of the last eleven
}
