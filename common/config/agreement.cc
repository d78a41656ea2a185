#include "common/config/agreement.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

#include "common/config/id_pattern.h"
#include "common/config/message_validator.h"
#include "common/config/row_time.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameBytes = 128;
constexpr int kMaxAuditedLayers = 256;
constexpr int kMaxAttackedAttributes = 64;
// Field headers, run id, epoch and batch; generous, since a limit that is too tight stops a run.
constexpr int64_t kMessageOverheadBytes = int64_t{64} * 1024;
constexpr int64_t kPointBytes = 32;  // ristretto255.

absl::Status Invalid(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected ", expected, ", found ", found));
}

// A name goes into ledgers, logs and reports, so it must be one short line.
absl::Status ValidateName(absl::string_view field, absl::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid(field, absl::StrCat("1 to ", kMaxNameBytes, " bytes"), absl::StrCat(name.size()));
  }
  for (const unsigned char c : name) {
    if (!absl::ascii_isprint(c)) {
      return Invalid(field, "printable ASCII characters", absl::StrCat("byte ", c));
    }
  }
  return absl::OkStatus();
}

// Refuses an element that is listed twice. `once`: "each attack once"; `text`: of an element, for the error.
template <typename List, typename Text>
absl::Status ValidateOnce(absl::string_view list, const List& elements, absl::string_view once, const Text& text) {
  for (auto element = elements.begin(); element != elements.end(); ++element) {
    if (std::find(elements.begin(), element, *element) != element) {
      return Invalid(absl::StrCat(list, "[", element - elements.begin(), "]"), once,
                     absl::StrCat(text(*element), " again"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateNames(absl::string_view list, const google::protobuf::RepeatedPtrField<std::string>& names,
                           int most, absl::string_view once) {
  if (names.size() > most) {
    return Invalid(list, absl::StrCat("at most ", most), absl::StrCat(names.size()));
  }
  for (int i = 0; i < names.size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(ValidateName(absl::StrCat(list, "[", i, "]"), names[i]));
  }
  return ValidateOnce(list, names, once, [](const std::string& name) { return absl::StrCat("\"", name, "\""); });
}

// One attack, at any place of the list.
absl::Status ValidateAttack(const std::string& field, v1::Attack attack, const v1::AuditAgreement& audit) {
  const AttackTraits traits = TraitsOf(attack);
  // Those need what only the label party has, or a whole run: the attack module could never score a batch.
  if (traits.label_side_only() || traits.once_per_run()) {
    return Invalid(field, "an attack on every batch that needs no true class moments", v1::Attack_Name(attack));
  }
  // Refused here rather than skipped: a report without that attack would look as if it had found nothing.
  if (traits.needs_oracle() && audit.disclosure() != v1::ORACLE) {
    return Invalid(field, absl::StrCat(v1::Attack_Name(attack), " under audit.disclosure ORACLE only"),
                   absl::StrCat("audit.disclosure ", v1::DisclosureLevel_Name(audit.disclosure())));
  }
  if (traits.cut_only() && std::count(audit.layers().begin(), audit.layers().end(), "cut") == 0) {
    return Invalid(field, absl::StrCat(v1::Attack_Name(attack), " with \"cut\" among audit.layers only"),
                   "audit.layers without it");
  }
  return absl::OkStatus();
}

absl::Status ValidateAttacks(const v1::AuditAgreement& audit) {
  if (audit.auxiliary_labels() > 0 && audit.disclosure() != v1::ORACLE) {
    return Invalid("audit.auxiliary_labels", "0 unless audit.disclosure is ORACLE",
                   absl::StrCat(audit.auxiliary_labels()));
  }
  SPLITVEIL_RETURN_IF_ERROR(
      ValidateOnce("audit.hint_counts", audit.hint_counts(), "each number once", [](int count) { return count; }));
  SPLITVEIL_RETURN_IF_ERROR(ValidateOnce("audit.attacks", audit.attacks(), "each attack once",
                                         [](int attack) { return v1::Attack_Name(static_cast<v1::Attack>(attack)); }));
  for (int i = 0; i < audit.attacks_size(); ++i) {
    SPLITVEIL_RETURN_IF_ERROR(ValidateAttack(absl::StrCat("audit.attacks[", i, "]"), audit.attacks(i), audit));
  }
  return absl::OkStatus();
}

bool ReadsAuxiliary(int attack) { return attack == v1::BASIC || attack == v1::LINEAR_PROBE; }
bool ReadsMarked(int attack) { return attack == v1::POISON || attack == v1::CUMULATIVE_POISON; }

absl::Status ValidateAttributes(const v1::AttributeAuditAgreement& audit) {
  SPLITVEIL_RETURN_IF_ERROR(
      ValidateNames("attribute_audit.attributes", audit.attributes(), kMaxAttackedAttributes, "each attribute once"));
  if (audit.attributes().empty() != audit.attacks().empty()) {
    return Invalid("attribute_audit.attributes, attribute_audit.attacks", "both or neither",
                   audit.attributes().empty() ? "attacks and no attributes" : "attributes and no attacks");
  }
  return absl::OkStatus();
}

absl::Status ValidateAttributeAttacks(const v1::AttributeAuditAgreement& audit) {
  SPLITVEIL_RETURN_IF_ERROR(
      ValidateOnce("attribute_audit.attacks", audit.attacks(), "each attack once",
                   [](int attack) { return v1::AttributeAttack_Name(static_cast<v1::AttributeAttack>(attack)); }));
  for (int i = 0; i < audit.attacks_size(); ++i) {
    const std::string field = absl::StrCat("attribute_audit.attacks[", i, "]");
    const v1::AttributeAttack attack = audit.attacks(i);
    if (ReadsAuxiliary(attack) && !audit.embed_auxiliary()) {
      return Invalid(field,
                     absl::StrCat(v1::AttributeAttack_Name(attack), " beside attribute_audit.embed_auxiliary only"),
                     "embed_auxiliary false");
    }
    if (ReadsMarked(attack) && audit.marked_fraction() == 0) {
      return Invalid(
          field,
          absl::StrCat(v1::AttributeAttack_Name(attack), " beside an attribute_audit.marked_fraction above 0 only"),
          "marked_fraction 0");
    }
  }
  // Activations that no attack reads would be disclosed for nothing.
  if (audit.embed_auxiliary() && std::none_of(audit.attacks().begin(), audit.attacks().end(), ReadsAuxiliary)) {
    return Invalid("attribute_audit.embed_auxiliary", "false unless an attack (BASIC, LINEAR_PROBE) reads them",
                   "true");
  }
  return absl::OkStatus();
}

absl::Status ValidateSplit(const v1::RunAgreement& agreement) {
  // With test_after the dates decide how much is held out, not the fraction.
  const double test = agreement.test_after().empty() ? agreement.test_fraction() : 0;
  const double auxiliary = agreement.attribute_audit().auxiliary_fraction();
  if (test + auxiliary + agreement.validation_fraction() > kMaxHeldOutFraction) {
    return Invalid("test_fraction, attribute_audit.auxiliary_fraction, validation_fraction",
                   absl::StrCat("at most ", kMaxHeldOutFraction, " together"),
                   absl::StrCat(test, ", ", auxiliary, " and ", agreement.validation_fraction()));
  }
  if (!agreement.test_after().empty() && !ParseRowTime(agreement.test_after()).has_value()) {
    return Invalid("test_after", kRowTimeWords, absl::StrCat("\"", agreement.test_after(), "\""));
  }
  if (agreement.split_by_group() && !agreement.test_after().empty()) {
    return Invalid("split_by_group, test_after", "one of them at most", "both");
  }
  if (!agreement.progressive_validation()) {
    return absl::OkStatus();
  }
  // Every training example is evaluated once before it is trained on: a test part would have no meaning beside that.
  if (HasTestPart(agreement)) {
    return Invalid("progressive_validation", "false unless test_fraction is 0 and there is no test_after",
                   absl::StrCat("true beside test_fraction ", agreement.test_fraction()));
  }
  return agreement.validation_fraction() == 0
             ? absl::OkStatus()
             : Invalid("progressive_validation", "false unless validation_fraction is 0",
                       absl::StrCat("true beside validation_fraction ", agreement.validation_fraction()));
}

absl::Status ValidateAttributeAudit(const v1::RunAgreement& agreement) {
  const v1::AttributeAuditAgreement& audit = agreement.attribute_audit();
  SPLITVEIL_RETURN_IF_ERROR(ValidateAttributes(audit));
  SPLITVEIL_RETURN_IF_ERROR(ValidateAttributeAttacks(audit));
  if (!HasTestPart(agreement) && !audit.attacks().empty()) {
    return Invalid("attribute_audit.attacks", "none without test examples, at which they guess",
                   "some beside test_fraction 0");
  }
  if (agreement.progressive_validation() && (!audit.attacks().empty() || audit.auxiliary_fraction() > 0)) {
    return Invalid("progressive_validation", "false beside an attribute_audit, whose attacks follow each epoch's test",
                   "true");
  }
  return absl::OkStatus();
}

// What mode PREDICT has no use for, and needs. A field that is set but would change nothing is refused: who sets a
// protection or a number of epochs expects it to be applied.
constexpr absl::string_view kAgreementOfTraining[] = {"epochs",
                                                      "test_fraction",
                                                      "in_flight_batches",
                                                      "audit",
                                                      "split_salt",
                                                      "progressive_validation",
                                                      "checkpoint_steps",
                                                      "attribute_audit",
                                                      "validation_fraction",
                                                      "split_by_group",
                                                      "test_after",
                                                      "max_in_flight_batches"};
constexpr absl::string_view kPartyOfTraining[] = {"checkpoint_path", "export_dir", "restart"};
constexpr absl::string_view kLabelPartyOfTraining[] = {
    "release", "label_side_audit", "clip_cut_gradients", "early_stopping", "privacy_account", "attribute_attack",
    "keep"};

// Whether `message` sets the field; an empty string counts as unset, since paths are resolved in place.
bool IsSet(const google::protobuf::Message& message, absl::string_view name) {
  const auto* const field = message.GetDescriptor()->FindFieldByName(std::string(name));
  return field != nullptr && message.GetReflection()->HasField(message, field) &&
         (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING ||
          !message.GetReflection()->GetString(message, field).empty());
}

absl::Status RefuseOfTraining(const google::protobuf::Message& message, absl::Span<const absl::string_view> fields,
                              absl::string_view prefix = "") {
  for (const absl::string_view field : fields) {
    if (IsSet(message, field)) {
      return absl::InvalidArgumentError(absl::StrCat(
          prefix, field, ": mode PREDICT trains nothing and has no use for it: remove it, or set mode TRAIN"));
    }
  }
  return absl::OkStatus();
}

absl::Status RefuseOfPrediction(const google::protobuf::Message& message, absl::Span<const absl::string_view> fields) {
  for (const absl::string_view field : fields) {
    if (IsSet(message, field)) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": mode TRAIN predicts nothing: remove it, or set mode PREDICT in the agreement"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPredicts(const v1::PartyCommon& party) {
  SPLITVEIL_RETURN_IF_ERROR(RefuseOfTraining(party, kPartyOfTraining, "party."));
  return IsSet(party, "initial_checkpoint")
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "party.initial_checkpoint: mode PREDICT needs the checkpoint of the trained model: set its path");
}

absl::Status CheckPredicts(const v1::LabelPartyConfig& config) {
  if (config.predictions_path().empty() && config.versions_path().empty()) {
    return absl::InvalidArgumentError(
        "predictions_path: mode PREDICT needs the file that the predictions go to: set it, or versions_path");
  }
  if (!config.protection().has_none()) {
    return absl::InvalidArgumentError(
        "protection: mode PREDICT sends no gradient to protect: set protection { none {} }, or mode TRAIN");
  }
  SPLITVEIL_RETURN_IF_ERROR(RefuseOfTraining(config, kLabelPartyOfTraining));
  return CheckPredicts(config.party());
}

}  // namespace

absl::Status CheckFitsMode(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config) {
  if (agreement.mode() == v1::RunAgreement::PREDICT) {
    return CheckPredicts(config);
  }
  return RefuseOfPrediction(config, {"predictions_path", "versions_path"});
}

absl::Status CheckFitsMode(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config) {
  return agreement.mode() == v1::RunAgreement::PREDICT ? CheckPredicts(config.party())
                                                       : RefuseOfPrediction(config, {"versions_path"});
}

absl::StatusOr<v1::RunAgreement> LoadAgreement(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadTextConfig(path));
  return ParseAgreement(text, path);
}

absl::StatusOr<v1::RunAgreement> ParseAgreement(absl::string_view text, const std::string& name) {
  v1::RunAgreement agreement;
  SPLITVEIL_RETURN_IF_ERROR(ParseTextConfig(text, name, agreement));
  SPLITVEIL_RETURN_IF_ERROR(Within(name, ValidateAgreement(agreement)));
  Canonicalize(agreement);
  return agreement;
}

void Canonicalize(v1::RunAgreement& agreement) {
  SetDefaults(agreement);
  if (agreement.mode() == v1::RunAgreement::PREDICT) {
    for (const absl::string_view field : kAgreementOfTraining) {
      agreement.GetReflection()->ClearField(&agreement, agreement.GetDescriptor()->FindFieldByName(std::string(field)));
    }
    return;
  }
  v1::AuditAgreement& audit = *agreement.mutable_audit();
  const std::vector<int> hint_counts = HintCounts(audit.hint_counts());  // A repeated field has no default of its own.
  audit.mutable_hint_counts()->Assign(hint_counts.begin(), hint_counts.end());
}

bool HasTestPart(const v1::RunAgreement& agreement) {
  return agreement.test_fraction() > 0 || !agreement.test_after().empty();
}

absl::Status ValidateAgreement(const v1::RunAgreement& agreement) {
  SPLITVEIL_RETURN_IF_ERROR(ValidateMessage(agreement));
  SPLITVEIL_RETURN_IF_ERROR(ValidateName("run_name", agreement.run_name()));
  if (agreement.mode() == v1::RunAgreement::PREDICT) {
    SPLITVEIL_RETURN_IF_ERROR(RefuseOfTraining(agreement, kAgreementOfTraining));
  }
  SPLITVEIL_RETURN_IF_ERROR(
      ValidateNames("audit.layers", agreement.audit().layers(), kMaxAuditedLayers, "each layer once"));
  SPLITVEIL_RETURN_IF_ERROR(ValidateAttacks(agreement.audit()));
  SPLITVEIL_RETURN_IF_ERROR(ValidateSplit(agreement));
  SPLITVEIL_RETURN_IF_ERROR(ValidateAttributeAudit(agreement));
  if (!agreement.alignment().id_form().empty() && !agreement.alignment().key_column().empty()) {
    return absl::InvalidArgumentError(
        "alignment.key_column: alignment.id_form is set as well, and holds for every column of a key: remove id_form, "
        "and write the forms of each column into its key_column");
  }
  for (int i = 0; i < agreement.alignment().id_pattern_size(); ++i) {
    if (const absl::Status status = IdPattern::Create(agreement.alignment().id_pattern(i)).status(); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("alignment.id_pattern[", i, "]: ", status.message()));
    }
  }
  if (agreement.alignment().min_shared_ids() > agreement.alignment().max_shared_ids()) {
    return Invalid("alignment.min_shared_ids",
                   absl::StrCat("at most max_shared_ids ", agreement.alignment().max_shared_ids()),
                   absl::StrCat(agreement.alignment().min_shared_ids()));
  }
  if (agreement.audit().disclosure() == v1::ROUNDED &&
      agreement.batch_size() < agreement.audit().rounded().minimum_batch()) {
    return Invalid("audit.disclosure",
                   absl::StrCat("LABEL_SIDE_ONLY, or batches of at least audit.rounded.minimum_batch ",
                                agreement.audit().rounded().minimum_batch()),
                   absl::StrCat("ROUNDED with batch_size ", agreement.batch_size()));
  }
  if (agreement.minimum_batch_size() > agreement.batch_size()) {
    return Invalid("minimum_batch_size", absl::StrCat("at most batch_size ", agreement.batch_size()),
                   absl::StrCat(agreement.minimum_batch_size()));
  }
  // Refused now: in the run it would be an error of the wire, on the first batch. gRPC and Protobuf count the bytes of
  // a message in an int32.
  const int64_t message_bytes = MaxMessageBytes(agreement);
  if (message_bytes > std::numeric_limits<int32_t>::max()) {
    return Invalid("batch_size",
                   absl::StrCat("batches whose message fits ", std::numeric_limits<int32_t>::max(),
                                " bytes at cut_width ", agreement.cut_width()),
                   absl::StrCat(agreement.batch_size(), ", a message of ", message_bytes, " bytes"));
  }
  return absl::OkStatus();
}

std::vector<AgreedScore> AgreedScores(const v1::AuditAgreement& audit) {
  const std::vector<int> hint_counts = HintCounts(audit.hint_counts());
  std::vector<AgreedScore> scores;
  for (const std::string& layer : audit.layers()) {
    for (int number : audit.attacks()) {
      const auto attack = static_cast<v1::Attack>(number);
      if (TraitsOf(attack).cut_only() && layer != "cut") {
        continue;
      }
      for (const AttackVariant& variant : VariantsOf(attack, hint_counts)) {
        scores.push_back({layer, variant});
      }
    }
  }
  return scores;
}

Digest AgreementSha256(const v1::RunAgreement& canonical) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);  // The parties compare digests, and may have different builds.
    canonical.SerializeToCodedStream(&coded);
  }
  return Sha256(bytes);
}

