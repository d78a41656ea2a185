// Halves that Python made: trained by both parties as by Python in one process, audited at their submodules, exported,
// and read by Python and by a further run. Needs Debian's python3-torch.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/ledger/ledger_reader.h"
#include "common/schedule/schedule.h"
#include "common/schedule/slice_assembler.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

constexpr char kPython[] = "/usr/bin/python3";  // Debian's, which sees its packages; not one that stands first in PATH.
constexpr char kHalves[] = "tests/integration/bring_your_own/halves.py";

bool HasPythonTorch() { return RunChild({kPython, "-c", "import torch"}).exit_code == 0; }

void Python(std::vector<std::string> arguments, std::string* out = nullptr) {
  arguments.insert(arguments.begin(), {kPython, kHalves});
  ChildOptions options;
  options.limit_seconds = 200;
  const ChildResult result = RunChild(arguments, options);
  ASSERT_EQ(result.exit_code, 0) << result.out << result.err;
  if (out != nullptr) {
    *out = result.out;
  }
}

void Save(const c10::IValue& value, const std::string& path) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

c10::IValue Load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return torch::jit::pickle_load(std::vector<char>(std::istreambuf_iterator<char>(in), {}));
}

Tensor AsTensor(ConstMatrixView matrix) {
  return torch::from_blob(const_cast<float*>(matrix.data()), {matrix.rows(), matrix.cols()}).clone();
}

Tensor Categories(const FeatureBatch& batch) { return torch::tensor(batch.categories).reshape({batch.rows, -1}); }

Tensors Appended(Tensors tensors, const Tensor& tensor) {
  tensors.push_back(tensor);
  return tensors;
}

// What no optimiser moves is kept by its bytes, two in each float (TorchScriptModule::Part): of the running statistics
// of normalisation, float32 and int64.
std::vector<float> Decoded(const std::string& name, const std::vector<float>& numbers) {
  const size_t digits = absl::StrContains(name, "running_")              ? 2
                        : absl::StrContains(name, "num_batches_tracked") ? 4
                                                                         : 0;
  if (digits == 0) {
    return numbers;
  }
  std::vector<float> values;
  for (size_t i = 0; i < numbers.size(); i += digits) {
    uint64_t bits = 0;
    for (size_t k = digits; k-- > 0;) {
      bits = bits << 16 | static_cast<uint64_t>(numbers[i + k]);
    }
    float value = static_cast<float>(bits);
    if (digits == 2) {
      const auto word = static_cast<uint32_t>(bits);
      std::memcpy(&value, &word, sizeof value);
    }
    values.push_back(value);
  }
  return values;
}

// Largest difference between `found` and what Python has under `prefix` and the same names.
double Distance(const c10::IValue& expected, const std::string& prefix, const NamedParameters& found) {
  const auto values = expected.toGenericDict();
  double distance = 0;
  for (const auto& [name, kept] : found) {
    const std::vector<float> numbers = Decoded(name, kept);
    if (!values.contains(prefix + name)) {
      ADD_FAILURE() << "Python has no " << prefix << name;
      continue;
    }
    const Tensor theirs = values.at(prefix + name).toTensor().reshape(-1);
    EXPECT_EQ(theirs.numel(), static_cast<int64_t>(numbers.size())) << name;
    distance = std::max(distance, (theirs - torch::tensor(numbers)).abs().max().item<double>());
  }
  return distance;
}

// What is among `parameters` of the user's module, and under its names there.
NamedParameters OfModule(const NamedParameters& parameters) {
  NamedParameters own;
  for (const auto& [name, values] : parameters) {
    if (absl::StartsWith(name, "module.")) {
      own.emplace_back(name.substr(7), values);
    }
  }
  return own.empty() ? parameters : own;
}

