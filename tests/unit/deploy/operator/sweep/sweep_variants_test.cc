
#include <string>
#include <vector>

#include "deploy/operator/sweep/sweep_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/config/text_config.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPareto[] =
    "activation_protection { name: 'pareto' config { pareto { threshold: 0.005 } attributes: 'sex' noise_sigma: 1 } } ";
constexpr char kOpen[] = "activation_protection { name: 'open' config { none {} } } ";
constexpr char kCuts[] = "cut_layer { name: 'first' cut_width: 64 } cut_layer { name: 'second' cut_width: 8 } ";

v1::SweepConfig Config(const std::string& text) {
  v1::SweepConfig config;
  const absl::Status status = ParseTextConfig(
      "agreement_path: 'a' label_config_path: 'l' nonlabel_config_path: 'n' seeds: 1 " + text, "sweep", config);
  EXPECT_TRUE(status.ok()) << status;
  return config;
}

absl::StatusOr<std::vector<SweepCell>> Cross(const std::string& text) {
  const v1::SweepConfig config = Config(text);
  return CrossVariants(ExpandProtections(config).value(), config);
}

std::vector<std::string> NamesOf(const std::vector<SweepCell>& cells) {
  std::vector<std::string> names;
  for (const SweepCell& cell : cells) {
    names.push_back(cell.protection.name);
  }
  return names;
}

// The names of the references of a kind.
std::vector<std::string> ReferencesOf(const std::vector<SweepCell>& cells, Reference kind) {
  std::vector<std::string> names;
  for (const SweepCell& cell : cells) {
    if (cell.protection.reference == kind) {
      names.push_back(cell.protection.name);
    }
  }
  return names;
}

TEST(SweepVariantsTest, ChangesNothingWhereNothingElseVaries) {
  const std::vector<SweepCell> cells = Cross("marvell_s: 4").value();
  EXPECT_THAT(NamesOf(cells), ElementsAre("none", "marvell s=4", "frozen"));
  LocalRun run;
  run.agreement.set_cut_layer("third");
  run.nonlabel_config.mutable_protection()->mutable_none();
  for (const SweepCell& cell : cells) {
    SetVariant(cell.variant, run);
    EXPECT_EQ(run.agreement.cut_layer(), "third");
    EXPECT_TRUE(run.nonlabel_config.protection().has_none());
  }
}

TEST(SweepVariantsTest, NamesRunsOfUnprotectedGradientsByTheActivationsAlone) {
  const std::string none = "protection { name: 'none' config { none {} } } ";
  const std::vector<SweepCell> cells = Cross(none + kOpen + kPareto).value();
  EXPECT_THAT(NamesOf(cells), ElementsAre("none", "pareto", "frozen"));
  EXPECT_THAT(ReferencesOf(cells, Reference::kNone), ElementsAre("none"));
  EXPECT_TRUE(cells[1].variant.activations->has_pareto());
}

TEST(SweepVariantsTest, CrossesBothDirections) {
  const std::vector<SweepCell> cells =
      Cross(std::string("protection { name: 'none' config { none {} } } marvell_s: 4 ") + kOpen + kPareto).value();
  EXPECT_THAT(NamesOf(cells), ElementsAre("none", "none, pareto", "marvell s=4", "marvell s=4, pareto", "frozen"));
  EXPECT_THAT(ReferencesOf(cells, Reference::kNone), ElementsAre("none"));
  EXPECT_THAT(ReferencesOf(cells, Reference::kFrozen), ElementsAre("frozen"));
}

TEST(SweepVariantsTest, AddsReferencesWhoseActivationsNothingProtects) {
  for (const char* gradients : {"protection { name: 'none' config { none {} } } ", "marvell_s: 4 "}) {
    const std::vector<SweepCell> cells = Cross(std::string(gradients) + kPareto).value();
    EXPECT_THAT(ReferencesOf(cells, Reference::kNone), ElementsAre("none")) << gradients;
    for (const SweepCell& cell : cells) {
      ASSERT_TRUE(cell.variant.activations.has_value());
      EXPECT_EQ(cell.variant.activations->has_none(), cell.protection.reference != Reference::kNo);
    }
  }
  EXPECT_THAT(NamesOf(Cross(std::string("marvell_s: 4 ") + kPareto).value()),
              ElementsAre("none", "marvell s=4, pareto", "frozen"));
}

TEST(SweepVariantsTest, GivesEveryCutItsReferences) {
  const std::vector<SweepCell> cells = Cross(std::string("marvell_s: 4 ") + kCuts).value();
  EXPECT_THAT(NamesOf(cells), ElementsAre("none, cut first", "marvell s=4, cut first", "frozen, cut first",
                                          "none, cut second", "marvell s=4, cut second", "frozen, cut second"));
  LocalRun run;
  run.nonlabel_config.mutable_protection()->mutable_gaussian();
  SetVariant(cells.back().variant, run);
  EXPECT_EQ(run.agreement.cut_layer(), "second");
  EXPECT_EQ(run.agreement.cut_width(), 8);
  EXPECT_TRUE(run.nonlabel_config.protection().has_gaussian());  // As configured.
}

TEST(SweepVariantsTest, RefusesNamesThatAreNoneOrTheSame) {
  EXPECT_THAT(
      std::string(Cross("marvell_s: 4 activation_protection { name: '-' config { none {} } }").status().message()),
      HasSubstr("activation_protection.name: expected"));
  EXPECT_THAT(std::string(Cross("marvell_s: 4 cut_layer { name: '/' cut_width: 8 }").status().message()),
              HasSubstr("cut_layer.name: expected"));
  EXPECT_THAT(std::string(Cross(std::string("marvell_s: 4 ") + kPareto + kPareto).status().message()),
              HasSubstr("\"marvell s=4, pareto\" and \"marvell s=4, pareto\""));
}

}  // namespace
}  // namespace splitveil