std::string AgreementFingerprint(const v1::RunAgreement& canonical) {
  return SpokenFingerprint(AgreementSha256(canonical));
}

namespace {

int64_t ElementBytesOf(const v1::RunAgreement& agreement) { return agreement.wire_dtype() == v1::FLOAT32 ? 4 : 2; }

}  // namespace

int64_t MaxLiveBytes(const v1::RunAgreement& agreement, int64_t rows) {
  constexpr int64_t kVarintBytes = 5;  // Of a position.
  return rows * (agreement.cut_width() * ElementBytesOf(agreement) + kVarintBytes) + kMessageOverheadBytes;
}

int64_t MaxMessageBytes(const v1::RunAgreement& agreement) {
  const int64_t element_bytes = ElementBytesOf(agreement);
  // A rest below minimum_batch_size joins the batch before it.
  const int64_t max_rows = int64_t{agreement.batch_size()} + agreement.minimum_batch_size() - 1;
  const int64_t hint_bytes = int64_t{4} * agreement.cut_width() + int64_t{kMaxHints} * 10;
  const int64_t batch_bytes = max_rows * agreement.cut_width() * element_bytes + hint_bytes;
  // Of ScoreBatch: the scores of every agreed attack in one message.
  const int64_t scores_bytes = static_cast<int64_t>(AgreedScores(agreement.audit()).size()) *
                               (4 * max_rows + static_cast<int64_t>(kMaxNameBytes) + 64);
  const int64_t auxiliary_bytes = int64_t{agreement.audit().auxiliary_labels()} * 6;  // A varint and a byte each.
  const int64_t chunk_bytes = agreement.alignment().chunk_ids() * kPointBytes;
  const int64_t guess_bytes = agreement.attribute_audit().attacks().empty() ? 0 : 4 * kGuessRows * kMaxAttributeValues;
  return std::max({batch_bytes, scores_bytes, auxiliary_bytes, chunk_bytes, guess_bytes}) + kMessageOverheadBytes;
}

}  // namespace splitveil
