#include "label_party/policy/disclosed_auc.h"

#include <cmath>

namespace splitveil {

std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc, int answers_before) {
  switch (disclosure) {
    case v1::ORACLE:
      return auc;
    case v1::ROUNDED:
      return answers_before == 0 ? std::optional<double>(std::round(auc.value_or(0.5) * 100) / 100) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace splitveil
