#include "common/architecture/model_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

v1::ModelSpec Spec(const std::string& text) { return Parsed<v1::ModelSpec>(text); }

v1::RunAgreement Agreement(const std::string& text) { return Parsed<v1::RunAgreement>("run_name: 'run' " + text); }

std::vector<std::string> Names(const v1::ModelSpec& spec) {
  std::vector<std::string> names;
  for (const v1::Layer& layer : spec.layers()) {
    names.push_back(layer.name());
  }
  return names;
}

void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

constexpr char kTable[] = R"(
  embedding { dimension: 4 } wide {} own_features { before: "third" }
  layers { name: "first" units: 8 } layers { name: "second" units: 6 } layers { name: "third" units: 4 }
)";
constexpr char kImages[] = R"(
  layers { name: "first" convolution { channels: 4 max_pool: 2 } }
  layers { name: "second" convolution { channels: 6 max_pool: 3 } } layers { name: "third" units: 4 }
)";

TEST(ModelSpecTest, CutsAWholeModelBehindTheCutLayer) {
  const auto bottom = BottomHalf(Spec(kTable), "second");
  const auto top = TopHalf(Spec(kTable), "second", 6);
  ASSERT_TRUE(bottom.ok()) << bottom.status();
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_THAT(Names(*bottom), ElementsAre("first", "second"));
  EXPECT_TRUE(bottom->has_embedding());
  EXPECT_FALSE(bottom->has_wide() || bottom->has_own_features());
  EXPECT_THAT(Names(*top), ElementsAre("third"));
  EXPECT_FALSE(top->has_embedding());
  EXPECT_TRUE(top->has_wide() && top->has_own_features());
}

TEST(ModelSpecTest, CutsAWholeModelBehindItsEmbeddings) {
  for (const std::string& model : {std::string(kTable), std::string("preset: WIDE_AND_DEEP")}) {
    const auto bottom = BottomHalf(Spec(model), kEmbeddingCut);
    const auto top = TopHalf(Spec(model), kEmbeddingCut, 20);
    ASSERT_TRUE(bottom.ok()) << bottom.status();
    ASSERT_TRUE(top.ok()) << top.status();
    EXPECT_EQ(bottom->embedding().dimension(), 4);
    EXPECT_FALSE(bottom->layers_size() > 0 || bottom->has_wide() || bottom->has_own_features());
    EXPECT_THAT(AuditedNames(*bottom), ElementsAre("cut"));
    EXPECT_EQ(top->layers(0).name(), "first");
    EXPECT_FALSE(top->has_embedding());
    EXPECT_TRUE(top->has_wide());
  }
  // The logit alone on the embeddings: logistic regression, split.
  EXPECT_EQ(TopHalf(Spec("embedding { dimension: 4 }"), kEmbeddingCut, 20)->layers_size(), 0);
}

TEST(ModelSpecTest, ALayerNamedEmbeddingIsOne) {
  const v1::ModelSpec spec = Spec(
      "embedding { dimension: 2 } layers { name: 'embedding' units: 8 } "
      "layers { name: 'second' units: 4 }");
  EXPECT_THAT(Names(*BottomHalf(spec, kEmbeddingCut)), ElementsAre("embedding"));
  EXPECT_THAT(Names(*TopHalf(spec, kEmbeddingCut, 8)), ElementsAre("second"));
}

TEST(ModelSpecTest, LeavesAHalfAsItIs) {
  const v1::ModelSpec bottom = Spec("embedding { dimension: 4 } layers { name: 'first' units: 8 }");
  const v1::ModelSpec top = Spec("wide {} own_features {} layers { name: 'first' units: 8 }");
  using google::protobuf::util::MessageDifferencer;
  EXPECT_TRUE(MessageDifferencer::Equals(*BottomHalf(bottom, ""), bottom));
  EXPECT_TRUE(MessageDifferencer::Equals(*TopHalf(top, "", 8), top));
}

