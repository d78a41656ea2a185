#include "deploy/operator/page/json_values.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_format.h"

namespace splitveil {

Json NumberJson(double value) {
  return std::isfinite(value) ? Json(std::strtod(absl::StrFormat("%.5g", value).c_str(), nullptr)) : Json();
}

}  // namespace splitveil
