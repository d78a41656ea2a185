#include "deploy/operator/sweep/sweep_plan.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/config/text_config.h"
#include "common/process/file.h"
#include "common/storage/section_file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr char kParty[] = R"(party {
  identity { own_name: "OWN" peer_name: "PEER" certificate_path: "keys/own.pem" private_key_path: "/keys/own.key"
             authority_path: "../ca.pem" }
  dataset { path: "data.data" } optimizer { adam {} } ledger_path: "base.db" reproducible_seed: 99 })";

class SweepPlanTest : public ::testing::Test {
 protected:
  SweepPlanTest() {
    Write("run.textproto", "run_name: \"base\" cut_width: 8 audit { layers: \"cut\" attacks: NORM }");
    Write("label.textproto", absl::StrCat(kParty, "model {} protection { none {} }"));
    Write("nonlabel.textproto",
          absl::StrCat(kParty, "peer_address: \"elsewhere:1\" model { layers { name: \"first\" units: 8 } }"));
    WriteData("rows");
  }

  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFile(folder_.File(name), text).ok());
  }
  // Stands for prepared data: the plan looks at their digest only.
  void WriteData(const std::string& text) {
    auto file = SectionFileWriter::Create(folder_.File("data.data"), {"rows"});
    ASSERT_TRUE(file.ok() && (*file)->Append(0, text).ok() && (*file)->Publish().ok());
  }
  absl::StatusOr<std::vector<SweepRun>> Plan(const std::string& grid) {
    Write("sweep.textproto", absl::StrCat("agreement_path: \"run.textproto\"\nlabel_config_path: \"label.textproto\"\n"
                                          "nonlabel_config_path: \"nonlabel.textproto\"\n",
                                          grid));
    return PlanSweep(folder_.File("sweep.textproto"));
  }
  // Expects InvalidArgument or NotFound (both exit 2); the message.
  std::string PlanError(const std::string& grid) {
    const absl::Status status = Plan(grid).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsNotFound(status)) << status;
    return std::string(status.message());
  }

  testing::TempFolder folder_;
};

TEST_F(SweepPlanTest, IsEveryProtectionWithEverySeedSeedBySeed) {
  const auto runs = Plan("protection { name: \"my own\" config { max_norm {} } } marvell_s: [0.25, 4] seeds: [1, 7]");
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> names;
  for (const SweepRun& run : *runs) {
    names.push_back(run.name);
  }
  EXPECT_THAT(names,
              ElementsAre("none-seed1", "my-own-seed1", "marvell-s=0.25-seed1", "marvell-s=4-seed1", "frozen-seed1",
                          "none-seed7", "my-own-seed7", "marvell-s=0.25-seed7", "marvell-s=4-seed7", "frozen-seed7"));
  EXPECT_EQ((*runs)[2].protection.config.marvell().s(), 0.25);
  EXPECT_EQ((*runs)[2].label_config.protection().marvell().s(), 0.25);
  EXPECT_EQ((*runs)[1].protection.name, "my own");
}

// A run's configurations lie in a folder of its own, several at a time.
TEST_F(SweepPlanTest, ReadsWhatTheBaseNamesAndServesNoPage) {
  const std::string party = absl::StrReplaceAll(
      kParty, {{"reproducible_seed",
                "monitoring { token_path: \"token\" } initial_checkpoint: \"before/c\" checkpoint_path: \"/all/c\" "
                "export_dir: \"model\" status_socket: \"/all/s\" reproducible_seed"}});
  Write("label.textproto", absl::StrCat(party, "model { torchscript_path: \"top.pt\" } protection { none {} }"));
  Write("nonlabel.textproto",
        absl::StrCat(party, "peer_address: \"elsewhere:1\" model { torchscript_path: \"bottom.pt\" }"));
  const auto runs = Plan("marvell_s: 4 seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  for (const SweepRun& run : *runs) {
    EXPECT_EQ(run.label_config.model().torchscript_path(), folder_.File("top.pt"));
    EXPECT_EQ(run.nonlabel_config.model().torchscript_path(), folder_.File("bottom.pt"));
    for (const v1::PartyCommon& common : {run.label_config.party(), run.nonlabel_config.party()}) {
      EXPECT_EQ(common.initial_checkpoint(), folder_.File("before/c"));
      EXPECT_FALSE(common.has_monitoring());
      // Runs side by side share nothing that they write.
      EXPECT_EQ(common.export_dir(), "export");
      EXPECT_FALSE(common.has_status_socket());
    }
    EXPECT_EQ(run.label_config.party().checkpoint_path(), "label_party.checkpoint");
    EXPECT_EQ(run.nonlabel_config.party().checkpoint_path(), "nonlabel_party.checkpoint");
  }
}

