#include "deploy/operator/init/party_setup.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "deploy/operator/init/table_profile.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/id_shape.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/profile/profile_report.h"

#include "common/architecture/model_spec.h"
#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/dataset/dataset.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/certificate.h"
#include "label_party/label_privacy/label_revealing_columns.h"
#include "label_party/policy/label_config.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

constexpr int kCertificateDays = 365;
constexpr int64_t kManyRows = 50'000;  // From here on batches of 1,024 and 5 epochs, as on the papers' data.
constexpr int64_t kManyBatches = 40;   // An epoch; in fewer, activations that are a few batches old cost quality.

// Where a preset is cut, as the papers do (ModelSpec.Preset).
struct PresetCut {
  const char* preset;
  const char* cut_layer;
  int32_t cut_width;
};
constexpr PresetCut kCuts[] = {{"TABULAR", "second", 64},
                               {"MULTILAYER_PERCEPTRON", "second", 64},
                               {"WIDE_AND_DEEP", "third", 128},
                               {"WIDE_AND_DEEP_8", "eighth", 128}};

std::string In(const PartySetupOptions& options, const std::string& name) {
  return absl::StrCat(options.out, "/", name);
}

std::string DataName(const PartySetupOptions& options) { return absl::StrCat(options.role, ".data"); }

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

absl::Status CheckFree(const std::string& path, absl::string_view otherwise) {
  return Exists(path)
             ? absl::AlreadyExistsError(absl::StrCat(path, ": expected no file of this name, found one; ", otherwise))
             : absl::OkStatus();
}

// That nothing would be replaced that is to stay.
absl::Status CheckPlace(const PartySetupOptions& options) {
  if (options.force) {
    return absl::OkStatus();
  }
  for (const std::string& name : {std::string("schema.textproto"), std::string("party.textproto"),
                                  std::string("run.textproto"), DataName(options)}) {
    SPLITVEIL_RETURN_IF_ERROR(CheckFree(In(options, name), "--force replaces it, --out names another folder"));
  }
  return absl::OkStatus();
}

