// Split training without noise, session against session, and the same model trained in one process with plain LibTorch:
// same initial weights, same batches, and the weights still agree. The batches are those of one aligned order
// (repeated_draws.cc): in some, rounding alone decides what a ReLU or a pooling does.
#include <filesystem>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/schedule/schedule.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/centralized_baseline_model.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

constexpr char kHalves[] = R"(
  embedding { dimension: 4 } wide { embedding { dimension: 1 } }
  layers { name: "first" units: 16 } layers { name: "second" units: 8 } layers { name: "top" units: 8 }
)";

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

class CentralizedBaselineTest : public ::testing::Test {
 protected:
  // Both parties hold `model` whole, cut after `cut_layer`.
  void HoldWhole(const std::string& model, const std::string& cut_layer, int cut_width) {
    run_.agreement.set_cut_layer(cut_layer);
    run_.agreement.set_cut_width(cut_width);
    *run_.label_config.mutable_model() = *run_.nonlabel_config.mutable_model() = whole_ = Parsed<v1::ModelSpec>(model);
    cut_layer_ = cut_layer;
  }
  void UseOptimizer(const std::string& optimizer) {
    *run_.label_config.mutable_party()->mutable_optimizer() = Parsed<v1::Optimizer>(optimizer);
    *run_.nonlabel_config.mutable_party()->mutable_optimizer() = Parsed<v1::Optimizer>(optimizer);
  }

  // For many steps: a ReLU whose argument is 0 but for rounding has one gradient here and another there, in one of 150
  // runs of a hundred steps.
  void UseSmoothActivation() {
    for (v1::ModelSpec* model : {&whole_, run_.label_config.mutable_model(), run_.nonlabel_config.mutable_model()}) {
      for (v1::Layer& layer : *model->mutable_layers()) {
        layer.set_activation(v1::TANH);
      }
    }
  }

  // Trains both ways for so many epochs of 6 or 7 batches and compares the weights.
  void ExpectSameWeights(int epochs, double tolerance = 1e-6) {
    run_.agreement.set_epochs(epochs);
    run_.label_config.set_keep(v1::LabelPartyConfig::LAST);
    for (const char* const ledger : {"label_party.db", "nonlabel_party.db"}) {  // Run ids repeat, too.
      std::filesystem::remove(run_.files.File(ledger));
    }
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
    ASSERT_TRUE(label.ok()) << label.status();
    LocalLabelParty peer(label->get());
    NonLabelSession nonlabel(run_.NonLabelOptions(&peer));
    const absl::Status status = nonlabel.Run();
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE((*label)->completed());

    // SmallRun gives both parties the first 512 ids in the same order.
    const std::vector<uint32_t>& rows = nonlabel.aligned().rows;
    for (uint32_t row : rows) {
      ASSERT_EQ(run_.nonlabel_data.ids[row], run_.label_data.ids[row]);
    }
    const FeatureTable features(run_.NonLabelDataset(), rows);
    const FeatureTable own(run_.LabelDataset(), rows);
    Schedule schedule = RebuiltSchedule(rows);
    const NamedParameters bottom = InitialBottom(features.shape());
    const NamedParameters top = InitialTop(own.shape());
    const CentralizedBaselineModel::Options options = {whole_, cut_layer_, run_.nonlabel_config.party().optimizer(),
                                                       run_.label_config.party().optimizer(), features.shape().image};
    CentralizedBaselineModel model(options, bottom, top);
    for (uint32_t epoch = 0; epoch < epochs; ++epoch) {
      for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
        const absl::Span<const uint32_t> positions = schedule.BatchRows(epoch, batch);
        std::vector<uint8_t> labels;
        for (uint32_t position : positions) {
          labels.push_back(run_.label_data.labels[rows[position]]);
        }
        model.Step(features.Gather(positions), own.Gather(positions), labels);
      }
    }
    const CentralizedBaselineModel untrained(options, bottom, top);
    EXPECT_GT(untrained.Distance(nonlabel.model()->Parameters()), 100 * tolerance) << "nothing was trained";
    EXPECT_LE(model.Distance(nonlabel.model()->Parameters()), tolerance);
    EXPECT_LE(model.Distance((*label)->model()->Parameters()), tolerance);
  }

  SmallRun run_;
  v1::ModelSpec whole_ = Parsed<v1::ModelSpec>(kHalves);
  std::string cut_layer_ = "second";

 private:
  // From what both parties contributed.
  Schedule RebuiltSchedule(const std::vector<uint32_t>& rows) const {
    const SeedExchange own = *SeedExchange::Create(
        SeedRole::kNonLabelParty,
        SeedContribution(SeedRole::kNonLabelParty, run_.nonlabel_config.party().reproducible_seed()));
    const SeedExchange theirs = *SeedExchange::Create(
        SeedRole::kLabelParty, SeedContribution(SeedRole::kLabelParty, run_.label_config.party().reproducible_seed()));
    const JointSeed joint = *own.Combine(theirs.commitment(), theirs.reveal());
    TrainTestSplit split = SplitRule(run_.agreement).Split(run_.nonlabel_data.ids, rows);
    return *Schedule::Create(joint, split.train, {run_.agreement.batch_size(), run_.agreement.minimum_batch_size()});
  }

  // The initial weights, from models made with the same seeds.
  NamedParameters InitialBottom(const FeatureShape& features) const {
    BottomModelOptions options;
    options.spec = run_.nonlabel_config.model();
    options.cut_layer = run_.agreement.cut_layer();
    options.optimizer = run_.nonlabel_config.party().optimizer();
    options.features = features;
    options.cut_width = run_.agreement.cut_width();
    options.seed = WeightSeed(SeedRole::kNonLabelParty, run_.nonlabel_config.party().reproducible_seed());
    return (*BottomModel::Create(options))->Parameters();
  }
  NamedParameters InitialTop(const FeatureShape& features) const {
    TopModelOptions options;
    options.spec = run_.label_config.model();
    options.cut_layer = run_.agreement.cut_layer();
    options.optimizer = run_.label_config.party().optimizer();
    options.features = features;
    options.cut_width = run_.agreement.cut_width();
    options.seed = WeightSeed(SeedRole::kLabelParty, run_.label_config.party().reproducible_seed());
    return (*TopModel::Create(options))->Parameters();
  }
};

