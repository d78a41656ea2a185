#include "deploy/operator/agreement/agreement_command.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"
#include "google/protobuf/descriptor.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/config/message_validator.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/dataset/prepared_data.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil {
namespace {

absl::Status CheckConfig(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config) {
  v1::GradientProtection protection = config.protection();
  // A budget for the run is spread over the agreed epochs: without them the gate cannot be checked.
  FillPlannedEpochs(agreement.epochs(), protection);
  SPLITVEIL_RETURN_IF_ERROR(ReleaseGate::Create(config.release(), protection).status());
  return ValidateLabelConfig(config, agreement);
}

absl::Status CheckConfig(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config) {
  return CheckBottomSpec(config.model(), agreement);
}

PreparedFor OwnerOf(const v1::LabelPartyConfig& /*config*/) { return PreparedFor::kLabelParty; }
PreparedFor OwnerOf(const v1::NonLabelPartyConfig& /*config*/) { return PreparedFor::kNonLabelParty; }

// Whether what the party's protection lets out is the same in however many epochs: planned for the whole run, or out in
// the first of them.
bool CoversAllEpochs(const v1::LabelPartyConfig& config) {
  const v1::GradientProtection& protection = config.protection();
  return protection.has_gaussian_label_dp() || protection.has_label_dp() || protection.marvell().has_run_budget();
}
bool CoversAllEpochs(const v1::NonLabelPartyConfig& config) { return !config.has_protection(); }

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

struct Meaning {
  absl::string_view field;
  const char* text;
};

// Every field of the agreement; a test finds those that are missing.
constexpr Meaning kMeanings[] = {
    {"run_name", "recorded in both ledgers and in reports"},
    {"cut_width", "numbers per example that cross the wire, each way"},
    {"batch_size", "examples per step; larger hides single ones better"},
    {"minimum_batch_size", "no batch is smaller; a smaller batch reveals more of each example"},
    {"mode", "PREDICT sends no gradient; the label party sees the activations of every shared example"},
    {"epochs", "each example's gradient is sent once per epoch; leakage adds up"},
    {"test_fraction", "share held out for testing; `prepare` must be given the same"},
    {"wire_dtype", "precision on the wire"},
    {"in_flight_batches",
     "batches under way at once; 0: as many as the link asks for, at most a sixteenth of an epoch"},
    {"max_in_flight_batches", "the most that in_flight_batches: 0 chooses"},
    {"validation_fraction", "share by which the best epoch is chosen; `prepare` must be given the same"},
    {"split_by_group", "all rows of a group on one side; both tables need the column"},
    {"test_after", "rows from this time on are for testing; both tables need the column"},
    {"alignment.protocol", "both learn the shared ids and the size of the other's table"},
    {"alignment.max_ids", "largest table accepted from the peer; a larger one tests more ids and takes more memory"},
    {"alignment.chunk_ids", "ids per message"},
    {"alignment.min_shared_ids", "with fewer shared ids there is no run; guards against a peer with other ids"},
    {"alignment.max_shared_ids", "with more there is no run; guards against a peer that tests invented ids"},
    {"alignment.id_form", "forms that both parties give their ids; `prepare` must be given the same"},
    {"alignment.key_column", "forms of one column of a key of several; for `splitveil align --key` alone"},
    {"alignment.id_pattern", "every own id must fit it; checked before a connection is made"},
    {"alignment.id_column", "name of the proposing party's id column, to compare with your own"},
    {"alignment.id_shape", "patterns and lengths of its ids, to compare; never an id"},
    {"alignment.bucket_ids", "larger sets are aligned in buckets of about as many ids, one after the other"},
    {"alignment.low_shared_share", "with a smaller share of the smaller table in common, both parties are warned"},
    {"audit.layers", "layers at which the non-label party attacks what it receives"},
    {"audit.attacks", "label inference attacks it runs there"},
    {"audit.disclosure", "what the label party answers to the attacks; all but LABEL_SIDE_ONLY reveals labels"},
    {"audit.every_batches", "attacks on every n-th batch"},
    {"audit.auxiliary_labels", "true labels given to the non-label party, for research"},
    {"audit.hint_counts", "known positives of attacks with hints"},
    {"audit.rounded.mu", "noise of a ROUNDED answer; a larger mu reveals more of labels"},
    {"audit.rounded.max_answers", "ROUNDED answers per run"},
    {"audit.rounded.minimum_batch", "smaller batches get no ROUNDED answer"},
    {"deadlines.connect_seconds", "wait for the peer to start"},
    {"deadlines.step_seconds", "wait for an answer"},
    {"deadlines.alignment_chunk_seconds", "wait for a part of the alignment"},
    {"deadlines.max_outage_seconds", "how long a lost connection is tried again"},
    {"cut_layer", "the layer whose outputs cross; \"embedding\" shows numeric columns as they are"},
    {"split_salt", "which examples are held out; `prepare` must be given the same"},
    {"progressive_validation", "test on every example before training on it"},
    {"checkpoint_steps", "steps between checkpoints within an epoch"},
    {"attribute_audit.attributes", "sensitive columns that the label party tries to guess"},
    {"attribute_audit.attacks", "how it tries"},
    {"attribute_audit.embed_auxiliary", "it may ask for activations of auxiliary examples, which reveal features"},
    {"attribute_audit.auxiliary_fraction", "share of the examples set aside for that"},
    {"attribute_audit.marked_fraction", "share whose attributes it is assumed to know"},
    {"attribute_audit.every_epochs", "after every n-th epoch"},
};

const char* MeaningOf(absl::string_view field) {
  for (const Meaning& meaning : kMeanings) {
    if (meaning.field == field) {
      return meaning.text;
    }
  }
  return "";
}

std::string TextOf(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) {
    std::string text = ValueText(message, field, -1);
    return text == "\"\"" ? "none" : text;
  }
  const int size = message.GetReflection()->FieldSize(message, &field);
  std::string text;
  for (int i = 0; i < size; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", ValueText(message, field, i));
  }
  return size == 0 ? "none" : text;
}

