#include "label_party/policy/audit_grant.h"

#include <cmath>

namespace splitveil {

std::optional<double> GrantedAuc(v1::Grant grant, std::optional<double> auc, int answers_before) {
  switch (grant) {
    case v1::ORACLE:
      return auc;
    case v1::ROUNDED:
      return answers_before == 0 ? std::optional<double>(std::round(auc.value_or(0.5) * 100) / 100) : std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace splitveil
