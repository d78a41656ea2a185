// Tables whose labels are of several classes, or numbers.
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/prepare.h"

#include "common/dataset/dataset.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kFeatures[] = R"(
    columns { name: "id" kind: ID } columns { name: "own" kind: NUMERIC holder: LABEL_PARTY }
    columns { name: "theirs" kind: NUMERIC holder: NONLABEL_PARTY } )";
constexpr char kClasses[] =
    "columns { name: 'y' kind: CLASS_LABEL } classes: ['low', 'middle', 'high', 'none of them']";
constexpr char kTarget[] = "columns { name: 'y' kind: TARGET } target_minimum: -10 target_maximum: 30";

PrepareOptions OptionsFor(const ScratchFolder& folder, const std::string& schema, const std::string& table) {
  PrepareOptions options;
  options.rows.input_paths = {folder.Write("table", table)};
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(absl::StrCat(kFeatures, schema), &options.rows.schema));
  options.out_dir = folder.Path("out");
  options.test_fraction = options.validation_fraction = 0;
  options.only_label_fraction = options.only_nonlabel_fraction = 0;
  return options;
}

// Row i of `labels` has id "i" and that label.
std::string Table(const std::vector<std::string>& labels) {
  std::string text = "id,own,theirs,y\n";
  for (size_t i = 0; i < labels.size(); ++i) {
    absl::StrAppend(&text, i, ",", i % 7, ",", i % 5, ",", labels[i], "\n");
  }
  return text;
}

std::shared_ptr<const Dataset> Open(const ScratchFolder& folder, const std::string& party) {
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Open(folder.Path("out/" + party + ".data"));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

TEST(PrepareTasksTest, GivesClassesTheNumbersOfTheSchemaAndCountsThem) {
  const ScratchFolder folder;
  const std::vector<std::string> texts = {"low", "middle", "high", "none of them"};
  std::vector<std::string> labels;
  for (int i = 0; i < 50; ++i) {
    labels.push_back(texts[i % 3]);  // No row of the last class.
  }
  const PrepareOptions options = OptionsFor(folder, kClasses, Table(labels));
  const absl::StatusOr<PrepareResult> result = Prepare(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->class_rows, ElementsAre(17, 17, 16, 0));
  EXPECT_EQ(result->positives, 0);
  EXPECT_TRUE(std::isnan(result->target_mean));
  const auto label = Open(folder, "label_party");
  EXPECT_EQ(label->task().kind, Task::Kind::kMultiClass);
  EXPECT_EQ(label->task().classes, 4);
  EXPECT_THAT(label->preprocessing().classes(), ElementsAre("low", "middle", "high", "none of them"));
  EXPECT_FALSE(label->preprocessing().has_positives());
  for (size_t row = 0; row < label->ids().size(); ++row) {
    EXPECT_EQ(label->labels()[row], std::stoi(std::string(label->ids()[row])) % 3);
  }
  EXPECT_EQ(result->parties[0].preprocessing.SerializeAsString(), label->preprocessing().SerializeAsString());
  const auto nonlabel = Open(folder, "nonlabel_party");
  EXPECT_FALSE(nonlabel->has_labels());
  EXPECT_EQ(result->parties[1].preprocessing.SerializeAsString(), nonlabel->preprocessing().SerializeAsString());
}

TEST(PrepareTasksTest, ScalesTargetsAndCountsWhatItClips) {
  const ScratchFolder folder;
  const std::vector<std::string> targets = {"-10", "30", "0", "20.5", "-11", "1e300", "10"};
  const std::vector<float> scaled = {0, 1, 0.25F, 0.7625F, 0, 1, 0.5F};
  const absl::StatusOr<PrepareResult> result = Prepare(OptionsFor(folder, kTarget, Table(targets)));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->target_mean, (-10 + 30 + 0 + 20.5 - 10 + 30 + 10) / 7, 1e-12);
  EXPECT_EQ(result->clipped_targets, 2);
  EXPECT_TRUE(result->class_rows.empty());
  const auto label = Open(folder, "label_party");
  EXPECT_EQ(label->task().kind, Task::Kind::kRegression);
  EXPECT_EQ(label->preprocessing().target().minimum(), -10);
  EXPECT_EQ(label->preprocessing().target().maximum(), 30);
  EXPECT_EQ(label->preprocessing().target().clipped(), 2);
  ASSERT_EQ(label->targets().size(), targets.size());
  for (size_t row = 0; row < targets.size(); ++row) {
    EXPECT_FLOAT_EQ(label->targets()[row], scaled[std::stoul(std::string(label->ids()[row]))]);
  }
  EXPECT_FALSE(Open(folder, "nonlabel_party")->has_labels());
}