// Judged with the whole agreement at hand: a field alone does not say it.
Concern DisclosesMore(absl::string_view field, const v1::RunAgreement& agreement) {
  const v1::AuditAgreement& audit = agreement.audit();
  const v1::RoundedAnswers defaults;
  const bool rounded = audit.disclosure() == v1::ROUNDED;
  if ((field == "audit.disclosure" && audit.disclosure() != v1::LABEL_SIDE_ONLY) ||
      (field == "audit.auxiliary_labels" && audit.auxiliary_labels() > 0) ||
      (field == "audit.rounded.mu" && rounded && audit.rounded().mu() > defaults.mu()) ||
      (field == "audit.rounded.max_answers" && rounded && audit.rounded().max_answers() > defaults.max_answers()) ||
      (field == "audit.rounded.minimum_batch" && rounded &&
       audit.rounded().minimum_batch() < defaults.minimum_batch()) ||
      (field == "minimum_batch_size" &&
       agreement.minimum_batch_size() < v1::RunAgreement::default_instance().minimum_batch_size())) {
    return Concern::kLabels;
  }
  if ((field == "attribute_audit.embed_auxiliary" && agreement.attribute_audit().embed_auxiliary()) ||
      (field == "attribute_audit.attributes" && agreement.attribute_audit().attributes_size() > 0) ||
      (field == "cut_layer" && agreement.cut_layer() == kEmbeddingCut)) {
    return Concern::kFeatures;
  }
  if ((field == "epochs" && agreement.epochs() > kManyEpochs) ||
      (field == "alignment.max_ids" &&
       agreement.alignment().max_ids() > v1::AlignmentAgreement::default_instance().max_ids())) {
    return Concern::kBoth;
  }
  return Concern::kNone;
}

void Append(const Message& message, const Message& defaults, const std::string& prefix,
            const v1::RunAgreement& agreement, std::vector<AgreedValue>& values) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor& field = *message.GetDescriptor()->field(i);
    const std::string path = prefix + field.name();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated()) {
      Append(message.GetReflection()->GetMessage(message, &field),
             defaults.GetReflection()->GetMessage(defaults, &field), path + ".", agreement, values);
      continue;
    }
    AgreedValue value;
    value.field = path;
    value.value = TextOf(message, field);
    value.default_value = TextOf(defaults, field);
    value.is_default = value.value == value.default_value;
    value.meaning = MeaningOf(path);
    value.discloses_more = DisclosesMore(path, agreement);
    values.push_back(std::move(value));
  }
}

}  // namespace

