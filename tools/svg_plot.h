// A line plot as SVG text: one curve a series, a logarithmic or linear x axis, y from 0.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cairn {

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // finite; x positive where the axis is logarithmic
};

enum class PlotAxis { kLinear, kLogarithmic };

std::string LinePlot(const std::string& title, const std::string& x_label, const std::string& y_label, PlotAxis x_axis,
                     const std::vector<PlotSeries>& series);

}  // namespace cairn
