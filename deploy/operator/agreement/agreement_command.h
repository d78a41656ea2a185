// An agreement, value by value, for the person who is asked to accept it; and whether this party can keep it.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/party_config/party_config.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Whose secrets a value touches.
enum class Concern { kNone, kLabels, kFeatures, kBoth };

// More passes over the examples than these count as disclosing more: with noise that is stated per release, each pass
// adds to what leaks. The default and what `splitveil init` proposes are far below.
inline constexpr int kManyEpochs = 100;

struct AgreedValue {
  std::string field;          // "audit.disclosure".
  std::string value;          // As text format writes it; "none" for an empty list or text.
  std::string default_value;  // Empty if it has none.
  bool is_default = false;
  const char* meaning = "";  // What it does, or what it discloses; empty if this folder does not know the field.
  // Set if the value discloses more than the default does; for epochs, if they are more than kManyEpochs.
  Concern discloses_more = Concern::kNone;
};

// Every value of a canonical agreement (LoadAgreement), in the order of the schema.
std::vector<AgreedValue> AgreedValues(const v1::RunAgreement& canonical);

// A table, one value per line; "*" marks what is not the default, "!" what discloses more than it.
std::string AgreedValuesText(const std::vector<AgreedValue>& values);

// Whether this party's configuration and prepared data can keep the agreement: its model has the cut, its protection
// and release policy fit, its data are its own and of the agreed split. `config_path`: paths in `config` are relative
// to its folder. Errors: InvalidArgument, NotFound as one line that begins with the file.
absl::Status CheckAgainstOwn(const v1::RunAgreement& agreement, const PartyConfig& config,
                             const std::string& config_path);

// Fields of `values` that disclose more of this party's secrets than the defaults do, labels or features, and that
// `allowed` does not name. Epochs are not among them if the party's own protection covers any number of epochs.
std::vector<std::string> NotAllowed(const std::vector<AgreedValue>& values, const PartyConfig& config,
                                    const std::vector<std::string>& allowed);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_