// Li et al., ICLR 2022, A.6.2, and Figure 11.
TEST(ModelSpecTest, PresetsAreThePapersModels) {
  const v1::ModelSpec six = PresetModel(v1::ModelSpec::WIDE_AND_DEEP);
  EXPECT_THAT(Names(six), ElementsAre("first", "second", "third", "fourth", "fifth", "sixth"));
  EXPECT_EQ(six.embedding().dimension(), 4);
  EXPECT_EQ(six.wide().embedding().dimension(), 1);
  for (const v1::Layer& layer : six.layers()) {
    EXPECT_EQ(layer.units(), 128);
    EXPECT_EQ(layer.activation(), v1::RELU);
  }
  const auto top = TopHalf(Spec("preset: WIDE_AND_DEEP_8"), "eighth", 128);
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_THAT(Names(*top), ElementsAre("ninth", "tenth", "eleventh"));
  EXPECT_THAT(Names(PresetModel(v1::ModelSpec::MULTILAYER_PERCEPTRON)),
              ElementsAre("first", "second", "third", "fourth"));
}

TEST(ModelSpecTest, BothHalvesOfTheTabularModelTakeNumbersInPieces) {
  EXPECT_THAT(Names(PresetModel(v1::ModelSpec::TABULAR)), ElementsAre("first", "second", "third", "fourth"));
  for (const auto& [text, pieces] : {std::pair("preset: TABULAR", PresetModel(v1::ModelSpec::TABULAR).numeric_pieces()),
                                     {"preset: TABULAR numeric_pieces: 3", 3},
                                     {"preset: MULTILAYER_PERCEPTRON", 1},
                                     {"preset: MULTILAYER_PERCEPTRON numeric_pieces: 8", 8}}) {
    const auto bottom = BottomHalf(Spec(text), "second"), top = TopHalf(Spec(text), "second", 64);
    ASSERT_TRUE(bottom.ok() && top.ok()) << bottom.status() << top.status();
    EXPECT_EQ(bottom->numeric_pieces(), pieces) << text;
    EXPECT_EQ(top->numeric_pieces(), pieces) << text;
  }
  EXPECT_GT(PresetModel(v1::ModelSpec::TABULAR).numeric_pieces(), 1);
}

TEST(ModelSpecTest, RefusesPiecesBesideTorchScript) {
  EXPECT_THAT(BottomHalf(Spec("torchscript_path: 'f.pt' numeric_pieces: 2"), "").status().message(),
              HasSubstr("model.numeric_pieces: expected 1 beside torchscript_path"));
}

TEST(ModelSpecTest, TheIsicModelAt84PixelsIsCutAt1600Numbers) {
  const v1::ModelSpec isic = PresetModel(v1::ModelSpec::ISIC_CONVOLUTIONAL);
  const auto plan = PlanLayers({"model", 3 * 84 * 84, {3, 84, 84}, LayersOf(isic)});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<int64_t> sides;
  for (int l = 0; l < 6; ++l) {
    sides.push_back((*plan)[l].output_image.height);
  }
  EXPECT_THAT(sides, ElementsAre(42, 21, 10, 5, 2, 1));
  EXPECT_EQ((*plan)[3].width(), 1600);
  EXPECT_EQ((*plan)[6].fan_in, 64);
  // The label party, which is told no image, finds the same shape from the cut width.
  const auto top = TopHalf(Spec("preset: ISIC_CONVOLUTIONAL"), "fourth", 1600);
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_THAT(top->input_image().ShortDebugString(), "channels: 64 height: 5 width: 5");
  EXPECT_TRUE(CheckTopSpec(Spec("preset: ISIC_CONVOLUTIONAL"), Agreement("cut_width: 1600 cut_layer: 'fourth'")).ok());
}

TEST(ModelSpecTest, AuditedNamesTellPooledOutputsApart) {
  const auto bottom = BottomHalf(Spec(kImages), "second");
  ASSERT_TRUE(bottom.ok()) << bottom.status();
  EXPECT_THAT(AuditedNames(*bottom), ElementsAre("first.unpooled", "first", "second.unpooled", "cut"));
}

