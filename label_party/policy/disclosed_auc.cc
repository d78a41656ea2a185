#include "label_party/policy/disclosed_auc.h"

namespace splitveil {

std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc) {
  return disclosure == v1::ORACLE ? auc : std::nullopt;
}

}  // namespace splitveil