// That neither key nor certificate would be replaced: with --force neither.
absl::Status CheckIdentityIsNew(const std::vector<NewFile>& identity) {
  for (const NewFile& file : identity) {
    SPLITVEIL_RETURN_IF_ERROR(
        CheckFree(file.path, "keys and certificates are never replaced: move it away, or --out names another folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PrepareResult> PrepareTable(const PartySetupOptions& options, const v1::TableSchema& schema,
                                           const std::optional<v1::RunAgreement>& agreement) {
  PrepareOptions prepare;
  prepare.rows.input_paths = options.tables;
  prepare.rows.schema = schema;
  prepare.rows.skip_bad_rows = options.skip_bad_rows;
  prepare.min_usable_share = options.min_usable_share;
  prepare.out_dir = options.out;
  prepare.keeps_other_data = !options.force;
  prepare.parties = options.choices.is_label_party ? v1::TableSchema::LABEL_PARTY : v1::TableSchema::NONLABEL_PARTY;
  // Both tables must be split alike, or one party trains on what the other holds out for testing.
  if (agreement.has_value()) {
    prepare.test_fraction = agreement->test_fraction();
    prepare.auxiliary_fraction = agreement->attribute_audit().auxiliary_fraction();
    prepare.validation_fraction = agreement->validation_fraction();
    prepare.test_after = agreement->test_after();
    prepare.split_salt = agreement->split_salt();
    return Prepare(prepare);
  }
  prepare.test_after = options.proposed.test_after;
  if (!absl::SimpleAtod(options.proposed.test_fraction, &prepare.test_fraction)) {
    return absl::InvalidArgumentError("command line: --test_fraction: expected a number, found a different text");
  }
  return Prepare(prepare);
}

// The model that the party takes: as told, or the first whose layers have the agreed cut.
absl::StatusOr<PresetCut> ChooseModel(const PartySetupOptions& options,
                                      const std::optional<v1::RunAgreement>& agreement) {
  for (const PresetCut& cut : kCuts) {
    const bool fits =
        !agreement.has_value() || (agreement->cut_layer() == cut.cut_layer && agreement->cut_width() == cut.cut_width);
    if (options.choices.preset == cut.preset || (options.choices.preset.empty() && fits)) {
      return fits ? absl::StatusOr<PresetCut>(cut)
                  : absl::InvalidArgumentError(absl::StrCat(
                        "command line: --model: expected a model with layer \"", agreement->cut_layer(), "\" of ",
                        agreement->cut_width(), " numbers, where ", options.proposal, " cuts it, found ", cut.preset));
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(options.proposal, ": cut_layer, cut_width: expected the cut of a preset, found layer \"",
                   agreement.has_value() ? agreement->cut_layer() : "", "\"; write party.textproto by hand for it"));
}

// A text that this command wrote must say what it means to, and keep the agreement.
absl::Status CheckTexts(const PartySetupOptions& options, const std::string& party_text,
                        const v1::RunAgreement& agreement) {
  const std::string name = In(options, "party.textproto");
  if (options.choices.is_label_party) {
    v1::LabelPartyConfig config;
    SPLITVEIL_RETURN_IF_ERROR(ParseTextConfig(party_text, name, config));
    return Within(name, ValidateLabelConfig(config, agreement));
  }
  v1::NonLabelPartyConfig config;
  SPLITVEIL_RETURN_IF_ERROR(ParseTextConfig(party_text, name, config));
  return Within(name, CheckBottomSpec(config.model(), agreement));
}

bool Has(const v1::TableSchema& schema, v1::TableSchema::Kind kind) {
  return std::any_of(schema.columns().begin(), schema.columns().end(),
                     [&](const v1::TableSchema::Column& column) { return column.kind() == kind; });
}

// The label as the table has it, against a protection of labels of two values.
absl::Status CheckProtection(const PartySetupOptions& options, const v1::TableSchema& schema) {
  return !options.choices.is_label_party || Has(schema, v1::TableSchema::LABEL) ||
                 options.choices.protection != "marvell"
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("command line: --protection: marvell needs a label of two values, and ",
                                options.schema.label, " is none: use gaussian_label_dp, or none"));
}

// The peer's certificate, to be pinned: LoadTlsIdentity checks it again before every run.
absl::StatusOr<std::string> ReadPeerCertificate(const PartySetupOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::string pem, ReadFile(options.peer_certificate));
  const absl::StatusOr<std::vector<CertificateFacts>> facts = ReadCertificateFacts(pem);
  SPLITVEIL_RETURN_IF_ERROR(Within(options.peer_certificate, facts.status()));
  const CertificateFacts& first = facts->front();
  // An authority would vouch for others, too; a pinned certificate admits this peer and nobody else.
  if (!absl::EqualsIgnoreCase(first.dns_names, options.choices.peer_name) || !first.self_signed || first.is_authority) {
    return absl::InvalidArgumentError(absl::StrCat(options.peer_certificate,
                                                   ": this must be the self-signed certificate of ",
                                                   options.choices.peer_name, ", but it is ",
                                                   first.is_authority  ? "an authority"
                                                   : first.self_signed ? "self-signed"
                                                                       : "signed by an authority",
                                                   " and has the DNS names ", first.dns_names));
  }
  std::printf("%s: fingerprint  %s\n", options.peer_certificate.c_str(), SpokenFingerprint(first.sha256).c_str());
  return pem;
}

// Key and certificate, if there are none yet; either is for this party alone to make.
absl::Status AddIdentity(const PartySetupOptions& options, std::vector<NewFile>& files) {
  const std::string certificate = In(options, options.makes_request ? "own.csr" : "own.pem");
  // The peer may have pinned its certificate already: a new key would lock this party out.
  if (Exists(In(options, "own.key"))) {
    std::printf("%s: kept, as the key there is in use\n", In(options, "own.key").c_str());
    return absl::OkStatus();
  }
  const std::string& name = options.choices.own_name;
  std::string key, shown;
  const auto make = [&]() -> absl::Status {
    if (options.makes_request) {
      SPLITVEIL_ASSIGN_OR_RETURN(const RequestAndKey made, CreateRequest(name));
      key = made.private_key_pem;
      shown = made.request_pem;
    } else {
      SPLITVEIL_ASSIGN_OR_RETURN(const CertifiedKey made, CreateSelfSigned(name, kCertificateDays));
      key = made.private_key_pem;
      shown = made.certificate_pem;
    }
    return absl::OkStatus();
  };
  SPLITVEIL_RETURN_IF_ERROR(Within(absl::StrCat("command line: --own_name \"", name, "\""), make()));
  files.push_back({In(options, "own.key"), key});
  files.push_back({certificate, shown, kPublicMode});
  return absl::OkStatus();
}

// Writes all or none of what is new; with --force replaces the rest, but nothing of the identity.
absl::Status WriteAll(const PartySetupOptions& options, const std::vector<NewFile>& texts,
                      const std::vector<NewFile>& identity) {
  std::vector<NewFile> fresh = identity;
  for (const NewFile& file : texts) {
    if (options.force && Exists(file.path)) {
      SPLITVEIL_RETURN_IF_ERROR(WriteFile(file.path, file.contents, file.mode));
    } else {
      fresh.push_back(file);
    }
  }
  return CreateFiles(options.out, fresh);
}

void PrintNext(const PartySetupOptions& options, const std::optional<v1::RunAgreement>& received,
               const v1::RunAgreement& agreement, const v1::TableSchema& schema) {
  const std::string run = In(options, "run.textproto"), party = In(options, "party.textproto");
  std::printf("agreement fingerprint  %s\n", AgreementFingerprint(agreement).c_str());
  const absl::StatusOr<std::string> pem = ReadFile(In(options, "own.pem"));
  const auto facts =
      pem.ok() ? ReadCertificateFacts(*pem) : absl::StatusOr<std::vector<CertificateFacts>>(pem.status());
  if (facts.ok()) {
    std::printf("certificate fingerprint  %s\n", SpokenFingerprint(facts->front().sha256).c_str());
  }
  std::printf("next:\n");
  if (options.makes_request) {
    std::printf("  the authority signs %s (`splitveil certificates sign`): put own.pem and authority.pem beside it\n",
                In(options, "own.csr").c_str());
  } else {
    std::printf("  send the other party %s%s: nothing in it is secret\n", In(options, "own.pem").c_str(),
                received.has_value() ? "" : absl::StrCat(" and ", run).c_str());
    if (options.peer_certificate.empty()) {
      std::printf("  put its own.pem at %s\n", In(options, "peer.pem").c_str());
    }
  }
  if (received.has_value()) {
    std::printf("  splitveil agreement accept --proposal=%s --config=%s\n", options.proposal.c_str(), party.c_str());
  }
  // One column of activations is no logistic regression of several classes.
  if (!Has(schema, v1::TableSchema::CLASS_LABEL)) {
    std::printf(
        "  splitveil baseline --agreement=%s --config=%s (optional: train logistic regression first, to compare)\n",
        run.c_str(), party.c_str());
  }
  std::printf("  %s --agreement=%s --config=%s --dry_run\n", options.role.c_str(), run.c_str(), party.c_str());
  std::printf("  %s --agreement=%s --config=%s\n", options.role.c_str(), run.c_str(), party.c_str());
}

// The choices that follow from table and agreement.
PartyChoices Choices(const PartySetupOptions& options, const SchemaProposal& proposal, const PresetCut& cut) {
  PartyChoices choices = options.choices;
  choices.preset = cut.preset;
  choices.has_features = proposal.features > 0;
  choices.has_categories = proposal.has_categories;
  choices.authority = options.makes_request ? "authority.pem" : "peer.pem";
  choices.label_set =
      absl::StrCat(options.schema.label, " of ", std::filesystem::path(options.table()).filename().string());
  return choices;
}

AgreementChoices Proposed(const PartySetupOptions& options, const PresetCut& cut, const ProfiledTable& table) {
  const int64_t rows = table.rows;
  AgreementChoices proposed = options.proposed;
  proposed.cut_layer = cut.cut_layer;
  proposed.cut_width = cut.cut_width;
  proposed.batch_size = proposed.batch_size > 0 ? proposed.batch_size : rows < kManyRows ? 256 : 1024;
  proposed.in_flight_batches = rows / proposed.batch_size < kManyBatches ? 1 : 0;
  proposed.epochs = proposed.epochs > 0 ? proposed.epochs : rows < kManyRows ? 10 : 5;
  return proposed;
}

// All that is known before the table is prepared.
struct PartyPlan {
  std::optional<v1::RunAgreement> received;  // The other party's proposal, if there is one.
  v1::RunAgreement agreement;
  AgreementChoices proposed;  // Unless `received`.
  v1::TableSchema schema;
  v1::TableSchema::Column id;  // Of `schema`.
  std::vector<NewFile> texts, identity;
};

// The peer's certificate into what is to be written, unless it is there already.
absl::Status AddPeerCertificate(const PartySetupOptions& options, std::vector<NewFile>& files) {
  if (options.peer_certificate.empty()) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::string peer, ReadPeerCertificate(options));
  const std::string path = In(options, "peer.pem");
  // The same certificate again is no conflict; a different one is refused by CheckIdentityIsNew.
  if (const absl::StatusOr<std::string> there = ReadFile(path); !there.ok() || *there != peer) {
    files.push_back({path, std::move(peer), kPublicMode});
  }
  return absl::OkStatus();
}

// By what rows are split: as the proposal says, or as told.
absl::Status ChooseSplit(const PartySetupOptions& options, const std::optional<v1::RunAgreement>& received,
                         SchemaFlags& schema) {
  const bool by_group = received.has_value() ? received->split_by_group() : !schema.group.empty();
  const std::string& test_after = received.has_value() ? received->test_after() : options.proposed.test_after;
  schema.split = by_group              ? v1::TableSchema::GROUP
                 : !test_after.empty() ? v1::TableSchema::TIME
                                       : v1::TableSchema::KIND_UNSPECIFIED;
  for (const auto& [flag, column, kind, field] :
       {std::tuple("--group", &schema.group, v1::TableSchema::GROUP, "split_by_group"),
        std::tuple("--time", &schema.time, v1::TableSchema::TIME, "test_after")}) {
    if (!column->empty() && schema.split != kind) {
      return absl::InvalidArgumentError(
          absl::StrCat("command line: ", flag, ": expected a proposal that splits the rows so (", field, "), found ",
                       options.proposal, " without: remove the flag, or ask the other party for one"));
    }
  }
  return absl::OkStatus();
}

// Finds every mistake that can be found without writing anything but the table's profile.
absl::StatusOr<PartyPlan> MakePlan(const PartySetupOptions& options) {
  PartyPlan plan;
  SPLITVEIL_RETURN_IF_ERROR(CheckPlace(options));
  SPLITVEIL_RETURN_IF_ERROR(CheckProfilePath(options.profile));
  if (!options.proposal.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(plan.received, LoadAgreement(options.proposal));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const PresetCut cut, ChooseModel(options, plan.received));
  SPLITVEIL_RETURN_IF_ERROR(AddIdentity(options, plan.identity));
  SPLITVEIL_RETURN_IF_ERROR(AddPeerCertificate(options, plan.identity));
  SPLITVEIL_RETURN_IF_ERROR(CheckIdentityIsNew(plan.identity));
  LayoutFlags layout = options.layout;
  SchemaFlags schema = options.schema;
  layout.skip_bad_rows = schema.skip_bad_rows = options.skip_bad_rows;
  schema.min_usable_share = options.min_usable_share;
  layout.missing = schema.missing;
  for (const std::string& name : options.id_forms) {
    v1::IdForm form = v1::ID_FORM_UNSPECIFIED;
    schema.id_form.insert(v1::IdForm_Parse(name, &form) ? form : v1::ID_FORM_UNSPECIFIED);
  }
  if (plan.received.has_value()) {
    schema.id_form = FormsIn(plan.received->alignment().id_form());
    schema.keeps_id_form = true;
    const auto& patterns = plan.received->alignment().id_pattern();
    schema.id_pattern = patterns.empty() ? "" : patterns[0];
  }
  SPLITVEIL_RETURN_IF_ERROR(ChooseSplit(options, plan.received, schema));
  SPLITVEIL_ASSIGN_OR_RETURN(const ProfiledTable table, ProfileTable(options.tables, layout));
  SPLITVEIL_ASSIGN_OR_RETURN(const SchemaProposal proposal,
                             ProposeSchema(options.table(), table, options.choices.is_label_party, schema));
  const ProfileReport report = {options.table(), proposal.schema, table.profile, proposal.warnings};
  std::printf("%s%s%s", ProfileHead(options.table(), table).c_str(), ProposalText(proposal).c_str(),
              ProfileText(report).c_str());
  if (!options.profile.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WriteProfile(options.profile, report));
  }
  plan.schema = proposal.schema;
  SPLITVEIL_RETURN_IF_ERROR(CheckProtection(options, plan.schema));
  plan.id = IdColumnOf(proposal);
  plan.proposed = Proposed(options, cut, table);
  plan.proposed.id = plan.id;
  plan.proposed.split_by_group = schema.split == v1::TableSchema::GROUP;
  SPLITVEIL_ASSIGN_OR_RETURN(plan.agreement,
                             plan.received.has_value()
                                 ? *plan.received
                                 : ParseAgreement(AgreementFileText(plan.proposed), In(options, "run.textproto")));
  const std::string party_text = PartyFileText(Choices(options, proposal, cut));
  SPLITVEIL_RETURN_IF_ERROR(CheckTexts(options, party_text, plan.agreement));
  plan.texts.push_back({In(options, "schema.textproto"), SchemaFileText(proposal)});
  plan.texts.push_back({In(options, "party.textproto"), party_text});
  return plan;
}