TEST(ModelSpecTest, TheShapeOfTheCutFollowsFromTheImages) {
  const auto top = TopHalf(Spec(std::string(kImages) + "input_image { channels: 3 height: 11 width: 7 }"), "first", 60);
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ(top->input_image().ShortDebugString(), "channels: 4 height: 5 width: 3");
  // The cut of a fully connected layer has no shape.
  EXPECT_FALSE(TopHalf(Spec(kImages), "second", 6)->has_input_image());
}

TEST(ModelSpecTest, ATorchScriptHalfComesBackAsItIs) {
  const v1::ModelSpec spec = Spec("torchscript_path: 'half.pt' embedding { dimension: 2 }");
  EXPECT_EQ(BottomHalf(spec, "third")->torchscript_path(), "half.pt");
  EXPECT_EQ(TopHalf(spec, "", 4)->torchscript_path(), "half.pt");
  EXPECT_TRUE(CheckBottomSpec(spec, Agreement("cut_width: 4 audit { layers: 'net.0' }")).ok());
}

TEST(ModelSpecTest, APresetStartsAsTheConfigurationSays) {
  const v1::ModelSpec spec = Spec("preset: WIDE_AND_DEEP initialization: HE_UNIFORM");
  EXPECT_EQ(BottomHalf(spec, "third")->initialization(), v1::ModelSpec::HE_UNIFORM);
  EXPECT_EQ(TopHalf(spec, "third", 128)->initialization(), v1::ModelSpec::HE_UNIFORM);
  EXPECT_EQ(TopHalf(Spec("preset: WIDE_AND_DEEP"), "third", 128)->initialization(), v1::ModelSpec::TORCH_DEFAULT);
}

TEST(ModelSpecTest, RefusesAPresetWithoutACutLayer) {
  ExpectRefused(BottomHalf(Spec("preset: WIDE_AND_DEEP"), "").status(),
                "model.preset: expected none where the agreement has no cut_layer, found WIDE_AND_DEEP");
  ExpectRefused(TopHalf(Spec("preset: WIDE_AND_DEEP"), "", 128).status(), "model.preset");
}

TEST(ModelSpecTest, RefusesAPresetBesideWhatItReplaces) {
  for (const char* part : {"layers { name: 'a' units: 1 }", "embedding { dimension: 1 }", "wide {}"}) {
    ExpectRefused(BottomHalf(Spec(std::string("preset: WIDE_AND_DEEP ") + part), "third").status(),
                  "model.preset: expected none beside an embedding, layers or a wide part");
  }
}

TEST(ModelSpecTest, RefusesAnInitializationOfATorchScriptFile) {
  ExpectRefused(BottomHalf(Spec("torchscript_path: 'x' initialization: HE_UNIFORM"), "").status(),
                "model.initialization: expected none beside torchscript_path, which brings its own weights, found "
                "HE_UNIFORM");
}

TEST(ModelSpecTest, RefusesTorchScriptBesideWhatItReplaces) {
  for (const char* part : {"layers { name: 'a' units: 1 }", "preset: WIDE_AND_DEEP", "wide {}"}) {
    ExpectRefused(TopHalf(Spec(std::string("torchscript_path: 'x' ") + part), "third", 8).status(),
                  "model.torchscript_path: expected none beside a preset, layers or a wide part, found \"x\"");
  }
}

TEST(ModelSpecTest, RefusesAnUnknownCutLayer) {
  ExpectRefused(BottomHalf(Spec(kTable), "fourth").status(),
                "model.layers: expected one named \"fourth\", the agreement's cut_layer, found first, second, third");
  ExpectRefused(TopHalf(Spec(""), "fourth", 8).status(),
                "expected one named \"fourth\", the agreement's cut_layer, found none");
}