NamedParameters Named(const NamedParameters& parameters, const std::string& name, const std::string& as) {
  for (const auto& [found, values] : parameters) {
    if (found == name) {
      return {{as, values}};
    }
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

void ExpectNear(const NamedParameters& expected, const NamedParameters& found, float limit) {
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(expected[i].first, found[i].first);
    EXPECT_THAT(Decoded(found[i].first, found[i].second),
                ::testing::Pointwise(::testing::FloatNear(limit), Decoded(expected[i].first, expected[i].second)))
        << expected[i].first;
  }
}

// A whole run of the two parties with halves that Python made, and the data each party saw.
class BringYourOwnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasPythonTorch()) {
      GTEST_SKIP() << kPython << " cannot import torch (Debian: python3-torch)";
    }
  }

  void Configure(const std::string& kind) {
    ASSERT_NO_FATAL_FAILURE(Python({"make", kind, run_.files.path()}));
    run_.agreement.set_epochs(3);
    run_.label_config.set_keep(v1::LabelPartyConfig::LAST);  // As in Python.
    v1::ModelSpec& bottom = *run_.nonlabel_config.mutable_model();
    bottom.clear_layers();
    bottom.set_torchscript_path(run_.files.File("bottom.pt"));
    v1::ModelSpec& top = *run_.label_config.mutable_model();
    top.Clear();
    top.set_torchscript_path(run_.files.File("top.pt"));
    if (kind == "scripted") {
      top.mutable_own_features()->mutable_embedding()->set_dimension(1);
    } else {
      run_.label_data.numeric.clear();  // No file of one argument reads own features.
      run_.label_data.categories.clear();
    }
    run_.agreement.mutable_audit()->clear_layers();
    run_.agreement.mutable_audit()->add_layers("cut");
    run_.agreement.mutable_audit()->add_layers("features.0");
    run_.agreement.mutable_audit()->add_layers("features");
    run_.nonlabel_config.mutable_party()->set_export_dir(run_.files.File("exported"));
    run_.label_config.mutable_party()->set_export_dir(run_.files.File("exported"));
  }

  // The non-label party's features become noise, brighter in its first channel where the label is 1.
  void UseImages(const ImageShape& shape) {
    SmallTable& data = run_.nonlabel_data;
    data.image = shape;
    data.numeric.clear();
    data.categories.clear();
    std::mt19937_64 random(29);
    for (size_t row = 0; row < data.ids.size(); ++row) {
      const bool positive = row < run_.label_data.labels.size() && run_.label_data.labels[row] == 1;
      std::vector<uint8_t>& pixels = data.pixels.emplace_back();
      for (int64_t i = 0; i < shape.pixels(); ++i) {
        const uint64_t noise = random() % 128;
        pixels.push_back(static_cast<uint8_t>(positive && i < shape.height * shape.width ? 127 + noise : noise));
      }
    }
  }

  void Train() {
    LabelSessionOptions options = run_.LabelOptions();
    options.keep_report = [this](const RunFigures& report, bool /*complete*/) {
      report_ = report;
      return absl::OkStatus();
    };
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(std::move(options));
    ASSERT_TRUE(label.ok()) << label.status();
    label_ = *std::move(label);
    peer_ = std::make_unique<LocalLabelParty>(label_.get());
    nonlabel_ = std::make_unique<NonLabelSession>(run_.NonLabelOptions(peer_.get()));
    const absl::Status status = nonlabel_->Run();
    ASSERT_TRUE(status.ok()) << status;
    const absl::Status ended = label_->WaitUntilEnded([] { return false; });
    ASSERT_TRUE(ended.ok()) << ended;
  }

  // Positions of the examples of each batch of the run, rebuilt from what both parties contributed to the schedule.
  std::vector<std::vector<uint32_t>> Batches() {
    const uint64_t label_seed = run_.label_config.party().reproducible_seed();
    const uint64_t nonlabel_seed = run_.nonlabel_config.party().reproducible_seed();
    const SeedExchange own =
        *SeedExchange::Create(SeedRole::kNonLabelParty, SeedContribution(SeedRole::kNonLabelParty, nonlabel_seed));
    const SeedExchange theirs =
        *SeedExchange::Create(SeedRole::kLabelParty, SeedContribution(SeedRole::kLabelParty, label_seed));
    const JointSeed joint = *own.Combine(theirs.commitment(), theirs.reveal());
    const std::vector<uint32_t>& rows = nonlabel_->aligned().rows;  // The same ids at both parties: see SmallRun.
    TrainTestSplit split = SplitRule(run_.agreement).Split(run_.nonlabel_data.ids, rows);
    Schedule schedule =
        *Schedule::Create(joint, split.train, {run_.agreement.batch_size(), run_.agreement.minimum_batch_size()});
    features_ = std::make_unique<FeatureTable>(run_.NonLabelDataset(), rows);
    own_features_ = std::make_unique<FeatureTable>(run_.LabelDataset(), rows);
    std::vector<std::vector<uint32_t>> batches;
    for (uint32_t epoch = 0; epoch < run_.agreement.epochs(); ++epoch) {
      for (int64_t batch = 0; batch < schedule.batches_per_epoch(); ++batch) {
        const absl::Span<const uint32_t> positions = schedule.BatchRows(epoch, batch);
        batches.emplace_back(positions.begin(), positions.end());
      }
    }
    return batches;
  }

  std::vector<float> LabelsOf(const std::vector<uint32_t>& positions) const {
    std::vector<float> labels;
    for (const uint32_t position : positions) {
      labels.push_back(run_.label_data.labels[nonlabel_->aligned().rows[position]]);
    }
    return labels;
  }

  // What both parties saw, batch by batch.
  void SaveBatches(bool with_tables) {
    std::map<std::string, Tensors> data;
    for (const std::vector<uint32_t>& positions : Batches()) {
      const FeatureBatch bottom = features_->Gather(positions);
      const FeatureBatch top = own_features_->Gather(positions);
      data["numbers"].push_back(AsTensor(bottom.numeric));
      data["categories"].push_back(Categories(bottom));
      data["own_numbers"].push_back(AsTensor(top.numeric));
      data["own_categories"].push_back(Categories(top));
      data["labels"].push_back(torch::tensor(LabelsOf(positions)).to(torch::kFloat));
    }
    data["tables"] = with_tables ? InitialTables() : Tensors{};
    c10::Dict<std::string, std::vector<Tensor>> dictionary;
    for (const auto& [name, tensors] : data) {
      dictionary.insert(name, tensors);
    }
    Save(dictionary, run_.files.File("batches.pt"));
  }

  BottomModelOptions BottomOptions() const {
    BottomModelOptions options;
    options.spec = run_.nonlabel_config.model();
    options.optimizer = run_.nonlabel_config.party().optimizer();
    options.features = features_->shape();
    options.cut_width = 8;
    options.seed = WeightSeed(SeedRole::kNonLabelParty, run_.nonlabel_config.party().reproducible_seed());
    return options;
  }
  TopModelOptions TopOptions() const {
    TopModelOptions options;
    options.spec = run_.label_config.model();
    options.optimizer = run_.label_config.party().optimizer();
    options.features = own_features_->shape();
    options.cut_width = 8;
    options.seed = WeightSeed(SeedRole::kLabelParty, run_.label_config.party().reproducible_seed());
    return options;
  }

  Tensors InitialTables() const {
    Tensors tables;
    const NamedParameters bottom = (*BottomModel::Create(BottomOptions()))->Parameters();
    tables.push_back(torch::tensor(Named(bottom, "embedding", "").front().second).reshape({-1, 4}));
    if (run_.label_config.model().has_own_features()) {
      const NamedParameters top = (*TopModel::Create(TopOptions()))->Parameters();
      tables.push_back(torch::tensor(Named(top, "own.embedding", "").front().second).reshape({-1, 1}));
    }
    return tables;
  }

  // What TorchScriptModule draws from: the first number of the model's own generator.
  static std::string ModuleSeed(uint64_t model_seed) { return absl::StrCat(std::mt19937_64(model_seed)()); }

  void ExpectEqualToPython(const std::string& kind) {
    SaveBatches(/*with_tables=*/true);
    ASSERT_NO_FATAL_FAILURE(Python({"train", kind, run_.files.path(), absl::StrCat(ModuleSeed(BottomOptions().seed)),
                                    absl::StrCat(ModuleSeed(TopOptions().seed))}));
    const c10::IValue expected = Load(run_.files.File("expected.pt"));
    const NamedParameters bottom = nonlabel_->model()->Parameters();
    const NamedParameters top = label_->model()->Parameters();
    EXPECT_LE(Distance(expected, "bottom.", OfModule(bottom)), 1e-5);
    EXPECT_LE(Distance(expected, "top.", OfModule(top)), 1e-5);
    EXPECT_LE(Distance(expected, "", Named(bottom, "embedding", "bottom_table")), 1e-5);
    const NamedParameters fresh = (*BottomModel::Create(BottomOptions()))->Parameters();
    EXPECT_GT(Distance(expected, "bottom.", OfModule(fresh)), 0.01) << "nothing was trained";
  }

  // That the non-label party recorded an AUC of each attack at each of `layers`, and at no other, in every step.
  void ExpectLeaksAt(const std::set<std::string>& layers) {
    const auto ledger = LedgerReader::Open(run_.files.File("nonlabel_party.db"));
    ASSERT_TRUE(ledger.ok()) << ledger.status();
    const auto leaks = (*ledger)->Leaks((*ledger)->Runs()->front().run.run_id);
    ASSERT_TRUE(leaks.ok()) << leaks.status();
    std::set<std::string> found;
    for (const LeakSeries& series : *leaks) {
      found.insert(series.layer);
      EXPECT_EQ(series.steps.size(), leaks->front().steps.size()) << series.layer << " " << series.attack;
    }
    EXPECT_EQ(found, layers);
  }

  // Python's output of the exported half on `inputs`.
  Tensor Read(const std::string& party, const Tensors& inputs) {
    const std::string folder = run_.files.File("exported");
    Save(c10::IValue(inputs), folder + "/inputs.pt");
    Python({"read", folder, party});
    return Load(folder + "/outputs.pt").toTensor();
  }

  // That the trained halves, their files in Python, and their files as halves to train on give the same.
  void ExpectExportsReadAlike() {
    const std::vector<uint32_t> positions = {0, 5, 7, 11};
    const FeatureBatch bottom_batch = features_->Gather(positions);
    const FeatureBatch top_batch = own_features_->Gather(positions);
    const absl::StatusOr<Matrix> z = nonlabel_->model()->Predict(bottom_batch);
    ASSERT_TRUE(z.ok()) << z.status();

    BottomModelOptions bottom_options = BottomOptions();
    const bool bottom_embeds = bottom_options.spec.has_embedding();
    bottom_options.spec.Clear();
    bottom_options.spec.set_torchscript_path(run_.files.File("exported/nonlabel_party.pt"));
    const auto bottom = BottomModel::Create(bottom_options);
    ASSERT_TRUE(bottom.ok()) << bottom.status();
    EXPECT_LE((AsTensor(*(*bottom)->Predict(bottom_batch)) - AsTensor(*z)).abs().max().item<double>(), 1e-6);
    Tensors inputs = {AsTensor(bottom_batch.numeric)};
    if (bottom_embeds) {
      inputs.push_back(Categories(bottom_batch));
    }
    EXPECT_LE((Read("nonlabel_party", inputs) - AsTensor(*z)).abs().max().item<double>(), 1e-6);

    TopModelOptions top_options = TopOptions();
    const bool has_own = top_options.spec.has_own_features() || top_options.spec.has_wide();
    const auto trained = TopModel::Create(top_options);
    ASSERT_TRUE((*trained)->SetParameters(label_->model()->Parameters()).ok());
    const absl::StatusOr<std::vector<float>> logits = (*trained)->Predict(*z, top_batch);
    ASSERT_TRUE(logits.ok()) << logits.status();
    top_options.spec.Clear();
    top_options.spec.set_torchscript_path(run_.files.File("exported/label_party.pt"));
    const auto top = TopModel::Create(top_options);
    ASSERT_TRUE(top.ok()) << top.status();
    EXPECT_LE((torch::tensor(*(*top)->Predict(*z, top_batch)) - torch::tensor(*logits)).abs().max().item<double>(),
              1e-6);
    inputs = {AsTensor(*z)};
    if (has_own) {
      inputs.insert(inputs.end(), {AsTensor(top_batch.numeric), Categories(top_batch)});
    }
    EXPECT_LE((Read("label_party", inputs).reshape(-1) - torch::tensor(*logits)).abs().max().item<double>(), 1e-6);
  }

  SmallRun run_;
  std::unique_ptr<LabelSession> label_;
  std::unique_ptr<LocalLabelParty> peer_;
  std::unique_ptr<NonLabelSession> nonlabel_;
  std::unique_ptr<FeatureTable> features_, own_features_;
  RunFigures report_;  // RESULT's.
};

