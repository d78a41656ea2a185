#include "deploy/operator/local_run/local_run.h"

#include <filesystem>
#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "common/dataset/prepared_data.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/storage/section_file.h"

namespace splitveil {
namespace {

// What is read is where it was, whatever folder the run is configured in; what is written goes into that folder, so
// that runs side by side write to different files.
template <typename Config>
void PlaceFiles(const std::string& party, Config& config) {
  MakePathsAbsolute(config);
  v1::PartyCommon& common = *config.mutable_party();
  common.set_ledger_path(party + ".db");
  if (!common.checkpoint_path().empty()) {
    common.set_checkpoint_path(party + ".checkpoint");
  }
  if (!common.export_dir().empty()) {
    common.set_export_dir("export");
  }
  common.clear_alignment_cache_path();
  common.clear_status_socket();
  common.clear_spill_path();
  common.clear_monitoring();  // One address could not serve runs side by side; `splitveil status` tells of each.
}

}  // namespace

std::string FileName(const std::string& name) {
  std::string result = name;
  for (char& c : result) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '=' && c != '_') {
      c = '-';
    }
  }
  return result;
}

absl::StatusOr<LocalRun> LoadLocalRun(const std::string& agreement_path, const std::string& label_config_path,
                                      const std::string& nonlabel_config_path) {
  LocalRun run;
  SPLITVEIL_ASSIGN_OR_RETURN(run.agreement, LoadAgreement(agreement_path));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(label_config_path, run.label_config));
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(nonlabel_config_path, run.nonlabel_config));
  PlaceFiles("label_party", run.label_config);
  PlaceFiles("nonlabel_party", run.nonlabel_config);
  PlaceActivationAccount(run);
  run.label_config.set_result_path("label_party.result.json");
  // The label party takes a free port and says which.
  run.label_config.set_listen_address("127.0.0.1:0");
  run.nonlabel_config.set_peer_address("127.0.0.1:0");
  run.nonlabel_config.set_listen_address("127.0.0.1:0");
  return run;
}

void SetSeeds(uint64_t seed, v1::LabelPartyConfig& label_config, v1::NonLabelPartyConfig& nonlabel_config) {
  label_config.mutable_party()->set_reproducible_seed(2 * seed + 1);
  nonlabel_config.mutable_party()->set_reproducible_seed(2 * seed + 2);
}

void SetProtection(const v1::GradientProtection& protection, LocalRun& run) {
  *run.label_config.mutable_protection() = protection;
  if (!protection.has_gaussian_label_dp()) {
    run.label_config.clear_privacy_account();  // label_dp could keep it, but then all seeds would have the same flips.
  } else if (!run.label_config.has_privacy_account()) {
    run.label_config.mutable_privacy_account()->set_path("label_party.account.db");
    run.label_config.mutable_privacy_account()->set_label_set("labels of this run");
  }
}

void PlaceActivationAccount(LocalRun& run) {
  run.nonlabel_config.clear_privacy_account();
  if (run.nonlabel_config.protection().has_gaussian()) {
    run.nonlabel_config.mutable_privacy_account()->set_path("nonlabel_party.account.db");
  }
}

void ShareAlignment(LocalRun& run) {
  run.label_config.mutable_party()->set_alignment_cache_path("../label_party.alignment");
  run.nonlabel_config.mutable_party()->set_alignment_cache_path("../nonlabel_party.alignment");
}

bool HasKeptAccount(const LocalRun& run) {
  return run.label_config.has_privacy_account() &&
         std::filesystem::path(run.label_config.privacy_account().path()).is_absolute();
}

absl::StatusOr<std::vector<uint32_t>> SharedRows(const LocalRun& run, const Dataset& label_data, SplitPart part) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::shared_ptr<const Dataset> nonlabel_data,
                             OpenPreparedData(run.nonlabel_config.party(), run.agreement, PreparedFor::kNonLabelParty));
  absl::flat_hash_set<absl::string_view> nonlabel_ids;
  for (size_t row = 0; row < nonlabel_data->ids().size(); ++row) {
    nonlabel_ids.insert(nonlabel_data->ids()[row]);
  }
  const SplitRule split(run.agreement);
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < label_data.ids().size(); ++row) {
    if (nonlabel_ids.contains(label_data.ids()[row]) && split.PartOf(label_data, row) == part) {
      rows.push_back(row);
    }
  }
  return rows;
}

absl::StatusOr<std::string> DataSha256(const LocalRun& run) {
  std::string digests;
  std::vector<std::string> paths = {run.label_config.party().dataset().path(),
                                    run.nonlabel_config.party().dataset().path()};
  if (run.label_config.has_attribute_attack()) {
    paths.push_back(run.label_config.attribute_attack().auxiliary().path());
  }
  for (const std::string& path : paths) {
    // The services compare the digest with the data; here it only names them.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SectionFile> data,
                               SectionFile::Open(path, SectionFile::Check::kStructure));
    absl::StrAppend(&digests, AsBytes(data->digest()));
  }
  return digests;
}

std::string ConfigurationSha256(const LocalRun& run, absl::string_view data) {
  const std::string configuration =
      absl::StrCat(data, AsBytes(AgreementSha256(run.agreement)),
                   AsBytes(Sha256(run.label_config.SerializeAsString())),  // No maps: one serialisation only.
                   AsBytes(Sha256(run.nonlabel_config.SerializeAsString())));
  return absl::BytesToHexString(AsBytes(Sha256(configuration)));
}

}  // namespace splitveil