TEST(ModelSpecTest, RefusesACutBehindEmbeddingsThatThereAreNot) {
  ExpectRefused(BottomHalf(Spec(kImages), kEmbeddingCut).status(),
                "model.embedding: expected one, as cut_layer is \"embedding\", found none");
  ExpectRefused(TopHalf(Spec(kImages), kEmbeddingCut, 8).status(), "model.embedding: expected one");
  ExpectRefused(TopHalf(Spec(std::string("embedding { dimension: 2 }") + kImages), kEmbeddingCut, 8).status(),
                "model.layers[0]: expected a fully connected layer behind the embeddings, found a convolution");
}

TEST(ModelSpecTest, RefusesACutBehindTheLastLayer) {
  ExpectRefused(BottomHalf(Spec(kTable), "third").status(),
                "cut_layer: expected a layer with at least one behind it, for the label party, found \"third\"");
}

TEST(ModelSpecTest, RefusesTheOtherPartysPartsInAHalf) {
  ExpectRefused(BottomHalf(Spec("layers { name: 'a' units: 1 } wide {}"), "").status(),
                "model.wide: expected none, or a cut_layer in the agreement");
  ExpectRefused(BottomHalf(Spec("layers { name: 'a' units: 1 } own_features {}"), "").status(),
                "model.own_features: expected none");
  ExpectRefused(TopHalf(Spec("embedding { dimension: 1 }"), "", 8).status(), "model.embedding: expected none");
}

TEST(ModelSpecTest, RefusesReservedAndRepeatedNames) {
  const auto named = [](const std::string& name) {
    return Spec("layers { name: '" + name + "' units: 4 } layers { name: 'b' units: 4 }");
  };
  for (const char* name : {"cut", "logit", "wide"}) {
    ExpectRefused(BottomHalf(named(name), "").status(), "is reserved");
    ExpectRefused(TopHalf(named(name), "", 4).status(), "is reserved");
  }
  ExpectRefused(BottomHalf(named("b"), "").status(), "model.layers[1].name: expected a name of its own");
  ExpectRefused(BottomHalf(named("a.unpooled"), "").status(), "expected a name that does not end in .unpooled");
}

TEST(ModelSpecTest, RefusesAConvolutionBehindAFullyConnectedLayer) {
  ExpectRefused(
      BottomHalf(Spec("layers { name: 'a' units: 4 } layers { name: 'b' convolution { channels: 2 } }"), "").status(),
      "model.layers[1].convolution: expected a fully connected layer behind \"a\", which is one");
}

TEST(ModelSpecTest, RefusesConvolutionsOutOfRange) {
  const auto refused = [](const std::string& convolution, const std::string& text) {
    ExpectRefused(BottomHalf(Spec("layers { name: 'a' convolution { " + convolution + " } }"), "").status(), text);
  };
  refused("channels: 0", "convolution.channels: expected 1 to 65536, found 0");
  refused("channels: 2 kernel: 4", "convolution.kernel: expected an odd number, found 4");
  refused("channels: 2 kernel: 33", "convolution.kernel: expected 1 to 31, found 33");
  refused("channels: 2 max_pool: 0", "convolution.max_pool: expected 1 to 64, found 0");
}

TEST(ModelSpecTest, RefusesATopHalfOfConvolutionsWithoutTheShapeOfTheCut) {
  const std::string half = "layers { name: 'a' convolution { channels: 2 } }";
  ExpectRefused(TopHalf(Spec(half), "", 18).status(), "model.input_image: expected the shape of the cut");
  ExpectRefused(TopHalf(Spec(half + "input_image { channels: 2 height: 3 width: 4 }"), "", 18).status(),
                "model.input_image: expected 18 numbers, the agreed cut width, found 2 x 3 x 4 = 24 numbers");
  EXPECT_TRUE(TopHalf(Spec(half + "input_image { channels: 2 height: 3 width: 3 }"), "", 18).ok());
}

