// Figures as JSON values.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PAGE_JSON_VALUES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PAGE_JSON_VALUES_H_

#include <nlohmann/json.hpp>

namespace splitveil {

using Json = nlohmann::ordered_json;

// To five digits, more than a screen shows and a fraction of the bytes. Null for what is not finite.
Json NumberJson(double value);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PAGE_JSON_VALUES_H_
