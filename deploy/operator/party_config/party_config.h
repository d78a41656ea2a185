// A party's configuration file, whichever party's it is.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PARTY_CONFIG_PARTY_CONFIG_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PARTY_CONFIG_PARTY_CONFIG_H_

#include <string>
#include <variant>

#include "absl/status/statusor.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

inline constexpr char kLabelPartyRole[] = "label_party";
inline constexpr char kNonLabelPartyRole[] = "nonlabel_party";

using PartyConfig = std::variant<v1::LabelPartyConfig, v1::NonLabelPartyConfig>;

// Reads and validates `path`. `role`: one of the above, or empty: whichever the file is of, which its fields tell.
// Errors: NotFound; InvalidArgument as LoadTextConfig's, of the party the file seems to be of, or for a file that has
// the fields of neither.
absl::StatusOr<PartyConfig> LoadPartyConfig(const std::string& path, const std::string& role = "");

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PARTY_CONFIG_PARTY_CONFIG_H_