TEST(ModelSpecTest, RefusesACutThatCannotBeSquare) {
  ExpectRefused(TopHalf(Spec(kImages), "first", 4 * 6).status(),
                "model.input_image: expected the images' shape, as cut_width 24 is not 4 channels of square images");
}

TEST(ModelSpecTest, RefusesOwnFeaturesBeforeALayerOfTheOtherParty) {
  ExpectRefused(TopHalf(Spec("layers { name: 'a' units: 2 } own_features { before: 'b' }"), "", 4).status(),
                "model.own_features.before: expected a layer of the label party's or \"logit\", found \"b\"");
}

TEST(CheckBottomSpecTest, RefusesAnotherCutWidth) {
  ExpectRefused(CheckBottomSpec(Spec(kTable), Agreement("cut_width: 7 cut_layer: 'second'")),
                "model.layers[1].units: expected 7, the agreed cut width, found 6");
  const std::string image = "input_image { channels: 3 height: 12 width: 18 }";
  ExpectRefused(CheckBottomSpec(Spec(kImages + image), Agreement("cut_width: 30 cut_layer: 'second'")),
                "model.layers[1] output: expected 30, the agreed cut width, found 6 x 2 x 3 = 36");
  EXPECT_TRUE(CheckBottomSpec(Spec(kImages + image), Agreement("cut_width: 36 cut_layer: 'second'")).ok());
  ExpectRefused(CheckBottomSpec(Spec(kImages), Agreement("cut_width: 35 cut_layer: 'second'")),
                "model.layers[1].convolution.channels: expected a divisor of 35");
}

TEST(CheckBottomSpecTest, RefusesALayerToAuditThatThereIsNot) {
  ExpectRefused(CheckBottomSpec(Spec(kTable), Agreement("cut_width: 6 cut_layer: 'second' audit { layers: 'third' }")),
                "model.layers: expected one named \"third\", which the agreement audits, found first, cut");
}

TEST(CheckBottomSpecTest, RefusesNoLayers) {
  ExpectRefused(CheckBottomSpec(Spec(""), Agreement("cut_width: 6")),
                "model.layers: expected at least one, or an embedding, found none");
}

TEST(CheckBottomSpecTest, TakesEmbeddingsAloneAndAuditsTheirCut) {
  const v1::ModelSpec half = Spec("embedding { dimension: 4 }");
  EXPECT_TRUE(CheckBottomSpec(half, Agreement("cut_width: 6 audit { layers: 'cut' }")).ok());
  EXPECT_TRUE(CheckBottomSpec(Spec(kTable), Agreement("cut_width: 6 cut_layer: 'embedding'")).ok());
  ExpectRefused(
      CheckBottomSpec(half, Agreement("cut_width: 6 audit { layers: 'cut' layers: 'first' }")),
      "model.layers: expected one named \"first\", which the agreement audits, found none, as the model is cut "
      "behind its embeddings: audit \"cut\"");
}

TEST(CheckBottomSpecTest, RefusesImagesTooSmallForThePooling) {
  ExpectRefused(CheckBottomSpec(Spec("preset: ISIC_CONVOLUTIONAL input_image { channels: 3 height: 12 width: 12 }"),
                                Agreement("cut_width: 64 cut_layer: 'fourth'")),
                "model.layers[3].convolution.max_pool: expected at most 1, as the images are 1 x 1 pixels there");
}

TEST(CheckTopSpecTest, RefusesACutTooSmallForThePooling) {
  ExpectRefused(CheckTopSpec(Spec("preset: ISIC_CONVOLUTIONAL"), Agreement("cut_width: 256 cut_layer: 'fourth'")),
                "model.layers[1].convolution.max_pool: expected at most 1, as the images are 1 x 1 pixels there");
}

TEST(CheckTopSpecTest, TakesATopModelOfTheLogitAlone) {
  EXPECT_TRUE(CheckTopSpec(Spec(""), Agreement("cut_width: 6")).ok());
}

}  // namespace
}  // namespace splitveil