TEST(PrepareTasksTest, PreparesAndExtendsAPartysOwnTable) {
  for (const auto& [schema, labels] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {kClasses, {"high", "low", "middle"}}, {kTarget, {"30", "-10", "10"}}}) {
    const ScratchFolder folder;
    PrepareOptions options = OptionsFor(folder, schema, Table(labels));
    options.parties = v1::TableSchema::LABEL_PARTY;
    ASSERT_TRUE(Prepare(options).ok());
    options.extend_dir = folder.Path("out");
    options.out_dir = folder.Path("out2");
    ASSERT_TRUE(Prepare(options).ok()) << Prepare(options).status();
    const auto first = *Dataset::Open(folder.Path("out/label_party.data"));
    const auto second = *Dataset::Open(folder.Path("out2/label_party.data"));
    EXPECT_EQ(first->labels(), second->labels());
    EXPECT_EQ(first->targets(), second->targets());
    EXPECT_TRUE(first->labels().empty() || first->labels()[0] == 2);
    EXPECT_TRUE(first->targets().empty() || first->targets()[2] == 0.5F);
    options.parties = v1::TableSchema::NONLABEL_PARTY;
    EXPECT_THAT(std::string(Prepare(options).status().message()),
                HasSubstr("expected no LABEL, CLASS_LABEL or TARGET, found one"));
  }
}

// By whatever name: earlier data are what a model was trained on.
TEST(PrepareTasksTest, NeverReplacesTheDataThatItExtendsOrApplies) {
  const ScratchFolder folder;
  PrepareOptions options = OptionsFor(folder, kTarget, Table({"30", "-10", "10"}));
  options.parties = v1::TableSchema::LABEL_PARTY;
  ASSERT_TRUE(Prepare(options).ok());
  const std::string path = folder.Path("out/label_party.data");
  const Digest before = (*Dataset::Open(path))->digest();
  std::filesystem::create_directory_symlink(folder.Path("out"), folder.Path("link"));
  options.extend_dir = options.out_dir;
  options.rows.input_paths = {folder.Write("other", Table({"20", "-1"}))};
  for (const bool only_applies : {false, true}) {
    for (const char* out : {"out", "link"}) {
      options.only_applies = only_applies;
      options.out_dir = folder.Path(out);
      const absl::Status status = Prepare(options).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("/label_party.data: expected another file than the earlier data whose encoding is applied, "
                            "found these: name another folder with --out"));
      EXPECT_EQ((*Dataset::Open(path))->digest(), before);
    }
  }
}

TEST(PrepareTasksTest, RefusesOneClassAndOneTarget) {
  for (const auto& [schema, labels] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {kClasses, {"high", "high", "high"}}, {kTarget, {"40", "30", "1e9"}}}) {  // Clipped to one number.
    const ScratchFolder folder;
    const absl::Status status = Prepare(OptionsFor(folder, schema, Table(labels))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("expected labels that differ among the training rows, found 3 with one and the same label"));
  }
}

TEST(PrepareTasksTest, NamesLineAndColumnOfALabelThatIsNoneButNotTheLabel) {
  for (const auto& [schema, text, message] : std::vector<std::tuple<const char*, const char*, const char*>>{
           {kClasses, "PLANTED", "table:3:4: y: expected one of \"low\", \"middle\", \"high\", \"none of them\""},
           {kClasses, "", "table:3:4: y: expected one of"},
           {kTarget, "PLANTED", "table:3:4: y: expected a finite number, found nothing or another text"},
           {kTarget, "", "table:3:4: y: expected a finite number"},
           {kTarget, "inf", "table:3:4: y: expected a finite number"}}) {
    const ScratchFolder folder;
    const bool classes = schema == kClasses;
    PrepareOptions options =
        OptionsFor(folder, schema, Table({classes ? "low" : "1.5", text, classes ? "high" : "2.5"}));
    const absl::Status status = Prepare(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("PLANTED")));
    options.rows.skip_bad_rows = true;
    options.min_usable_share = 0.5;
    const absl::StatusOr<PrepareResult> lenient = Prepare(options);
    ASSERT_TRUE(lenient.ok()) << lenient.status();
    EXPECT_EQ(lenient->rows, 2);
    const RowFault fault = classes ? RowFault::kLabel : RowFault::kTarget;
    EXPECT_EQ(lenient->skipped[static_cast<size_t>(fault)], 1);
  }
}

}  // namespace
}  // namespace splitveil