absl::Status CheckAgainstOwn(const v1::RunAgreement& agreement, const PartyConfig& config,
                             const std::string& config_path) {
  return std::visit(
      [&](const auto& own) {
        SPLITVEIL_RETURN_IF_ERROR(Within(config_path, CheckConfig(agreement, own)));
        return OpenPreparedData(own.party(), agreement, OwnerOf(own)).status();
      },
      config);
}

std::vector<std::string> NotAllowed(const std::vector<AgreedValue>& values, const PartyConfig& config,
                                    const std::vector<std::string>& allowed) {
  const Concern own = std::holds_alternative<v1::LabelPartyConfig>(config) ? Concern::kLabels : Concern::kFeatures;
  // More epochs tell more only if each releases something new.
  const bool any_epochs = std::visit([](const auto& party) { return CoversAllEpochs(party); }, config);
  std::vector<std::string> fields;
  for (const AgreedValue& value : values) {
    // A party refuses what reveals its own data; what reveals the peer's is the peer's decision.
    const bool concerns = value.discloses_more == own || value.discloses_more == Concern::kBoth;
    if (concerns && !(any_epochs && value.field == "epochs") &&
        std::find(allowed.begin(), allowed.end(), value.field) == allowed.end()) {
      fields.push_back(value.field);
    }
  }
  return fields;
}

std::vector<AgreedValue> AgreedValues(const v1::RunAgreement& canonical) {
  v1::RunAgreement defaults;
  Canonicalize(defaults);
  std::vector<AgreedValue> values;
  Append(canonical, defaults, "", canonical, values);
  for (AgreedValue& value : values) {
    if (value.field == "run_name" || value.field == "cut_width") {  // Required: there is no default.
      value.default_value.clear();
      value.is_default = false;
    }
  }
  return values;
}

std::string AgreedValuesText(const std::vector<AgreedValue>& values) {
  size_t field_width = 0, value_width = 0;
  std::vector<std::string> shown;
  for (const AgreedValue& value : values) {
    shown.push_back(value.is_default || value.default_value.empty()
                        ? value.value
                        : absl::StrCat(value.value, " (default ", value.default_value, ")"));
    field_width = std::max(field_width, value.field.size());
    value_width = std::max(value_width, std::min<size_t>(shown.back().size(), 32));
  }
  std::string text;
  for (size_t i = 0; i < values.size(); ++i) {
    const char* const mark = values[i].discloses_more != Concern::kNone ? "!" : values[i].is_default ? " " : "*";
    absl::StrAppendFormat(&text, "%s %-*s  %-*s  %s\n", mark, static_cast<int>(field_width), values[i].field,
                          static_cast<int>(value_width), shown[i],
                          *values[i].meaning == '\0' ? "see agreement.proto" : values[i].meaning);
  }
  return text;
}

namespace {

constexpr char kGroup[] = "Before a run";
constexpr char kOwnName[] = "run.textproto";

struct AgreementFlags {
  std::string agreement;
  std::string proposal;
  std::string config;
  std::string fingerprint;
  std::vector<std::string> allowed;
  bool force = false;
};

void PrintFingerprint(const v1::RunAgreement& agreement) {
  std::printf("fingerprint  %s\n", AgreementFingerprint(agreement).c_str());
  std::printf("Compare it by voice with the other party's: it stands for every value above.\n");
}

// One line per flagged value, of either party.
void PrintDisclosures(const std::vector<AgreedValue>& values) {
  for (const AgreedValue& value : values) {
    if (value.discloses_more != Concern::kNone) {
      std::printf("! %s tells more of %s than the default does\n", value.field.c_str(),
                  value.discloses_more == Concern::kLabels     ? "the label party's labels"
                  : value.discloses_more == Concern::kFeatures ? "the non-label party's features"
                                                               : "either party's data");
    }
  }
}

absl::StatusOr<ExitCode> Show(const AgreementFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, LoadAgreement(flags.agreement));
  const std::vector<AgreedValue> values = AgreedValues(agreement);
  std::printf("%s", AgreedValuesText(values).c_str());
  PrintDisclosures(values);
  if (!flags.config.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config));
    SPLITVEIL_RETURN_IF_ERROR(CheckAgainstOwn(agreement, config, flags.config));
    std::printf("%s: can keep it\n", flags.config.c_str());
  }
  PrintFingerprint(agreement);
  return ExitCode::kDone;
}

