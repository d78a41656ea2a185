#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/stream/stream.h"

#include "common/crypto/label_noise.h"
#include "common/privacy_account/privacy_account.h"
#include "common/process/file.h"
#include "common/storage/section_file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kParty[] = R"(party {
  identity { own_name: "OWN" peer_name: "PEER" certificate_path: "own.pem" private_key_path: "own.key"
             authority_path: "ca.pem" }
  dataset { path: "unused" } optimizer { adam {} } ledger_path: "base.db" checkpoint_path: "base"
  monitoring { token_path: "token" } })";
constexpr char kProtections[] = R"(
  protection { name: "none" config { none {} } } protection { name: "marvell 0.1" config { marvell { sum_kl: 0.1 } } } )";

class StreamPlanTest : public ::testing::Test {
 protected:
  StreamPlanTest() {
    Write("run.textproto", "run_name: \"base\" cut_width: 8 test_fraction: 0.1");
    Write("label.textproto", absl::StrCat(kParty, "model {} protection { none {} }"));
    Write("nonlabel.textproto",
          absl::StrCat(kParty, "peer_address: \"elsewhere:1\" model { layers { name: \"first\" units: 8 } }"));
    for (const char* name : {"l1", "n1", "l2", "n2"}) {
      StoreData(name, name);
    }
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder_.File(name), text).ok());
  }
  void StoreData(const std::string& name, const std::string& rows) {
    std::unique_ptr<SectionFileWriter> writer = *SectionFileWriter::Create(folder_.File(name), {"rows"});
    ASSERT_TRUE(writer->Append(0, rows).ok());
    ASSERT_TRUE(writer->Publish().ok());
  }
  static std::string Day(const std::string& name, int number) {
    return absl::StrCat("day { name: \"", name, "\" label_dataset: \"l", number, "\" nonlabel_dataset: \"n", number,
                        "\" } ");
  }
  absl::StatusOr<std::vector<StreamChain>> Plan(const std::string& rest) {
    Write("stream.textproto", absl::StrCat("agreement_path: \"run.textproto\" label_config_path: \"label.textproto\" "
                                           "nonlabel_config_path: \"nonlabel.textproto\"\n",
                                           rest));
    return PlanStream(folder_.File("stream.textproto"));
  }
  std::string PlanError(const std::string& rest) {
    const absl::Status status = Plan(rest).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
    return std::string(status.message());
  }

  testing::TempFolder folder_;
};

TEST_F(StreamPlanTest, ChainsTheDaysOfEachProtection) {
  const auto chains = Plan(absl::StrCat(kProtections, Day("Mon 1", 1), Day("Tue", 2)));
  ASSERT_TRUE(chains.ok()) << chains.status();
  ASSERT_THAT(*chains, SizeIs(2));
  ASSERT_THAT((*chains)[1], SizeIs(2));
  const StreamRun& first = (*chains)[1][0];
  const StreamRun& second = (*chains)[1][1];
  EXPECT_EQ(second.name, "marvell-0.1/Tue");
  EXPECT_EQ(second.label_config.protection().marvell().sum_kl(), 0.1);
  EXPECT_TRUE(second.agreement.progressive_validation());
  EXPECT_EQ(second.agreement.test_fraction(), 0);
  EXPECT_EQ(second.label_config.party().dataset().path(), folder_.File("l2"));
  EXPECT_EQ(second.nonlabel_config.party().dataset().path(), folder_.File("n2"));
  EXPECT_FALSE(first.label_config.party().has_initial_checkpoint());
  EXPECT_FALSE(first.label_config.party().has_monitoring());
  EXPECT_FALSE(second.nonlabel_config.party().has_monitoring());
  EXPECT_EQ(second.label_config.party().initial_checkpoint(), "../Mon-1/label_party.checkpoint");
  EXPECT_EQ(second.nonlabel_config.party().initial_checkpoint(), "../Mon-1/nonlabel_party.checkpoint");
  EXPECT_EQ(second.nonlabel_config.party().checkpoint_path(), "nonlabel_party.checkpoint");
  EXPECT_EQ((*chains)[0][0].label_config.party().reproducible_seed(), first.label_config.party().reproducible_seed());
}

