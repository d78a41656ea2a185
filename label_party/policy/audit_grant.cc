#include "label_party/policy/audit_grant.h"

#include <cmath>

namespace splitveil {

std::optional<double> GrantedAuc(v1::Grant grant, double auc) {
  switch (grant) {
    case v1::ORACLE:
      return auc;
    case v1::ROUNDED:
      return std::round(auc * 100) / 100;
    default:
      return std::nullopt;
  }
}

}  // namespace splitveil