// Takes the proposal as it is into this party's own folder.
absl::Status Keep(const std::string& text, const std::string& path, bool force) {
  if (force || std::filesystem::exists(path)) {
    const absl::StatusOr<std::string> there = ReadFile(path);
    if (there.ok() && *there == text) {
      return absl::OkStatus();
    }
    return force ? WriteFile(path, text, kPublicMode)
                 : absl::AlreadyExistsError(
                       absl::StrCat(path, ": holds a different agreement already; --force replaces it"));
  }
  return CreateFile(path, text, kPublicMode);
}

absl::StatusOr<ExitCode> Accept(const AgreementFlags& flags) {
  // Read once: what is kept is what was checked, whatever happens to the file meanwhile.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string text, ReadTextConfig(flags.proposal));
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::RunAgreement agreement, ParseAgreement(text, flags.proposal));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config));
  const std::vector<AgreedValue> values = AgreedValues(agreement);
  const std::string fingerprint = AgreementFingerprint(agreement);
  if (!flags.fingerprint.empty() && !SameFingerprint(flags.fingerprint, fingerprint)) {
    return absl::InvalidArgumentError(absl::StrCat(flags.proposal, ": expected the fingerprint ", flags.fingerprint,
                                                   ", found ", fingerprint,
                                                   ": this is not the file that the other party means"));
  }
  const std::vector<std::string> refused = NotAllowed(values, config, flags.allowed);
  if (!refused.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.proposal, ": ", absl::StrJoin(refused, ", "),
                     ": these values may reveal more about this party's data than the defaults "
                     "(`splitveil agreement show` explains them): accept them with --allow=",
                     absl::StrJoin(refused, ",")));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckAgainstOwn(agreement, config, flags.config));
  const std::string path = (std::filesystem::path(flags.config).parent_path() / kOwnName).string();
  SPLITVEIL_RETURN_IF_ERROR(Keep(text, path, flags.force));
  std::printf("%s", AgreedValuesText(values).c_str());
  PrintDisclosures(values);
  std::printf("%s: accepted\n", path.c_str());
  PrintFingerprint(agreement);
  return ExitCode::kDone;
}

}  // namespace

void AddAgreementCommands(CommandLine& line) {
  const auto show = std::make_shared<AgreementFlags>();
  CLI::App& show_command = line.AddCommand(
      {"agreement show",
       "Print every value of an agreement, what it means or discloses, and the agreement's fingerprint.",
       "splitveil agreement show --agreement=run.textproto", kGroup},
      [show] { return Show(*show); });
  AddValue(show_command, "--agreement=FILE", show->agreement, "The agreement, or a proposal of one.")->required();
  AddValue(show_command, "--config=FILE", show->config, "This party's configuration, to check whether it can keep it.");

  const auto accept = std::make_shared<AgreementFlags>();
  CLI::App& accept_command = line.AddCommand(
      {"agreement accept",
       "Check the other party's proposal against this party's configuration, data and defaults, and save it as "
       "run.textproto beside the configuration.",
       "splitveil agreement accept --proposal=received.textproto --config=shop/party.textproto", kGroup},
      [accept] { return Accept(*accept); });
  AddValue(accept_command, "--proposal=FILE", accept->proposal, "The file that the other party sent.")->required();
  AddValue(accept_command, "--config=FILE", accept->config, "This party's configuration.")->required();
  AddValue(accept_command, "--fingerprint=DIGITS", accept->fingerprint,
           "Fingerprint that the other party read to you; a proposal with a different one is refused.");
  accept_command
      .add_option("--allow", accept->allowed,
                  "Fields that may reveal more about this party's data than the default, such as audit.disclosure.")
      ->delimiter(',')
      ->type_name("FIELD,...");
  accept_command.add_flag("--force", accept->force, "Replace an agreement that was accepted before.");
}

}  // namespace splitveil
