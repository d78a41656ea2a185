#include "common/figures/json_number.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace splitveil {

Json NumberJson(double value) {
  return std::isfinite(value) ? Json(std::strtod(absl::StrFormat("%.6g", value).c_str(), nullptr)) : Json();
}

Json NumberJson(const std::optional<double>& value) { return value.has_value() ? NumberJson(*value) : Json(); }

// JSON has no NaN and no infinity: null.
Json ExactJson(double value) { return std::isfinite(value) ? Json(value) : Json(); }

Json ExactJson(const std::optional<double>& value) { return value.has_value() ? ExactJson(*value) : Json(); }

void RoundNumbers(Json& json) {
  if (json.is_number_float()) {
    json = NumberJson(json.get<double>());
  } else if (json.is_structured()) {
    for (Json& element : json) {
      RoundNumbers(element);
    }
  }
}

}  // namespace splitveil