TEST_F(BringYourOwnTest, ScriptedHalvesWithNormalisationDropoutAndEmbeddingsTrainAsInPython) {
  ASSERT_NO_FATAL_FAILURE(Configure("scripted"));
  ASSERT_NO_FATAL_FAILURE(Train());
  ExpectEqualToPython("scripted");
  ExpectLeaksAt({"cut", "features.0", "features"});
  ExpectExportsReadAlike();
}

// The halves of the other way round: neither forward takes or gives what the run needs.
TEST_F(BringYourOwnTest, HalvesThatDoNotFitAreRefusedBeforeTheFirstMessage) {
  ASSERT_NO_FATAL_FAILURE(Configure("traced"));
  const absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
  ASSERT_TRUE(label.ok()) << label.status();
  LocalLabelParty peer(label->get());
  peer.on_call = [](const std::string& call) { ADD_FAILURE() << "called " << call; };
  const auto expect_refused = [&](const std::string& part) {
    const absl::Status status = NonLabelSession(run_.NonLabelOptions(&peer)).Run();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
  };
  run_.agreement.mutable_audit()->add_layers("features.7");
  expect_refused("found \"features.7\"");
  run_.agreement.mutable_audit()->mutable_layers()->RemoveLast();
  run_.nonlabel_config.mutable_party()->set_export_dir(run_.files.File("bottom.pt"));  // A file.
  expect_refused("export_dir");
  run_.nonlabel_config.mutable_party()->clear_export_dir();
  run_.nonlabel_config.mutable_model()->mutable_embedding()->set_dimension(5);
  expect_refused("expected forward to run on a batch");
  run_.nonlabel_config.mutable_model()->clear_embedding();
  expect_refused("expected a forward of 2 tensors, found one of 1");
  run_.nonlabel_config.mutable_model()->set_torchscript_path(run_.files.File("nothing.pt"));
  expect_refused("nothing.pt: expected a TorchScript file");

  run_.label_config.mutable_model()->set_torchscript_path(run_.files.File("bottom.pt"));
  const absl::Status refused = LabelSession::Create(run_.LabelOptions()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "model.torchscript_path")) << refused;
}