// An id may come again with another label. What was released of it on all days adds up in the one account.
TEST_F(StreamPlanTest, DaysOfNoisedLabelsAreLabelSetsOfTheirOwnInOneAccount) {
  const std::string config = absl::StrCat(
      "protection { name: \"g\" config { gaussian_label_dp { sigma: 4 } } } "
      "protection { name: \"r\" config { label_dp { epsilon: 1 } } }",
      Day("Mon 1", 1), Day("Tue", 2));
  const auto expect_days = [&](const std::string& label_set) {
    const auto chains = Plan(config);
    ASSERT_TRUE(chains.ok()) << chains.status();
    std::vector<std::string> paths;
    for (size_t day = 0; day < 2; ++day) {
      const v1::PrivacyAccount& noised = (*chains)[0][day].label_config.privacy_account();
      EXPECT_EQ(noised.label_set(), absl::StrCat(label_set, ", day ", day == 0 ? "Mon 1" : "Tue"));
      paths.push_back(noised.path());
      // Its head has learned the flips of one label set.
      EXPECT_EQ((*chains)[1][day].label_config.privacy_account().label_set(), label_set);
    }
    EXPECT_EQ(paths[0], paths[1]);
  };
  expect_days("labels of this stream");
  Write("label.textproto", absl::StrCat(kParty,
                                        "model {} protection { none {} } privacy_account { path: \"a.db\" "
                                        "label_set: \"clicks\" }"));
  expect_days("clicks");

  const auto chains = *Plan(config);
  double squares = 0;
  for (int64_t day = 0; day < 2; ++day) {
    const v1::PrivacyAccount& named = chains[0][static_cast<size_t>(day)].label_config.privacy_account();
    const std::unique_ptr<PrivacyAccount> account = *PrivacyAccount::Open({folder_.File("a.db"), named.label_set(), 1});
    const std::vector<NoiseRow> ids = {NoiseRow::OfId("comes again")};
    ASSERT_TRUE(account->CheckLabels(ids, {day}).ok());
    squares += 1.0 / 16;
    EXPECT_NEAR(account->Debit(ids, {day}, {{4U << kLabelGridBits, 1}})->mu(), std::sqrt(squares), 1e-12);
  }
}

TEST_F(StreamPlanTest, ADaysResultDependsOnItsDataAndThoseOfTheDaysBefore) {
  const std::string config = absl::StrCat(kProtections, Day("a", 1), Day("b", 2));
  const auto before = *Plan(config);
  StoreData("l2", "other rows");
  const auto second_changed = *Plan(config);
  EXPECT_EQ(second_changed[0][0].configuration_sha256, before[0][0].configuration_sha256);
  EXPECT_NE(second_changed[0][1].configuration_sha256, before[0][1].configuration_sha256);
  StoreData("l2", "l2");
  StoreData("n1", "other rows");
  const auto first_changed = *Plan(config);
  EXPECT_NE(first_changed[0][0].configuration_sha256, before[0][0].configuration_sha256);
  EXPECT_NE(first_changed[0][1].configuration_sha256, before[0][1].configuration_sha256);
}

TEST_F(StreamPlanTest, FailsWithoutDaysOrProtections) {
  EXPECT_THAT(PlanError(kProtections), HasSubstr("day"));
  EXPECT_THAT(PlanError(Day("a", 1)), HasSubstr("protection"));
}

TEST_F(StreamPlanTest, FailsOnNamesThatAreNoFolders) {
  EXPECT_THAT(PlanError(absl::StrCat(kProtections, Day("../a", 1))), HasSubstr("day.name: expected"));
  EXPECT_THAT(PlanError(absl::StrCat(kProtections, Day("a b", 1), Day("a-b", 2))), HasSubstr("differ as file names"));
  EXPECT_THAT(PlanError(absl::StrCat(kProtections, kProtections, Day("a", 1))),
              HasSubstr("protection: expected names"));
}

TEST_F(StreamPlanTest, FailsOnMissingData) {
  EXPECT_THAT(PlanError(absl::StrCat(kProtections, Day("a", 1), Day("b", 7))), HasSubstr("l7"));
}

TEST_F(StreamPlanTest, FailsOnAProtectionThatCannotWork) {
  EXPECT_THAT(PlanError(absl::StrCat("protection { name: \"bad\" config { marvell { s: -1 } } }", Day("a", 1))),
              HasSubstr("marvell.s: expected"));
}

TEST_F(StreamPlanTest, FailsOnEarlyStoppingForNothingIsTested) {
  Write("label.textproto", absl::StrCat(kParty, "model {} protection { none {} } early_stopping {}"));
  EXPECT_THAT(PlanError(absl::StrCat(kProtections, Day("a", 1))), HasSubstr("early_stopping"));
}

}  // namespace
}  // namespace splitveil