TEST_F(SweepPlanTest, AddsTheReferencesThatSayWhatThereIsToLose) {
  Write("label.textproto", absl::StrCat(kParty, "model {} protection { max_norm {} } ",
                                        "release { max_step_auc_bound: 0.6 action: HALT }"));
  const auto runs = Plan("marvell_s: 4 seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(3));
  const SweepRun &none = (*runs)[0], &marvell = (*runs)[1], &frozen = (*runs)[2];
  EXPECT_EQ(none.protection.reference, Reference::kNone);
  EXPECT_TRUE(none.label_config.protection().has_none());
  EXPECT_FALSE(none.label_config.has_release());  // It must not be halted, nor frozen.
  EXPECT_EQ(marvell.protection.reference, Reference::kNo);
  EXPECT_EQ(marvell.label_config.release().max_step_auc_bound(), 0.6);
  EXPECT_EQ(marvell.label_config.release().action(), v1::HALT);
  EXPECT_EQ(frozen.protection.reference, Reference::kFrozen);
  EXPECT_EQ(frozen.protection.family, "frozen");
  EXPECT_TRUE(frozen.label_config.protection().has_none());
  EXPECT_EQ(frozen.label_config.release().max_step_auc_bound(), 0.5);
  EXPECT_EQ(frozen.label_config.release().action(), v1::FREEZE_BOTTOM);
  EXPECT_EQ(frozen.label_config.party().reproducible_seed(), none.label_config.party().reproducible_seed());
  EXPECT_EQ(frozen.nonlabel_config.party().reproducible_seed(), none.nonlabel_config.party().reproducible_seed());
}

TEST_F(SweepPlanTest, GivesEveryRunWithNoisedLabelsAnAccountAndNoOther) {
  const std::string grid = "marvell_s: 4 gaussian_label_dp_max_run_auc_bound: 0.7 seeds: 3";
  // Of none, marvell, gaussian_label_dp and frozen.
  const auto expect_accounts = [](const std::vector<SweepRun>& runs) {
    ASSERT_THAT(runs, SizeIs(4));
    for (size_t i = 0; i < runs.size(); ++i) {
      EXPECT_EQ(runs[i].label_config.has_privacy_account(), i == 2) << runs[i].name;
    }
  };
  const std::vector<SweepRun> without = Plan(grid).value();
  expect_accounts(without);
  EXPECT_EQ(without[2].label_config.privacy_account().path(), "label_party.account.db");  // In the run's own folder.
  EXPECT_NE(without[2].label_config.privacy_account().label_set(), "");
  Write("label.textproto",
        absl::StrCat(kParty, "model {} protection { gaussian_label_dp { mu: 1 } } ",
                     "privacy_account { path: \"kept/a.db\" label_set: \"June\" max_lifetime_auc_bound: 0.8 }"));
  const std::vector<SweepRun> with = Plan(grid).value();
  expect_accounts(with);
  const v1::PrivacyAccount& account = with[2].label_config.privacy_account();
  EXPECT_EQ(account.path(), folder_.File("kept/a.db"));
  EXPECT_EQ(account.label_set(), "June");
  EXPECT_EQ(account.max_lifetime_auc_bound(), 0.8);
}

TEST_F(SweepPlanTest, AConfiguredNoneIsTheReferenceUnlessItRegularises) {
  auto runs = Plan("marvell_s: 4 protection { name: \"open\" config { none {} } } seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(3));
  EXPECT_EQ((*runs)[0].protection.name, "open");
  EXPECT_EQ((*runs)[0].protection.reference, Reference::kNone);
  runs = Plan("protection { name: \"dcor\" config { none {} distance_correlation { weight: 0.1 } } } seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(3));
  EXPECT_EQ((*runs)[0].protection.name, "none");
  EXPECT_EQ((*runs)[0].protection.reference, Reference::kNone);
  EXPECT_EQ((*runs)[1].protection.reference, Reference::kNo);
}

TEST_F(SweepPlanTest, FailsOnAProtectionThatTheBaseConfigurationDoesNotAllow) {
  Write("run.textproto", "run_name: \"base\" cut_width: 8 audit { layers: \"cut\" attacks: NORM disclosure: ORACLE }");
  EXPECT_THAT(PlanError("gaussian_label_dp_max_run_auc_bound: 0.7 seeds: 1"),
              HasSubstr("sweep.textproto: gaussian_label_dp 0.7: protection.gaussian_label_dp: expected an agreement"));
}

TEST_F(SweepPlanTest, ListsGiveTheProtectionTheySay) {
  const auto runs =
      Plan("marvell_s: 4 marvell_sum_kl: 0.5 iso_t: 25 iso_ratio: 5 gaussian_label_dp_max_run_auc_bound: 0.6 seeds: 0");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(7));
  EXPECT_EQ((*runs)[1].protection.config.marvell().s(), 4);
  EXPECT_EQ((*runs)[2].protection.config.marvell().sum_kl(), 0.5);
  // Standard deviation ratio ||g_max|| / sqrt(d): variance t/d ||g_max||^2 with t = ratio^2.
  EXPECT_EQ((*runs)[3].protection.config.iso().t(), 25);
  EXPECT_EQ((*runs)[4].protection.config.iso().ratio(), 5);
  EXPECT_EQ((*runs)[4].protection.parameter, 5);
  EXPECT_EQ((*runs)[4].protection.family, "iso_ratio");
  EXPECT_EQ((*runs)[5].protection.config.gaussian_label_dp().max_run_auc_bound(), 0.6);
  EXPECT_EQ((*runs)[5].protection.family, "gaussian_label_dp_run_auc_bound");
  EXPECT_EQ((*runs)[5].protection.name, "gaussian_label_dp 0.6");
}

TEST_F(SweepPlanTest, ProtectionsConfiguredInFullJoinTheFamilyOfTheirParameter) {
  v1::SweepConfig config;
  config.add_protection()->mutable_config()->mutable_none();
  config.add_protection()->mutable_config()->mutable_iso()->set_t(2);
  config.add_protection()->mutable_config()->mutable_marvell()->set_s(3);
  config.add_protection()->mutable_config()->mutable_marvell()->set_sum_kl(1);
  config.add_protection()->mutable_config()->mutable_marvell()->set_detection_error(0.4);
  config.add_protection()->mutable_config()->mutable_marvell()->mutable_run_budget()->set_max_run_auc_bound(0.8);
  config.add_protection()->mutable_config()->mutable_label_dp()->set_epsilon(2);
  config.add_protection()->mutable_config()->mutable_sparsify()->set_keep(0.5);
  config.add_protection()->mutable_config()->mutable_discretize()->set_bins(6);
  std::vector<std::string> families;
  for (int i = 0; i < config.protection_size(); ++i) {
    config.mutable_protection(i)->set_name(absl::StrCat("p", i));
  }
  const auto protections = ExpandProtections(config).value();
  for (const SweepProtection& protection : protections) {
    families.push_back(protection.family);
  }
  EXPECT_THAT(families, ElementsAre("none", "iso_t", "marvell_s", "marvell_sum_kl", "marvell_detection_error",
                                    "marvell_run_budget", "label_dp", "sparsify", "discretize", "frozen"));
  EXPECT_FALSE(protections[0].parameter.has_value());
  EXPECT_EQ(protections[4].parameter, 0.4);
  EXPECT_EQ(protections[5].parameter, 0.8);
  EXPECT_EQ(protections[6].parameter, 2);
}

TEST_F(SweepPlanTest, ARunBudgetIsPlannedForAsManyEpochsAsAreAgreed) {
  const auto runs =
      Plan("protection { name: \"budget\" config { marvell { run_budget { max_run_auc_bound: 0.7 } } } } seeds: 1");
  ASSERT_TRUE(runs.ok()) << runs.status();
  EXPECT_EQ((*runs)[1].label_config.protection().marvell().run_budget().planned_epochs(),
            (*runs)[1].agreement.epochs());
}

TEST(DemoSweepTest, IsTheGridOfThePapersFigures) {
  v1::SweepConfig config;
  ASSERT_EQ(LoadTextConfig("deploy/demo/sweep.textproto", config), absl::OkStatus());
  EXPECT_THAT(ExpandProtections(config).value(), SizeIs(1 + 1 + 8 + 9 + 1));  // The last: frozen.
  EXPECT_EQ(config.seeds_size(), 2);
}

TEST_F(SweepPlanTest, SeedsOfBothPartiesRepeatAcrossProtectionsAndNeverCoincide) {
  const auto runs = Plan("marvell_s: [1, 2] seeds: [0, 1]");
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::set<uint64_t> seeds;
  for (const SweepRun& run : *runs) {
    EXPECT_EQ(run.label_config.party().reproducible_seed(), 2 * run.seed + 1);
    EXPECT_EQ(run.nonlabel_config.party().reproducible_seed(), 2 * run.seed + 2);
    seeds.insert(run.label_config.party().reproducible_seed());
    seeds.insert(run.nonlabel_config.party().reproducible_seed());
  }
  EXPECT_THAT(seeds, ElementsAre(1, 2, 3, 4));
}

TEST_F(SweepPlanTest, ReadsFromWhereTheBaseFilesSayAndWritesIntoTheRunsFolder) {
  const auto runs = Plan("marvell_s: 1 seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  const v1::PartyCommon& party = runs->front().label_config.party();
  EXPECT_EQ(party.identity().certificate_path(), folder_.File("keys/own.pem"));
  EXPECT_EQ(party.identity().private_key_path(), "/keys/own.key");
  EXPECT_EQ(party.dataset().path(), folder_.File("data.data"));
  EXPECT_EQ(party.ledger_path(), "label_party.db");
  EXPECT_EQ(runs->front().nonlabel_config.party().ledger_path(), "nonlabel_party.db");
  EXPECT_EQ(runs->front().label_config.listen_address(), "127.0.0.1:0");
  EXPECT_EQ(runs->at(1).agreement.run_name(), "marvell-s=1-seed3");
}

TEST_F(SweepPlanTest, DigestFollowsEverythingARunDependsOn) {
  // Of the one protection asked for: none is the first.
  const auto digest = [&](const std::string& grid) { return Plan(grid)->at(1).configuration_sha256; };
  const std::string usual = digest("marvell_s: 1 seeds: 3");
  EXPECT_EQ(usual.size(), 64);
  EXPECT_EQ(digest("marvell_s: [1, 2] seeds: [3, 4]"), usual);  // The rest of the grid does not matter.
  std::set<std::string> digests = {usual, digest("marvell_s: 2 seeds: 3"), digest("marvell_s: 1 seeds: 4")};
  WriteData("other rows");
  digests.insert(digest("marvell_s: 1 seeds: 3"));
  Write("run.textproto", "run_name: \"base\" cut_width: 8 epochs: 6");
  digests.insert(digest("marvell_s: 1 seeds: 3"));
  Write("nonlabel.textproto",
        absl::StrCat(kParty, "peer_address: \"elsewhere:1\" model { layers { name: \"second\" units: 8 } }"));
  digests.insert(digest("marvell_s: 1 seeds: 3"));
  EXPECT_THAT(digests, SizeIs(6));
}

TEST_F(SweepPlanTest, FailsWithThePlaceOfABadNumber) {
  EXPECT_THAT(PlanError("marvell_s: 1\nmarvell_s: 0 seeds: 1"),
              HasSubstr("sweep.textproto:5:1: marvell_s[1]: expected"));
  EXPECT_THAT(PlanError("marvell_s: [1, 0] seeds: 1"), HasSubstr("marvell_s[1]: expected"));
  EXPECT_THAT(PlanError("marvell_sum_kl: 4.5 seeds: 1"), HasSubstr("marvell_sum_kl[0]: expected"));
  EXPECT_THAT(PlanError("iso_ratio: -1 seeds: 1"), HasSubstr("iso_ratio[0]: expected"));
  EXPECT_THAT(PlanError("protection { name: \"a\" config { iso { t: -1 } } } seeds: 1"),
              HasSubstr("protection[0].config.iso.t: expected"));
}

TEST_F(SweepPlanTest, VariesTheActivationsUnderTheConfiguredProtectionOfTheGradients) {
  Write("label.textproto", absl::StrCat(kParty, "model {} protection { max_norm {} }"));
  const auto runs =
      Plan("activation_protection { name: \"g\" config { gaussian {} clip_norm: 1 noise_sigma: 2 } } seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(3));
  EXPECT_EQ((*runs)[0].name, "none-seed3");
  EXPECT_TRUE((*runs)[0].nonlabel_config.protection().has_none());
  EXPECT_EQ((*runs)[1].name, "configured--g-seed3");
  EXPECT_TRUE((*runs)[1].label_config.protection().has_max_norm());
  EXPECT_TRUE((*runs)[1].nonlabel_config.protection().has_gaussian());
  EXPECT_EQ((*runs)[2].name, "frozen-seed3");
  EXPECT_NE((*runs)[0].configuration_sha256, (*runs)[1].configuration_sha256);
}

TEST_F(SweepPlanTest, CutsTheModelWhereItIsToldTo) {
  Write("label.textproto", absl::StrCat(kParty,
                                        "model { layers { name: \"first\" units: 8 } layers { name: \"second\" units: "
                                        "4 } layers { name: \"third\" units: 4 } } protection { none {} }"));
  Write("nonlabel.textproto",
        absl::StrCat(kParty,
                     "peer_address: \"elsewhere:1\" model { layers { name: \"first\" units: 8 } layers { name: "
                     "\"second\" units: 4 } layers { name: \"third\" units: 4 } }"));
  const auto runs =
      Plan("cut_layer { name: \"first\" cut_width: 8 } cut_layer { name: \"second\" cut_width: 4 } seeds: 3");
  ASSERT_TRUE(runs.ok()) << runs.status();
  ASSERT_THAT(*runs, SizeIs(4));
  EXPECT_EQ((*runs)[2].name, "none--cut-second-seed3");
  EXPECT_EQ((*runs)[2].agreement.cut_layer(), "second");
  EXPECT_EQ((*runs)[2].agreement.cut_width(), 4);
  EXPECT_THAT(PlanError("cut_layer { name: \"first\" cut_width: 9 } seeds: 3"), HasSubstr("none, cut first: "));
  EXPECT_THAT(PlanError("cut_layer { name: \"eighth\" cut_width: 8 } seeds: 3"), HasSubstr("eighth"));
}

TEST_F(SweepPlanTest, FailsWithoutProtectionsOrSeeds) {
  EXPECT_THAT(PlanError("seeds: 1"), HasSubstr("sweep.textproto: protection: expected at least one"));
  EXPECT_THAT(PlanError("marvell_s: 1"), HasSubstr("seeds: expected at least one"));
  EXPECT_THAT(PlanError("marvell_s: 1 seeds: [2, 3, 2]"), HasSubstr("seeds: a seed is listed twice"));
}

TEST_F(SweepPlanTest, FailsWhereTwoRunsWouldShareAFolder) {
  EXPECT_THAT(PlanError("marvell_s: [1, 1] seeds: 1"), HasSubstr("\"marvell s=1\" and \"marvell s=1\""));
  EXPECT_THAT(PlanError("protection { name: \"frozen\" config { max_norm {} } } seeds: 1"),
              HasSubstr("also from the sweep's own, frozen and (unless it is configured) none; found \"frozen\""));
  EXPECT_THAT(PlanError("protection { name: \"none\" config { max_norm {} } } seeds: 1"),
              HasSubstr("found \"none\" and \"none\""));
  EXPECT_THAT(PlanError("protection { name: \"marvell/s=1\" config { none {} } } marvell_s: 1 seeds: 1"),
              HasSubstr("expected names that differ as file names"));
}

TEST_F(SweepPlanTest, RefusesNamesThatLeaveTheFolderOrAreNoNames) {
  for (const std::string name : {"../out", ".hidden", "-rf", " "}) {
    EXPECT_THAT(PlanError(absl::StrCat("protection { name: \"", name, "\" config { none {} } } seeds: 1")),
                HasSubstr("start with a letter or digit"));
  }
  EXPECT_THAT(
      PlanError(absl::StrCat("protection { name: \"", std::string(65, 'a'), "\" config { none {} } } seeds: 1")),
      HasSubstr("at most 64 bytes"));
  const auto runs = Plan("protection { name: \"a/../b\\n\" config { none {} } } seeds: 1");
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(runs->front().name, "a-..-b--seed1");
}

TEST_F(SweepPlanTest, FailsWithTheBaseFileThatIsWrong) {
  Write("label.textproto", absl::StrCat(kParty, "model {} protection { none {} } sized: 3"));
  EXPECT_THAT(PlanError("marvell_s: 1 seeds: 1"), StartsWith(folder_.File("label.textproto:")));
  Write("label.textproto", absl::StrCat(kParty, "model {} protection { none {} }"));
  Write("run.textproto", "run_name: \"base\"");
  EXPECT_THAT(PlanError("marvell_s: 1 seeds: 1"), HasSubstr("run.textproto:1:1: cut_width: expected"));
}

TEST_F(SweepPlanTest, FailsWithoutItsFiles) {
  EXPECT_TRUE(absl::IsNotFound(PlanSweep(folder_.File("none.textproto")).status()));
  Write("nonlabel.textproto", "");
  EXPECT_THAT(PlanError("marvell_s: 1 seeds: 1"), HasSubstr("nonlabel.textproto:1:1: party: expected"));
  std::string moved = kParty;
  moved.replace(moved.find("data.data"), 9, "gone.data");
  Write("nonlabel.textproto",
        absl::StrCat(moved, "peer_address: \"elsewhere:1\" model { layers { name: \"first\" units: 8 } }"));
  EXPECT_THAT(PlanError("marvell_s: 1 seeds: 1"), HasSubstr("gone.data: cannot be opened: No such file"));
}

}  // namespace
}  // namespace splitveil