TEST_F(BringYourOwnTest, TracedHalvesTrainAsInPython) {
  ASSERT_NO_FATAL_FAILURE(Configure("traced"));
  ASSERT_NO_FATAL_FAILURE(Train());
  ExpectEqualToPython("traced");
  ExpectLeaksAt({"cut", "features.0", "features"});
  ExpectExportsReadAlike();
}

TEST_F(BringYourOwnTest, HalvesOfOursAreReadByPythonAsTheyPredict) {
  run_.nonlabel_config.mutable_party()->mutable_optimizer()->set_average_decay(0.9);
  run_.label_config.mutable_party()->mutable_optimizer()->set_average_decay(0.9);
  run_.nonlabel_config.mutable_party()->set_export_dir(run_.files.File("exported"));
  run_.label_config.mutable_party()->set_export_dir(run_.files.File("exported"));
  ASSERT_NO_FATAL_FAILURE(Train());
  SaveBatches(/*with_tables=*/false);
  ExpectExportsReadAlike();
}

// What is reported is what is exported: the halves of the best epoch, which is not the last one.
TEST_F(BringYourOwnTest, TheExportedHalvesOfTheBestEpochReproduceTheTestAucOfResult) {
  run_.agreement.set_epochs(25);
  run_.label_config.set_keep(v1::LabelPartyConfig::BEST);
  for (v1::PartyCommon* party : {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()}) {
    party->mutable_optimizer()->set_learning_rate(0.2);  // Overfits within the run.
    party->set_export_dir(run_.files.File("exported"));
  }
  ASSERT_NO_FATAL_FAILURE(Train());
  ASSERT_TRUE(report_.test.auc.has_value() && report_.final_test.auc.has_value());
  EXPECT_LT(report_.best_epoch, 25);
  EXPECT_GT(std::abs(*report_.test.auc - *report_.final_test.auc), 1e-3) << "the epochs cannot be told apart";

  Batches();  // Gathers the features of both parties.
  const std::vector<uint32_t>& rows = nonlabel_->aligned().rows;
  const std::vector<uint32_t> positions = SplitRule(run_.agreement).Split(run_.nonlabel_data.ids, rows).test;
  const FeatureBatch bottom = features_->Gather(positions), top = own_features_->Gather(positions);
  c10::Dict<std::string, Tensors> data;
  data.insert("bottom", Tensors{AsTensor(bottom.numeric), Categories(bottom)});
  data.insert("top", Tensors{AsTensor(top.numeric), Categories(top)});
  data.insert("labels", Tensors{torch::tensor(LabelsOf(positions))});
  Save(data, run_.files.File("exported/test.pt"));
  std::string found;
  ASSERT_NO_FATAL_FAILURE(Python({"auc", run_.files.File("exported")}, &found));
  EXPECT_NEAR(std::stod(found), *report_.test.auc, 1e-6);
}

