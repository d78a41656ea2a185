#include "deploy/operator/tune/search.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>

#include "common/architecture/model_spec.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

RunFiles Files(const std::string& model) {
  RunFiles files;
  files.agreement = Parsed<v1::RunAgreement>(
      "run_name: 'a' cut_layer: 'second' cut_width: 64 epochs: 10 audit { layers: ['cut', 'first'] }");
  const std::string party = "party { optimizer { learning_rate: 0.002 adam { beta1: 0.8 } } } model { " + model + " }";
  files.label_config = Parsed<v1::LabelPartyConfig>(party + " protection { none {} }");
  files.nonlabel_config = Parsed<v1::NonLabelPartyConfig>(party);
  return files;
}

// The rungs of a search take a third of the time of all trials at full length.
TEST(PlanRungsTest, EachHasAThirdOfTheTrialsAndThreeTimesTheEpochs) {
  const std::vector<Rung> rungs = PlanRungs(31, 20);
  ASSERT_EQ(rungs.size(), 3U);
  EXPECT_EQ(rungs[0].trials, 31);
  EXPECT_EQ(rungs[1].trials, 11);
  EXPECT_EQ(rungs[2].trials, 4);
  EXPECT_NEAR(rungs[0].epochs, 1.0 / 9, 1e-12);
  EXPECT_EQ(rungs[2].epochs, 1);
  EXPECT_EQ(PlanRungs(31, 2).size(), 1U);  // No rung of less than an epoch.
  EXPECT_EQ(PlanRungs(2, 100).size(), 1U);
  EXPECT_EQ(PlanRungs(100000, 100000).size(), 4U);
}

TEST(SurvivorsTest, TheBestAndTheConfiguredOne) {
  EXPECT_THAT(Survivors({0.5, 0.9, std::nullopt, 0.7}, 2), ElementsAre(1, 3, 0));
  EXPECT_THAT(Survivors({0.8, 0.9, 0.7}, 2), ElementsAre(1, 0));
  EXPECT_THAT(Survivors({std::nullopt, 0.6}, 3), ElementsAre(1));
  EXPECT_THAT(Survivors({std::nullopt}, 1), IsEmpty());
  EXPECT_THAT(Survivors({0.7, 0.7}, 1), ElementsAre(0));  // No better: as configured.
  EXPECT_THAT(Survivors({0.8, 0.6, 0.9, 0.7}, 1, /*always=*/2), ElementsAre(2, 0, 1));
}

TEST(SearchTest, EveryDrawIsAModelThatBothPartiesTake) {
  std::mt19937_64 random(3);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  for (const std::string model :
       {"preset: TABULAR", "preset: MULTILAYER_PERCEPTRON own_features { embedding { dimension: 4 } }",
        "preset: WIDE_AND_DEEP",
        "layers { name: 'a' units: 8 } layers { name: 'second' units: "
        "64 } layers { name: 'c' units: 4 }"}) {
    const RunFiles base = Files(model);
    const SearchSpace space = SpaceOf(base);
    EXPECT_TRUE(space.layers && space.weight_decay && space.epochs);
    std::set<std::string> texts;
    for (int i = 0; i < 200; ++i) {
      RunFiles files = base;
      const TuneSettings settings = DrawSettings(space, random);
      texts.insert(SettingsText(settings));
      Apply(settings, files);
      EXPECT_TRUE(CheckBottomSpec(files.nonlabel_config.model(), files.agreement).ok())
          << CheckBottomSpec(files.nonlabel_config.model(), files.agreement) << SettingsText(settings);
      EXPECT_TRUE(CheckTopSpec(files.label_config.model(), files.agreement).ok()) << SettingsText(settings);
      EXPECT_EQ(files.label_config.model().layers_size(), settings.layers->before_cut + settings.layers->behind_cut);
      const v1::Optimizer& optimizer = files.nonlabel_config.party().optimizer();
      EXPECT_NEAR(optimizer.learning_rate(), 0.002 * *settings.learning_rate, 1e-12);
      EXPECT_EQ(optimizer.adamw().weight_decay(), *settings.weight_decay);
      EXPECT_EQ(optimizer.adamw().beta1(), 0.8);
      EXPECT_EQ(files.nonlabel_config.model().numeric_pieces(), *settings.numeric_pieces);
      EXPECT_EQ(files.label_config.model().numeric_pieces(), *settings.numeric_pieces);
      EXPECT_GE(files.agreement.epochs(), 5);
      EXPECT_LE(files.agreement.epochs(), 20);
    }
    EXPECT_GT(texts.size(), 190U);
  }
}

