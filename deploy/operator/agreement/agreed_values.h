// An agreement, value by value, for whoever is asked to accept it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREED_VALUES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREED_VALUES_H_

#include <string>
#include <vector>

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Whose secrets a value touches.
enum class Concern { kNone, kLabels, kFeatures, kBoth };

// More passes over the examples than these count as telling more: with noise that is stated per release each pass adds
// to what leaks. The default and what `splitveil init` proposes are far below.
inline constexpr int kManyEpochs = 100;

struct AgreedValue {
  std::string field;          // "audit.disclosure".
  std::string value;          // As text format writes it; "none" of an empty list or text.
  std::string default_value;  // Empty where it has none.
  bool is_default = false;
  const char* meaning = "";  // What it does, or what it discloses; empty where this folder does not know the field.
  // Set where the value discloses more than the default does, epochs where they are more than kManyEpochs.
  Concern discloses_more = Concern::kNone;
};

// Every value of a canonical agreement (LoadAgreement), in the order of the schema.
std::vector<AgreedValue> AgreedValues(const v1::RunAgreement& canonical);

// A table, one value per line; "*" marks what is not the default, "!" what discloses more than it.
std::string AgreedValuesText(const std::vector<AgreedValue>& values);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREED_VALUES_H_