// Before anything is trained or sent: a start only repeats it.
absl::Status WarnOfLabelRevealingColumns(const PartySetupOptions& options, const std::string& path) {
  if (options.choices.is_label_party) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> data, Dataset::Open(path));
    if (const std::string telling = DescribeLabelRevealingColumns(*data); !telling.empty()) {
      LogWarning(options.table(), ": ", telling);
    }
  }
  return absl::OkStatus();
}

absl::Status PrepareAndWrite(const PartySetupOptions& options, PartyPlan& plan) {
  SPLITVEIL_ASSIGN_OR_RETURN(const PrepareResult prepared, PrepareTable(options, plan.schema, plan.received));
  const std::vector<std::string> shape = prepared.ids.Shape();
  if (plan.received.has_value()) {
    const std::string difference = DescribeIdDifference(plan.received->alignment(), plan.id.name(), shape);
    if (!difference.empty()) {
      LogWarning(options.table(), ": ", difference);
    }
  } else {  // Only the whole table says how its ids look.
    plan.proposed.id_shape = shape;
    const std::string path = In(options, "run.textproto"), text = AgreementFileText(plan.proposed);
    SPLITVEIL_ASSIGN_OR_RETURN(plan.agreement, ParseAgreement(text, path));
    plan.texts.push_back({path, text, kPublicMode});
  }
  const PreparedParty& party = prepared.parties.front();
  std::printf("%s%s: %lld rows, %lld of them for training\n", LeftOutText(prepared.skipped, prepared.files).c_str(),
              party.path.c_str(), static_cast<long long>(party.preprocessing.rows()),
              static_cast<long long>(party.preprocessing.training_rows()));
  if (party.replaced_others) {
    std::printf("  NOTE: replaced other data; a model that was trained on those needs their scales and vocabularies\n");
  }
  for (const std::string& warning : party.preprocessing.warnings()) {
    LogWarning(options.table(), ": ", warning);
  }
  SPLITVEIL_RETURN_IF_ERROR(WarnOfLabelRevealingColumns(options, party.path));
  return WriteAll(options, plan.texts, plan.identity);
}

}  // namespace

absl::Status SetUpParty(const PartySetupOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(PartyPlan plan, MakePlan(options));
  const std::string data = In(options, DataName(options));
  const bool had_data = Exists(data), had_folder = Exists(options.out);
  absl::Status done = PrepareAndWrite(options, plan);
  if (!done.ok()) {  // The next try finds the place as this one did.
    std::error_code ignored;
    if (!had_data) {
      std::filesystem::remove(data, ignored);
    }
    if (!had_folder) {
      std::filesystem::remove(options.out, ignored);
    }
    return done;
  }
  PrintNext(options, plan.received, plan.agreement, plan.schema);
  return absl::OkStatus();
}

}  // namespace splitveil