TEST_F(BringYourOwnTest, ConvolutionalHalvesTrainAsInPython) {
  ASSERT_NO_FATAL_FAILURE(Python({"make", "convolutional", run_.files.path()}));
  BottomModelOptions bottom_options;
  bottom_options.spec.set_torchscript_path(run_.files.File("bottom.pt"));
  bottom_options.optimizer = run_.nonlabel_config.party().optimizer();
  bottom_options.features.image = {3, 8, 8};
  bottom_options.features.numeric = bottom_options.features.image.pixels();
  bottom_options.cut_width = 8;
  TopModelOptions top_options;
  top_options.spec.set_torchscript_path(run_.files.File("top.pt"));
  top_options.optimizer = bottom_options.optimizer;
  top_options.cut_width = 8;
  const auto bottom = BottomModel::Create(bottom_options);
  ASSERT_TRUE(bottom.ok()) << bottom.status();
  const auto top = TopModel::Create(top_options);
  ASSERT_TRUE(top.ok()) << top.status();
  EXPECT_EQ((*bottom)->layer_names(), (std::vector<std::string>{"features.0", "features.1", "features.2", "features.3",
                                                                "features.4", "features", "out", "cut"}));
  c10::Dict<std::string, Tensors> data;
  for (const char* name : {"tables", "numbers", "categories", "own_numbers", "own_categories", "labels"}) {
    data.insert(name, Tensors());
  }
  torch::manual_seed(5);
  for (int step = 0; step < 10; ++step) {
    const Tensor images = torch::rand({16, 3, 8, 8});
    const Tensor labels = (images.mean({1, 2, 3}) > 0.5).to(torch::kFloat);
    for (const auto& [name, tensor] : std::map<std::string, Tensor>{{"numbers", images}, {"labels", labels}}) {
      data.insert_or_assign(name, Appended(data.at(name), tensor));
    }
    for (const char* unused : {"categories", "own_numbers", "own_categories"}) {
      data.insert_or_assign(unused, Appended(data.at(unused), torch::zeros({16, 0})));
    }
    FeatureBatch batch;
    batch.rows = 16;
    batch.numeric = Matrix(16, images[0].numel());
    std::copy_n(images.data_ptr<float>(), images.numel(), batch.numeric.data());
    const auto activations = (*bottom)->Forward(batch);
    ASSERT_TRUE(activations.ok()) << activations.status();
    const std::vector<float> targets(labels.data_ptr<float>(), labels.data_ptr<float>() + 16);
    const auto head = (*top)->ForwardBackward(*activations, {}, targets, {});
    ASSERT_TRUE(head.ok()) << head.status();
    ASSERT_TRUE((*top)->Update().ok());
    const auto gradients = (*bottom)->Backward(head->cut_gradient, {"features.0"});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_EQ(gradients->front().cols(), 4 * 8 * 8);
    ASSERT_TRUE((*bottom)->Update().ok());
  }
  Save(data, run_.files.File("batches.pt"));
  ASSERT_NO_FATAL_FAILURE(Python({"train", "convolutional", run_.files.path(), "0", "0"}));
  const c10::IValue expected = Load(run_.files.File("expected.pt"));
  EXPECT_LE(Distance(expected, "bottom.", (*bottom)->Parameters()), 1e-5);
  EXPECT_LE(Distance(expected, "top.", (*top)->Parameters()), 1e-5);
}

