#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/stream/stream.h"

#include "common/config/agreement.h"
#include "common/config/config_paths.h"
#include "common/config/text_config.h"
#include "common/status/status_macros.h"
#include "label_party/policy/label_config.h"
#include "label_party/protection/self_test.h"

#include "splitveil/v1/stream.pb.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameBytes = 48;
constexpr char kLabelCheckpoint[] = "label_party.checkpoint";
constexpr char kNonLabelCheckpoint[] = "nonlabel_party.checkpoint";

// OK stays OK.
absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// Names become folders, and with the protection's before the day's that of a run.
template <typename Named>
absl::Status CheckNames(const char* field, const Named& all) {
  std::map<std::string, std::string> taken;
  for (const auto& named : all) {
    const std::string& name = named.name();
    if (name.size() > kMaxNameBytes || !absl::ascii_isalnum(name[0])) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".name: expected at most ", kMaxNameBytes,
                                                     " bytes that start with a letter or digit, found \"",
                                                     absl::CHexEscape(name), "\""));
    }
    const auto [other, is_new] = taken.emplace(FileName(name), name);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": expected names that differ as file names, found \"",
                                                     absl::CHexEscape(other->second), "\" and \"",
                                                     absl::CHexEscape(name), "\""));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConfig(const v1::StreamConfig& config) {
  SPLITVEIL_RETURN_IF_ERROR(CheckNames("day", config.day()));
  SPLITVEIL_RETURN_IF_ERROR(CheckNames("protection", config.protection()));
  for (const v1::SweepConfig::Protection& protection : config.protection()) {
    SPLITVEIL_RETURN_IF_ERROR(InFile(protection.name(), SelfTestProtection(protection.config())));
  }
  return absl::OkStatus();
}

// A day's data and what stands for them.
struct DayData {
  std::string name, label_path, nonlabel_path, sha256;
};

absl::StatusOr<std::vector<DayData>> ReadDays(const v1::StreamConfig& config, LocalRun base) {
  std::vector<DayData> days;
  for (const v1::StreamConfig::Day& day : config.day()) {
    DayData data{day.name(), day.label_dataset(), day.nonlabel_dataset(), ""};
    base.label_config.mutable_party()->mutable_dataset()->set_path(data.label_path);
    base.nonlabel_config.mutable_party()->mutable_dataset()->set_path(data.nonlabel_path);
    SPLITVEIL_ASSIGN_OR_RETURN(data.sha256, DataSha256(base));
    days.push_back(std::move(data));
  }
  return days;
}

// `party` leaves `checkpoint` in its folder and continues from that of the day before; null: fresh weights.
void Chain(const char* checkpoint, const StreamRun* before, v1::PartyCommon& party) {
  party.set_checkpoint_path(checkpoint);
  party.clear_initial_checkpoint();
  if (before != nullptr) {
    party.set_initial_checkpoint(absl::StrCat("../", FileName(before->day), "/", checkpoint));
  }
}

StreamRun MakeRun(const LocalRun& base, const v1::SweepConfig::Protection& protection, const DayData& day,
                  const StreamRun* before) {
  StreamRun run{base, protection.name(), day.name};
  run.name = absl::StrCat(FileName(protection.name()), "/", FileName(day.name));
  run.agreement.set_run_name(absl::StrCat(FileName(protection.name()), "-", FileName(day.name)));
  run.agreement.set_progressive_validation(true);
  run.agreement.set_test_fraction(0);
  run.agreement.set_validation_fraction(0);
  SetProtection(protection.config(), run);
  run.label_config.mutable_party()->mutable_dataset()->set_path(day.label_path);
  run.nonlabel_config.mutable_party()->mutable_dataset()->set_path(day.nonlabel_path);
  Chain(kLabelCheckpoint, before, *run.label_config.mutable_party());
  Chain(kNonLabelCheckpoint, before, *run.nonlabel_config.mutable_party());
  run.configuration_sha256 =
      ConfigurationSha256(run, absl::StrCat(day.sha256, before == nullptr ? "" : before->configuration_sha256));
  return run;
}

}  // namespace

absl::StatusOr<std::vector<StreamChain>> PlanStream(const std::string& config_path) {
  v1::StreamConfig config;
  SPLITVEIL_RETURN_IF_ERROR(LoadTextConfig(config_path, config));
  MakePathsAbsolute(config);  // A run is configured in a folder of its own.
  SPLITVEIL_RETURN_IF_ERROR(InFile(config_path, CheckConfig(config)));
  SPLITVEIL_ASSIGN_OR_RETURN(
      LocalRun base, LoadLocalRun(config.agreement_path(), config.label_config_path(), config.nonlabel_config_path()));
  SetSeeds(config.seed(), base.label_config, base.nonlabel_config);
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<DayData> days, ReadDays(config, base));
  std::vector<StreamChain> chains;
  for (const v1::SweepConfig::Protection& protection : config.protection()) {
    StreamChain& chain = chains.emplace_back();
    for (const DayData& day : days) {
      StreamRun run = MakeRun(base, protection, day, chain.empty() ? nullptr : &chain.back());
      chain.push_back(std::move(run));
    }
    const absl::Status valid = ValidateLabelConfig(chain.front().label_config, chain.front().agreement);
    SPLITVEIL_RETURN_IF_ERROR(InFile(config_path, InFile(protection.name(), valid)));
  }
  return chains;
}

}  // namespace splitveil
