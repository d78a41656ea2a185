#include "deploy/operator/party_config/party_config.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

#include "common/config/text_config.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

class IgnoredErrors : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int /*line*/, google::protobuf::io::ColumnNumber /*column*/, const std::string& /*message*/) override {}
};

// What of `text` is understood, up to the first error that is not an unknown field.
template <typename Config>
Config Understood(const std::string& text) {
  Config config;
  IgnoredErrors ignored;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&ignored);
  parser.AllowUnknownField(true);
  parser.AllowPartialMessage(true);
  parser.ParseFromString(text, &config);
  return config;
}

template <typename Config>
absl::StatusOr<PartyConfig> Load(const std::string& path) {
  Config config;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(path, config));
  return PartyConfig(std::move(config));
}

}  // namespace

absl::StatusOr<PartyConfig> LoadPartyConfig(const std::string& path, const std::string& role) {
  absl::StatusOr<PartyConfig> label = Load<v1::LabelPartyConfig>(path);
  if (role == kLabelPartyRole || (role.empty() && label.ok())) {
    return label;
  }
  absl::StatusOr<PartyConfig> nonlabel = Load<v1::NonLabelPartyConfig>(path);
  if (role == kNonLabelPartyRole || nonlabel.ok()) {
    return nonlabel;
  }
  // Neither: the error to show is that of the party whose fields the file has.
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) {
    return label;
  }
  if (Understood<v1::NonLabelPartyConfig>(*text).has_peer_address()) {
    return nonlabel;
  }
  if (Understood<v1::LabelPartyConfig>(*text).has_protection() || label.status() == nonlabel.status()) {
    return label;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": expected a party's configuration, with protection (label party) or peer_address (non-label party), ",
      "found neither"));
}

}  // namespace splitveil
