#include "deploy/operator/bench/check_line.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace splitveil {

bool CheckLimit::Holds(double value) const {
  switch (side) {
    case Side::kAtLeast:
      return value >= bound;
    case Side::kAtMost:
      return value <= bound;
    case Side::kBelow:
      return value < bound;
  }
  return false;
}

std::string CheckLimit::Text() const {
  return absl::StrCat(side == Side::kAtLeast ? ">= " : side == Side::kAtMost ? "<= " : "< ", bound);
}

std::string CheckLine(const std::string& name, double value, const std::string& unit, const CheckLimit& limit,
                      const nlohmann::ordered_json& measured) {
  return nlohmann::ordered_json{
      {"bench", "training"},
      {"check", name},
      {"value", std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr)},
      {"unit", unit},
      {"limit", limit.Text()},
      {"met", limit.Holds(value)},
      {"measured", measured}}
      .dump();
}

}  // namespace splitveil
