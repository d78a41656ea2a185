#include "tests/testing/small_run.h"

#include <algorithm>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/crypto/secure_random.h"
#include "common/privacy_account/privacy_account.h"
#include "label_party/label_privacy/label_targets.h"
#include "label_party/protection/protection_factory.h"

namespace splitveil::testing {
namespace {

constexpr int32_t kCategories = 5;

constexpr char kAgreement[] = R"(
  run_name: "small" cut_width: 8 batch_size: 64 epochs: 2 test_fraction: 0.2 validation_fraction: 0
  audit { layers: "cut" layers: "first" attacks: NORM attacks: COSINE disclosure: ORACLE }
)";
constexpr char kLabelConfig[] = R"(
  party { optimizer { learning_rate: 0.001 adam {} } reproducible_seed: 5 }
  model { layers { name: "top" units: 8 } wide { embedding { dimension: 1 } } }
  protection { none {} }
)";
constexpr char kNonLabelConfig[] = R"(
  party { optimizer { learning_rate: 0.001 adam {} } reproducible_seed: 6 }
  model { embedding { dimension: 4 } layers { name: "first" units: 16 } layers { name: "second" units: 8 } }
)";

template <typename Message>
void Parse(const char* text, Message* message) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, message));
}

void AddRow(SmallTable& data, const std::string& id, std::mt19937_64& random, int label) {
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int32_t> category(0, 4);
  data.ids.push_back(id);
  std::vector<float> numeric(2);
  for (float& number : numeric) {
    number = std::clamp((normal(random) + static_cast<float>(label) + 3) / 7, 0.0F, 1.0F);
  }
  data.numeric.push_back(numeric);
  std::vector<int32_t> categories(2);
  for (int32_t& value : categories) {
    value = 1 + (category(random) + 2 * label) % kCategories;
  }
  data.categories.push_back(categories);
}

// Of the half of the task's labels that `label` says.
void AddLabel(SmallTable& data, std::mt19937_64& random, int label) {
  switch (data.task.kind) {
    case Task::Kind::kBinary:
      data.labels.push_back(static_cast<uint8_t>(label));
      break;
    case Task::Kind::kMultiClass: {
      const auto half = static_cast<uint64_t>(data.task.classes / 2);
      const uint64_t others = static_cast<uint64_t>(data.task.classes) - half;
      data.labels.push_back(static_cast<uint8_t>(label == 1 ? half + random() % others : random() % half));
      break;
    }
    case Task::Kind::kRegression:
      data.targets.push_back((static_cast<float>(label) + std::uniform_real_distribution<float>()(random)) / 2);
      break;
  }
}

}  // namespace

SmallRun::SmallRun(int examples, const Task& task) {
  label_data.task = task;
  label_data.categories_per_column = nonlabel_data.categories_per_column = kCategories;
  Parse(kAgreement, &agreement);
  Canonicalize(agreement);
  Parse(kLabelConfig, &label_config);
  Parse(kNonLabelConfig, &nonlabel_config);
  std::mt19937_64 random(17);
  for (int i = 0; i < examples + 20; ++i) {
    const int label = random() % 4 == 0;
    const std::string id = absl::StrCat("person-", i);
    if (i < examples + 10) {
      AddRow(label_data, id, random, label);
      AddLabel(label_data, random, label);
    }
    if (i < examples || i >= examples + 10) {
      AddRow(nonlabel_data, id, random, label);
    }
  }
}

void SmallRun::AttackAttributes() {
  std::mt19937_64 random(23);
  nonlabel_data.attribute_values = {2};
  for (std::vector<float>& numeric : nonlabel_data.numeric) {
    const uint8_t value = random() % 3 == 0 ? 1 : 0;
    numeric = {static_cast<float>(value), numeric[1]};
    nonlabel_data.attributes.push_back({random() % 10 == 0 ? kUnknownAttribute : value});
  }
  known_attributes = nonlabel_data;
  v1::AttributeAuditAgreement& audit = *agreement.mutable_attribute_audit();
  audit.add_attributes("A1");
  for (const v1::AttributeAttack attack : {v1::BASIC, v1::LINEAR_PROBE, v1::POISON}) {
    audit.add_attacks(attack);
  }
  audit.set_embed_auxiliary(true);
  audit.set_auxiliary_fraction(0.2);
  audit.set_marked_fraction(0.2);
  label_config.mutable_attribute_attack()->mutable_auxiliary()->set_path("known.data");
}

LabelSessionOptions SmallRun::LabelOptions() {
  LabelSessionOptions options;
  options.agreement = agreement;
  options.config = label_config;
  options.ledger_path = files.File("label_party.db");
  options.data = LabelDataset();
  options.known_attributes = known_attributes.ids.empty() ? nullptr : known_attributes.Store();
  options.checkpoints = label_checkpoints;
  options.status = &label_status;
  absl::StatusOr<std::unique_ptr<SecureGaussian>> noise =
      noise_key ? SecureGaussian::Create(SecretKey(*noise_key), SecureGaussian::KeyLife::kManyRuns)
                : SecureGaussian::Create(SecretKey::Generate());
  EXPECT_TRUE(noise.ok());
  std::unique_ptr<PrivacyAccount> account;
  if (label_config.has_privacy_account()) {
    const v1::PrivacyAccount& config = label_config.privacy_account();
    absl::StatusOr<std::unique_ptr<PrivacyAccount>> opened = PrivacyAccount::Open(
        {config.path(), config.label_set(), config.max_lifetime_auc_bound(), LabelKindOf(label_data.task)});
    EXPECT_TRUE(opened.ok()) << opened.status();
    account = *std::move(opened);
    options.account_id = account->id();
  }
  v1::GradientProtection config = label_config.protection();
  FillPlannedEpochs(agreement.epochs(), config);
  absl::StatusOr<Protection> protection =
      MakeProtection(config, *std::move(noise), std::move(account), label_data.task);
  EXPECT_TRUE(protection.ok()) << protection.status();
  options.protection = *std::move(protection);
  return options;
}

NonLabelSessionOptions SmallRun::NonLabelOptions(LabelPartyPeer* peer) {
  NonLabelSessionOptions options;
  options.agreement = agreement;
  options.config = nonlabel_config;
  options.ledger_path = files.File("nonlabel_party.db");
  options.data = NonLabelDataset();
  options.checkpoints = nonlabel_checkpoints;
  options.peer = peer;
  options.status = &nonlabel_status;
  options.stop = [] { return false; };
  return options;
}

std::shared_ptr<const Dataset> SmallRun::LabelDataset() const {
  return label_data.Store(agreement.test_fraction(), agreement.split_salt(), agreement.validation_fraction());
}

std::shared_ptr<const Dataset> SmallRun::NonLabelDataset() const {
  return nonlabel_data.Store(agreement.test_fraction(), agreement.split_salt(), agreement.validation_fraction());
}

}  // namespace splitveil::testing
