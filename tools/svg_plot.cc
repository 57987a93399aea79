#include "tools/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace cairn {

namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 70, kRight = 150, kTop = 40, kBottom = 55;
const char* const kColours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

std::string Format(const char* format, double a, double b = 0, double c = 0, double d = 0) {
  char text[256];
  snprintf(text, sizeof(text), format, a, b, c, d);
  return text;
}

std::string Escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

std::string Label(double x, double y, const char* anchor, const std::string& text, const std::string& more = "") {
  return Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"", x, y) + anchor + "\"" + more + ">" + Escape(text) +
         "</text>\n";
}

// 1, 2 or 5 times a power of ten, for about `count` steps up to `most`.
double TickStep(double most, int count) {
  const double raw = most / count;
  const double power = std::pow(10, std::floor(std::log10(raw)));
  for (double step : {1.0, 2.0, 5.0}) {
    if (step * power >= raw) return step * power;
  }
  return 10 * power;
}

}  // namespace

std::string LinePlot(const std::string& title, const std::string& x_label, const std::string& y_label, PlotAxis x_axis,
                     const std::vector<PlotSeries>& series) {
  const bool log_x = x_axis == PlotAxis::kLogarithmic;
  auto place = [log_x](double x) { return log_x ? std::log10(x) : x; };
  double low = 1e300, high = -1e300, top = 0;
  for (const PlotSeries& s : series) {
    for (const auto& point : s.points) {
      low = std::min(low, place(point.first));
      high = std::max(high, place(point.first));
      top = std::max(top, point.second);
    }
  }
  if (!(high > low)) high = low + 1;
  if (!(top > 0)) top = 1;
  const double y_step = TickStep(top, 6);
  top = y_step * std::ceil(top / y_step);
  auto px = [&](double x) { return kLeft + (place(x) - low) / (high - low) * (kWidth - kLeft - kRight); };
  auto py = [&](double y) { return kHeight - kBottom - y / top * (kHeight - kTop - kBottom); };

  std::string svg = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += Label((kLeft + kWidth - kRight) / 2, 22, "middle", title, " font-size=\"14\"");
  svg += Label((kLeft + kWidth - kRight) / 2, kHeight - 14, "middle", x_label);
  svg += Label(18, (kTop + kHeight - kBottom) / 2, "middle", y_label,
               Format(" transform=\"rotate(-90 18 %.1f)\"", (kTop + kHeight - kBottom) / 2));
  for (double y = 0; y <= top * 1.0001; y += y_step) {
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, py(y),
                  kWidth - kRight, py(y));
    svg += Label(kLeft - 6, py(y) + 4, "end", Format("%g", y));
  }
  const double x_step = log_x ? std::max(1.0, std::ceil((high - low) / 10)) : TickStep(high - low, 8);
  for (double x = std::ceil(low / x_step - 1e-9) * x_step; x <= high + 1e-9; x += x_step) {
    const double value = log_x ? std::pow(10, x) : x;
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", px(value), py(0),
                  px(value), py(top));
    svg += Label(px(value), kHeight - kBottom + 18, "middle",
                 log_x && std::fabs(x) > 3 ? Format("1e%g", x) : Format("%g", value));
  }
  for (size_t i = 0; i < series.size(); i++) {
    const std::string colour = kColours[i % (sizeof(kColours) / sizeof(kColours[0]))];
    svg += "<polyline fill=\"none\" stroke=\"" + colour + "\" stroke-width=\"2\" points=\"";
    for (const auto& point : series[i].points) svg += Format("%.1f,%.1f ", px(point.first), py(point.second));
    svg += "\"/>\n";
    const double y = kTop + 18 * static_cast<double>(i) + 6;
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"", kWidth - kRight + 10, y,
                  kWidth - kRight + 34, y) +
           colour + "\" stroke-width=\"2\"/>\n";
    svg += Label(kWidth - kRight + 40, y + 4, "start", series[i].name);
  }
  return svg + "</svg>\n";
}

}  // namespace cairn