TEST_F(CentralizedBaselineTest, HalvesTrainAsTheWholeForAHundredSteps) {
  UseSmoothActivation();
  ExpectSameWeights(15);
}

// 300 of 409 training examples: slices of 256 and 44 rows; then those of the rest.
TEST_F(CentralizedBaselineTest, BatchesThatTravelInSlicesTrainAsTheWhole) {
  run_.agreement.set_batch_size(300);
  HoldWhole(std::string(kHalves) + "own_features { embedding { dimension: 3 } before: 'logit' }", "second", 8);
  UseSmoothActivation();
  // Gradients of 1e-8 and less are rounding: no full step for them.
  UseOptimizer("learning_rate: 1e-3 adam { epsilon: 1e-4 }");
  ExpectSameWeights(40);
}

TEST_F(CentralizedBaselineTest, AWholeModelIsCutWhereTheAgreementSays) {
  HoldWhole(kHalves, "first", 16);
  run_.agreement.mutable_audit()->clear_layers();
  run_.agreement.mutable_audit()->add_layers("cut");
  ExpectSameWeights(3);
}

// No layer of the bottom model's own: what leaves is its embeddings, and every layer learns at the label party.
TEST_F(CentralizedBaselineTest, AModelCutBehindItsEmbeddingsTrainsAsTheWhole) {
  const int cut_width = 4 * static_cast<int>(run_.nonlabel_data.categories.front().size()) +
                        static_cast<int>(run_.nonlabel_data.numeric.front().size());
  run_.agreement.mutable_audit()->clear_layers();
  run_.agreement.mutable_audit()->add_layers("cut");
  HoldWhole(kHalves, "embedding", cut_width);
  ExpectSameWeights(3);
  HoldWhole(std::string(kHalves) + "own_features { embedding { dimension: 3 } }", "embedding", cut_width);
  UseOptimizer("learning_rate: 0.1 sgd { momentum: 0.9 }");
  ExpectSameWeights(6);
}

TEST_F(CentralizedBaselineTest, OwnFeaturesTrainInsideTheTopModel) {
  HoldWhole(std::string(kHalves) + "own_features { embedding { dimension: 3 } before: 'logit' }", "second", 8);
  ExpectSameWeights(3);
}

TEST_F(CentralizedBaselineTest, NumbersInPiecesTrainAtBothParties) {
  HoldWhole(std::string(kHalves) + "own_features { embedding { dimension: 3 } } numeric_pieces: 5", "second", 8);
  ExpectSameWeights(3);
}

TEST_F(CentralizedBaselineTest, ImagesTrainThroughConvolutionsOnBothSides) {
  std::mt19937 random(3);
  run_.nonlabel_data.image = {2, 8, 8};
  run_.nonlabel_data.numeric.clear();
  run_.nonlabel_data.categories.clear();
  for (size_t row = 0; row < run_.nonlabel_data.ids.size(); ++row) {
    std::vector<uint8_t>& pixels = run_.nonlabel_data.pixels.emplace_back(2 * 8 * 8);
    for (uint8_t& pixel : pixels) {
      pixel = static_cast<uint8_t>(random());
    }
  }
  HoldWhole(R"(
    layers { name: "first" convolution { channels: 4 } } layers { name: "second" convolution { channels: 6 max_pool: 2 } }
    layers { name: "third" convolution { channels: 5 max_pool: 2 } } layers { name: "fourth" units: 8 }
    own_features { embedding { dimension: 3 } before: "fourth" })",
            "second", 6 * 4 * 4);
  run_.agreement.mutable_audit()->add_layers("second.unpooled");
  UseOptimizer("learning_rate: 0.1 sgd { momentum: 0.5 }");
  // Where two pixels of a pooling are alike but for rounding, either is its greatest one, in one run of
  // hundreds: 1.5e-5.
  ExpectSameWeights(3, 3e-5);
}

class CentralizedBaselineOptimizerTest : public CentralizedBaselineTest,
                                         public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Methods, CentralizedBaselineOptimizerTest,
                         ::testing::Values("learning_rate: 1e-3 adam {} schedule { cosine { steps: 20 } }",
                                           "learning_rate: 1e-2 adamw { epsilon: 1e-4 weight_decay: 0.2 }",
                                           "learning_rate: 0.1 l2: 0.01 sgd { momentum: 0.9 nesterov: true }",
                                           "learning_rate: 0.05 adagrad { initial_accumulator: 0.1 }",
                                           "learning_rate: 1e-2 adamw { epsilon: 1e-4 } average_decay: 0.8",
                                           "learning_rate: 0.1 sgd {} average_decay: 0.9"));

TEST_P(CentralizedBaselineOptimizerTest, TrainsTheHalvesAsTheWhole) {
  UseOptimizer(GetParam());
  ExpectSameWeights(3, 2e-6);
}

}  // namespace
}  // namespace splitveil::testing