// Logistic regression needs no layer that bends: the same columns at the same parties, one number on the wire.
TEST(SearchTest, TheLinearModelHasNoActivationFunction) {
  for (const std::string model :
       {"preset: TABULAR own_features { before: 'third' }", "preset: WIDE_AND_DEEP",
        "embedding { dimension: 3 } layers { name: 'a' units: 8 } layers { name: 'second' units: 64 } layers { name: "
        "'c' units: 4 } own_features { embedding { dimension: 2 } }"}) {
    RunFiles files = Files(model);
    Apply(LinearSettings(), files);
    EXPECT_TRUE(CheckBottomSpec(files.nonlabel_config.model(), files.agreement).ok())
        << CheckBottomSpec(files.nonlabel_config.model(), files.agreement) << model;
    EXPECT_TRUE(CheckTopSpec(files.label_config.model(), files.agreement).ok())
        << CheckTopSpec(files.label_config.model(), files.agreement) << model;
    EXPECT_EQ(files.agreement.cut_width(), 1);
    EXPECT_THAT(files.agreement.audit().layers(), ElementsAre("cut"));
    EXPECT_EQ(files.agreement.cut_layer(), kLogisticCut);
    for (const v1::Layer& layer : files.label_config.model().layers()) {
      EXPECT_EQ(layer.activation(), v1::LINEAR);
    }
    EXPECT_EQ(files.label_config.model().numeric_pieces(), 1);
    EXPECT_TRUE(files.label_config.model().has_own_features() || files.label_config.model().has_wide());
    EXPECT_NEAR(files.label_config.party().optimizer().learning_rate(), 0.01, 1e-12);
    files = Files(model);
    files.nonlabel_config.mutable_party()->mutable_optimizer()->mutable_adagrad();
    Apply(LinearSettings(), files);
    EXPECT_NEAR(files.nonlabel_config.party().optimizer().learning_rate(), 0.04, 1e-12);
  }
}

TEST(SearchTest, KeepsWhatMayNotVary) {
  EXPECT_FALSE(SpaceOf(Files("torchscript_path: 'f.pt'")).layers);
  EXPECT_FALSE(SpaceOf(Files("preset: ISIC_CONVOLUTIONAL")).layers);
  RunFiles files = Files("preset: WIDE_AND_DEEP");
  files.agreement.clear_cut_layer();
  EXPECT_FALSE(SpaceOf(files).layers);
  EXPECT_FALSE(SpaceOf(files).embedding);
  files.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  EXPECT_FALSE(SpaceOf(files).epochs);  // Other epochs would be other draws.
  files.label_config.mutable_party()->mutable_optimizer()->mutable_sgd();
  EXPECT_FALSE(SpaceOf(files).weight_decay);
  const RunFiles before = Files("preset: WIDE_AND_DEEP");
  RunFiles after = before;
  Apply(TuneSettings(), after);
  EXPECT_EQ(after.label_config.SerializeAsString(), before.label_config.SerializeAsString());
  EXPECT_EQ(after.agreement.SerializeAsString(), before.agreement.SerializeAsString());
  EXPECT_EQ(SettingsText(TuneSettings()), "as configured");
}

}  // namespace
}  // namespace splitveil
