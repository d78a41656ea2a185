// Numbers in JSON: the one writer of RESULT, the pages and the files beside a ledger.
#ifndef SPLITVEIL_COMMON_FIGURES_JSON_NUMBER_H_
#define SPLITVEIL_COMMON_FIGURES_JSON_NUMBER_H_

#include <nlohmann/json.hpp>
#include <optional>

namespace splitveil {

using Json = nlohmann::ordered_json;

// To six significant digits: what a person compares, and no 0.9999999999999882. Null for a number that is not finite,
// and for one that does not exist.
Json NumberJson(double value);
Json NumberJson(const std::optional<double>& value);

// The same with every digit, for files that programs compute with.
Json ExactJson(double value);
Json ExactJson(const std::optional<double>& value);

// Rounds every number in `json` that is no integer, as NumberJson does.
void RoundNumbers(Json& json);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_FIGURES_JSON_NUMBER_H_