// A half of Python's with batch normalisation, on images, against a top model of ours: the batches are longer than the
// slices in which they cross the wire, and the half must still see each of them whole.
TEST_F(BringYourOwnTest, ConvolutionalHalfTrainsOnWholeBatchesAgainstATopModelOfOurs) {
  ASSERT_NO_FATAL_FAILURE(Python({"make", "convolutional", run_.files.path()}));
  UseImages({3, 8, 8});
  run_.nonlabel_config.mutable_model()->Clear();
  run_.nonlabel_config.mutable_model()->set_torchscript_path(run_.files.File("bottom.pt"));
  run_.agreement.set_batch_size(400);
  run_.agreement.set_epochs(25);
  run_.label_config.set_keep(v1::LabelPartyConfig::LAST);
  run_.agreement.mutable_audit()->set_layers(1, "features.0");
  for (v1::PartyCommon* party : {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()}) {
    party->mutable_optimizer()->set_learning_rate(0.01);
  }
  ASSERT_NO_FATAL_FAILURE(Train());
  ExpectLeaksAt({"cut", "features.0"});

  const auto ledger = LedgerReader::Open(run_.files.File("label_party.db"));
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const std::vector<StepRow> steps = *(*ledger)->Steps((*ledger)->Runs()->front().run.run_id);
  const std::vector<std::vector<uint32_t>> batches = Batches();
  ASSERT_EQ(steps.size(), batches.size());
  for (const StepRow& step : steps) {
    EXPECT_GT(BatchSlices(step.examples, run_.agreement.in_flight_batches()).all().size(), 1) << step.examples;
  }
  EXPECT_LT(steps.back().loss, 0.8 * steps.front().loss);

  const auto bottom = BottomModel::Create(BottomOptions());
  ASSERT_TRUE(bottom.ok()) << bottom.status();
  const auto top = *TopModel::Create(TopOptions());
  for (const std::vector<uint32_t>& positions : batches) {
    const auto activations = (*bottom)->Forward(features_->Gather(positions));
    ASSERT_TRUE(activations.ok()) << activations.status();
    const FeatureBatch own = own_features_->Gather(positions);
    const auto head = top->ForwardBackward(*activations, own, LabelsOf(positions), {});
    ASSERT_TRUE(head.ok()) << head.status();
    ASSERT_TRUE((*bottom)->Backward(head->cut_gradient, {}).ok());
    ASSERT_TRUE(top->Update().ok());
    ASSERT_TRUE((*bottom)->Update().ok());
  }
  ExpectNear((*bottom)->Parameters(), nonlabel_->model()->Parameters(), 1e-4);
  ExpectNear(top->Parameters(), label_->model()->Parameters(), 1e-4);
}

}  // namespace
}  // namespace splitveil::testing
