#include "common/dataset/dataset.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/dataset/prepared_data.h"
#include "tests/testing/scratch_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SmallTable;

template <typename Number>
std::string Bytes(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Prepared data of two rows with every kind of column, section by section, so that a test can damage one.
struct Parts {
  Parts() {
    preprocessing.set_rows(2);
    preprocessing.set_positives(1);
    preprocessing.set_embedding_rows(3);
    preprocessing.add_numeric()->set_name("n");
    v1::CategoryIndex& index = *preprocessing.add_categorical();
    index.set_name("c");
    index.add_blocks()->set_rows(3);
    v1::ImageSize& image = *preprocessing.mutable_image();
    image.set_channels(1);
    image.set_height(1);
    image.set_width(2);
    sections = {{"id_ends", Bytes<uint64_t>({1, 3})},         {"ids", "abc"},
                {"labels", std::string("\1\0", 2)},           {"numeric", Bytes<float>({0.25F, 1})},
                {"categories", Bytes<int32_t>({2, 0})},       {"pixels", std::string("\0\xff\x33\0", 4)},
                {"vocabulary_ends", Bytes<uint64_t>({0, 2})}, {"vocabulary", "xy"}};
  }
  std::string Write(const ScratchFolder& folder) const {
    std::vector<std::string> names = {"preprocessing"};
    for (const auto& [name, bytes] : sections) {
      names.push_back(name);
    }
    auto writer = *SectionFileWriter::Create(folder.Path("data"), names);
    EXPECT_TRUE(writer->Append(0, preprocessing.SerializeAsString()).ok());
    for (size_t i = 1; i < names.size(); ++i) {
      EXPECT_TRUE(writer->Append(i, sections.at(names[i])).ok());
    }
    EXPECT_TRUE(writer->Publish().ok());
    return folder.Path("data");
  }

  v1::Preprocessing preprocessing;
  std::map<std::string, std::string> sections;
};

// Of three classes, the rows of the second and the last.
Parts MultiClassParts() {
  Parts parts;
  parts.preprocessing.clear_positives();
  for (const char* text : {"low", "middle", "high"}) {
    parts.preprocessing.add_classes(text);
  }
  parts.sections["labels"] = std::string("\1\2", 2);
  return parts;
}

Parts RegressionParts() {
  Parts parts;
  parts.preprocessing.clear_positives();
  parts.preprocessing.mutable_target()->set_minimum(-5);
  parts.preprocessing.mutable_target()->set_maximum(20);
  parts.preprocessing.mutable_target()->set_clipped(1);
  parts.sections["labels"].clear();
  parts.sections["targets"] = Bytes<float>({0.75F, 0});
  return parts;
}

// Of an attribute of two values, the second and unknown, and one of three.
Parts AttributeParts() {
  Parts parts;
  for (const int values : {2, 3}) {
    v1::AttributeValues& attribute = *parts.preprocessing.add_attributes();
    attribute.set_name(values == 2 ? "sex" : "relationship");
    for (int value = 0; value < values; ++value) {
      attribute.add_values(std::string(1, static_cast<char>('x' + value)));
    }
  }
  parts.sections["attributes"] = std::string("\1\2\xff\0", 4);
  return parts;
}

// Of data that `damage` has been done to, under a digest that fits.
void ExpectRefused(const std::function<void(Parts&)>& damage, const std::string& message, Parts parts = Parts()) {
  const ScratchFolder folder;
  damage(parts);
  const absl::Status status = Dataset::Open(parts.Write(folder)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(DatasetTest, OpensWhatWasPrepared) {
  const ScratchFolder folder;
  const absl::StatusOr<std::shared_ptr<const Dataset>> data = Dataset::Open(Parts().Write(folder));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->rows(), 2);
  EXPECT_EQ((*data)->ids()[0], "a");
  EXPECT_EQ((*data)->ids()[1], "bc");
  EXPECT_THAT((*data)->labels(), ElementsAre(1, 0));
  EXPECT_EQ((*data)->features().numeric, 3);
}

TEST(DatasetTest, IsCheckedWholeOnceAndWhenAskedTo) {
  const ScratchFolder folder;
  const std::string path = Parts().Write(folder);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));  // CheckRecord.
  ASSERT_TRUE(Dataset::Open(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".checked")) << "a check by itself leaves nothing behind";
  const auto open = [&] { return Dataset::Open(path, Dataset::kMaxResidentBytes, Dataset::Check::kRemembered); };
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(std::filesystem::exists(path + ".checked"));
  const auto again = open();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->Gather({1, 0}).categories, (*Dataset::Open(path))->Gather({1, 0}).categories);
  std::string bytes = folder.Read("data");
  bytes[100] ^= 1;
  folder.Write("data", bytes);
  EXPECT_EQ(open().status().code(), absl::StatusCode::kInvalidArgument);
}

// What no sample has found must not be read as an index into another's memory.
TEST(DatasetDeathTest, ANumberThatIsOutOfRangeAfterItsCheckEndsTheProcess) {
  const ScratchFolder folder;
  const std::string path = Parts().Write(folder);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  const auto data = *Dataset::Open(path, Dataset::kMaxResidentBytes, Dataset::Check::kRemembered);
  const std::string good = folder.Read("data");
  for (const char* section : {"categories", "numeric"}) {
    const std::string valid = Parts().sections[section];
    std::string bytes = good;
    const size_t at = bytes.find(valid);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, valid.size(), valid.size(), '\xff');                         // -1, or NaN.
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << bytes;  // In place.
    EXPECT_EXIT((void)data->Gather({0, 1}), ::testing::ExitedWithCode(2), "found a number out of range") << section;
  }
}

TEST(DatasetTest, SaysWhatIsPredicted) {
  const ScratchFolder folder;
  const auto binary = *Dataset::Open(Parts().Write(folder));
  EXPECT_EQ(binary->task().kind, Task::Kind::kBinary);
  EXPECT_EQ(binary->task().classes, 2);
  EXPECT_TRUE(binary->has_labels());
  EXPECT_TRUE(binary->targets().empty());
  const auto multi_class = *Dataset::Open(MultiClassParts().Write(folder));
  EXPECT_EQ(multi_class->task().kind, Task::Kind::kMultiClass);
  EXPECT_EQ(multi_class->task().classes, 3);
  EXPECT_EQ(multi_class->task().outputs(), 3);
  EXPECT_THAT(multi_class->labels(), ElementsAre(1, 2));
  EXPECT_TRUE(multi_class->has_labels());
  EXPECT_TRUE(multi_class->targets().empty());
  const auto regression = *Dataset::Open(RegressionParts().Write(folder));
  EXPECT_EQ(regression->task().kind, Task::Kind::kRegression);
  EXPECT_EQ(regression->task().target_range, 25);
  EXPECT_EQ(regression->task().classes, 0);
  EXPECT_EQ(regression->task().outputs(), 1);
  EXPECT_THAT(regression->targets(), ElementsAre(0.75F, 0));
  EXPECT_TRUE(regression->has_labels());
  EXPECT_TRUE(regression->labels().empty());
}

TEST(DatasetTest, HoldsUpTo256Classes) {
  const ScratchFolder folder;
  Parts parts = MultiClassParts();
  for (int more = 3; more < 256; ++more) {
    parts.preprocessing.add_classes("class " + std::to_string(more));
  }
  parts.sections["labels"] = std::string("\xff\0", 2);
  const auto data = Dataset::Open(parts.Write(folder));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->labels(), ElementsAre(255, 0));
  ExpectRefused([](Parts& parts) { parts.preprocessing.add_classes("class 256"); }, "3 to 256", parts);
}

TEST(DatasetTest, KeepsWhatTheWriterIsGivenOfEachTask) {
  SmallTable table;
  table.ids = {"a", "b"};
  table.task = {Task::Kind::kMultiClass, 4};
  table.labels = {3, 0};
  EXPECT_THAT(table.Store()->labels(), ElementsAre(3, 0));
  EXPECT_EQ(table.Store()->task().classes, 4);
  EXPECT_FALSE(table.Store()->preprocessing().has_positives());
  table.task = {Task::Kind::kRegression, 0};
  table.labels = {};
  table.targets = {1, 0.125F};
  EXPECT_THAT(table.Store()->targets(), ElementsAre(1, 0.125F));
  EXPECT_FALSE(table.Store()->preprocessing().has_positives());
  table.targets = {};
  EXPECT_FALSE(table.Store()->has_labels());
  EXPECT_EQ(table.Store()->task().kind, Task::Kind::kBinary);
}

TEST(DatasetTest, GathersRowsWhereTheyAreMappedAsWhereTheyAreRead) {
  const ScratchFolder folder;
  const std::string path = Parts().Write(folder);
  for (const int64_t max_resident_bytes : {Dataset::kMaxResidentBytes, int64_t{0}}) {
    const auto data = Dataset::Open(path, max_resident_bytes);
    ASSERT_TRUE(data.ok()) << data.status();
    const FeatureBatch batch = (*data)->Gather({1, 0, 1});
    EXPECT_EQ(batch.rows, 3);
    EXPECT_THAT(batch.categories, ElementsAre(0, 2, 0));
    EXPECT_THAT(batch.numeric.row(0), ElementsAre(0x33 / 255.0F, 0, 1));
    EXPECT_THAT(batch.numeric.row(1), ElementsAre(0, 1, 0.25F));
    EXPECT_EQ((*data)->Gather({}).rows, 0);
  }
}

TEST(DatasetTest, StaysReadableAfterItsMemoryWasReleased) {
  const ScratchFolder folder;
  const auto data = *Dataset::Open(Parts().Write(folder));
  data->ReleaseMemory();
  EXPECT_EQ(data->Gather({0}).categories[0], 2);
  EXPECT_EQ(data->ids()[1], "bc");
}

TEST(DatasetTest, GathersAttributesApartFromTheFeatures) {
  const ScratchFolder folder;
  const std::string path = AttributeParts().Write(folder);
  for (const int64_t max_resident_bytes : {int64_t{0}, Dataset::kMaxResidentBytes}) {
    const auto data = *Dataset::Open(path, max_resident_bytes);
    EXPECT_THAT(data->attributes(), ElementsAre(1, 2, kUnknownAttribute, 0));
    EXPECT_EQ(data->features().categorical, 1);
    EXPECT_THAT(data->Gather({1, 0, 1}).attributes, ElementsAre(kUnknownAttribute, 0, 1, 2, kUnknownAttribute, 0));
  }
  EXPECT_TRUE((*Dataset::Open(Parts().Write(folder)))->Gather({0}).attributes.empty());
}

TEST(DatasetTest, RefusesAttributesThatContradictThemselves) {
  const auto refused = [](const std::function<void(Parts&)>& damage, const std::string& message) {
    ExpectRefused(damage, message, AttributeParts());
  };
  refused([](Parts& parts) { parts.sections["attributes"][0] = 2; }, "attribute without such a value");
  refused([](Parts& parts) { parts.sections["attributes"][3] = 3; }, "attribute without such a value");
  refused([](Parts& parts) { parts.sections["attributes"].pop_back(); }, "3 bytes of attributes instead of 4");
  refused([](Parts& parts) { parts.sections.erase("attributes"); }, "attributes");
  refused([](Parts& parts) { parts.preprocessing.clear_attributes(); }, "4 bytes of attributes instead of 0");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->set_name("relationship"); }, "a name of their");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->clear_name(); }, "a name of their own");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->set_values(0, "y"); }, "2 to 254 distinct");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->set_values(0, ""); }, "2 to 254 distinct");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->mutable_values()->RemoveLast(); }, "2 to 254");
  refused([](Parts& parts) { parts.preprocessing.mutable_attributes(0)->set_missing(3); }, "missing values");
}

TEST(DatasetTest, KeepsItsVocabularies) {
  const ScratchFolder folder;
  const auto data = *Dataset::Open(Parts().Write(folder));
  const std::vector<Vocabulary> vocabularies = *data->ReadVocabularies();
  EXPECT_EQ(vocabularies[0].Find(""), 1);
  EXPECT_EQ(vocabularies[0].Find("xy"), 2);
  EXPECT_EQ(vocabularies[0].Find("x"), Vocabulary::kUnseen);
}

TEST(DatasetTest, RefusesFilesThatAreNoneDamagedOrCutShort) {
  const ScratchFolder folder;
  EXPECT_EQ(Dataset::Open(folder.Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Dataset::Open(folder.Write("text", std::string(500, 'x'))).status().code(),
            absl::StatusCode::kInvalidArgument);
  const std::string bytes = folder.Read(std::filesystem::path(Parts().Write(folder)).filename());
  for (size_t at = 0; at < bytes.size(); at += 5) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    EXPECT_FALSE(Dataset::Open(folder.Write("damaged", damaged)).ok()) << at;
    EXPECT_FALSE(Dataset::Open(folder.Write("cut", bytes.substr(0, at))).ok()) << at;
  }
}

TEST(DatasetTest, RefusesSectionsThatDoNotFitTheCounts) {
  for (const char* section : {"id_ends", "labels", "numeric", "categories", "pixels", "vocabulary_ends"}) {
    ExpectRefused([&](Parts& parts) { parts.sections[section] += std::string(8, '\0'); }, section);
    ExpectRefused([&](Parts& parts) { parts.sections[section].pop_back(); }, section);
  }
  for (const char* section : {"ids", "vocabulary"}) {
    ExpectRefused([&](Parts& parts) { parts.sections[section] += "z"; }, "overlap");
    ExpectRefused([&](Parts& parts) { parts.sections.erase(section); }, section);
  }
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_rows(0); }, "out of range");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_rows(int64_t{1} << 40); }, "out of range");
  ExpectRefused([](Parts& parts) { parts.preprocessing.clear_positives(); }, "labels");
}

TEST(DatasetTest, RefusesValuesOutOfRange) {
  ExpectRefused([](Parts& parts) { parts.sections["labels"][0] = 2; }, "labels besides");
  ExpectRefused([](Parts& parts) { parts.sections["categories"] = Bytes<int32_t>({3, 0}); }, "category indices");
  ExpectRefused([](Parts& parts) { parts.sections["categories"] = Bytes<int32_t>({-1, 0}); }, "category indices");
  for (const float number : {std::nanf(""), INFINITY, -INFINITY}) {
    ExpectRefused([&](Parts& parts) { parts.sections["numeric"] = Bytes<float>({0, number}); }, "not finite");
  }
  ExpectRefused([](Parts& parts) { parts.sections["id_ends"] = Bytes<uint64_t>({3, 3}); }, "are empty");
  ExpectRefused([](Parts& parts) { parts.sections["id_ends"] = Bytes<uint64_t>({4, 3}); }, "overlap");
  ExpectRefused([](Parts& parts) { parts.sections["id_ends"] = Bytes<uint64_t>({1, uint64_t{1} << 60}); }, "overlap");
}

TEST(DatasetTest, RefusesClassesAndTargetsThatAreNone) {
  const Parts multi_class = MultiClassParts(), regression = RegressionParts();
  const auto classes = [](Parts& parts) { return parts.preprocessing.mutable_classes(); };
  ExpectRefused([](Parts& parts) { parts.sections["labels"][1] = 3; }, "labels of no class", multi_class);
  ExpectRefused([&](Parts& parts) { classes(parts)->RemoveLast(); }, "3 to 256", multi_class);
  ExpectRefused([&](Parts& parts) { *classes(parts)->Mutable(2) = "low"; }, "distinct", multi_class);
  ExpectRefused([&](Parts& parts) { classes(parts)->Mutable(1)->clear(); }, "distinct", multi_class);
  ExpectRefused([](Parts& parts) { parts.sections["labels"].pop_back(); }, "labels", multi_class);
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_positives(1); }, "more than one of", multi_class);
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_positives(1); }, "more than one of", regression);
  ExpectRefused([&](Parts& parts) { *parts.preprocessing.mutable_target() = regression.preprocessing.target(); },
                "more than one of", multi_class);
  for (const float target : {-0.001F, 1.001F, std::nanf(""), INFINITY}) {
    ExpectRefused(
        [&](Parts& parts) {
          parts.sections["targets"] = Bytes<float>({target, 0});
        },
        "outside [0, 1]", regression);
  }
  ExpectRefused([](Parts& parts) { parts.sections["targets"].pop_back(); }, "targets", regression);
  ExpectRefused([](Parts& parts) { parts.sections.erase("targets"); }, "targets", regression);
  ExpectRefused([](Parts& parts) { parts.sections["labels"] = std::string(2, '\0'); }, "labels", regression);
  ExpectRefused([](Parts& parts) { parts.sections["targets"] = Bytes<float>({0, 1}); }, "targets");
  for (const double minimum : {20.0, 21.0, std::nan(""), -HUGE_VAL}) {
    ExpectRefused([&](Parts& parts) { parts.preprocessing.mutable_target()->set_minimum(minimum); }, "target's range",
                  regression);
  }
  ExpectRefused([](Parts& parts) { parts.preprocessing.mutable_target()->set_maximum(HUGE_VAL); }, "target's range",
                regression);
  for (const int clipped : {-1, 3}) {
    ExpectRefused([&](Parts& parts) { parts.preprocessing.mutable_target()->set_clipped(clipped); }, "clipped",
                  regression);
  }
}

TEST(DatasetTest, RefusesADescriptionThatContradictsItself) {
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_embedding_rows(4); }, "of no column");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_embedding_rows(2); }, "embedding rows of a column");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_embedding_rows(int64_t{1} << 33); }, "out of range");
  ExpectRefused([](Parts& parts) { parts.preprocessing.mutable_categorical(0)->set_hash_buckets(7); }, "do not fit");
  ExpectRefused([](Parts& parts) { parts.preprocessing.mutable_categorical(0)->mutable_blocks(0)->set_first_row(1); },
                "out of range");
  ExpectRefused([](Parts& parts) { parts.preprocessing.mutable_image()->set_width(int64_t{1} << 40); }, "image size");
  ExpectRefused([](Parts& parts) { parts.preprocessing.mutable_image()->set_height(-1); }, "image size");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_test_fraction(1); }, "test_fraction");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_test_fraction(std::nan("")); }, "test_fraction");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_auxiliary_fraction(1); }, "auxiliary_fraction");
  ExpectRefused([](Parts& parts) { parts.preprocessing.set_auxiliary_fraction(-0.5); }, "auxiliary_fraction");
}

TEST(DatasetTest, RefusesAVocabularyThatHoldsAValueTwice) {
  const ScratchFolder folder;
  Parts parts;
  parts.sections["vocabulary_ends"] = Bytes<uint64_t>({1, 2});
  parts.sections["vocabulary"] = "xx";
  const auto data = *Dataset::Open(parts.Write(folder));
  EXPECT_FALSE(data->ReadVocabularies().ok());
}

TEST(FeatureTableTest, GathersByAlignedPosition) {
  SmallTable table;
  table.ids = {"a", "b", "c"};
  table.numeric = {{0.0F}, {0.5F}, {1.0F}};
  const FeatureTable features(table.Store(), std::vector<uint32_t>{2, 0});
  EXPECT_EQ(features.rows(), 2);
  const FeatureBatch batch = features.Gather({1, 0});
  EXPECT_EQ(batch.numeric.row(0)[0], 0);
  EXPECT_EQ(batch.numeric.row(1)[0], 1);
}

TEST(FeatureTableDeathTest, AbortsForARowThatTheDatasetLacks) {
  SmallTable table;
  table.ids = {"a"};
  table.numeric = {{0.0F}};
  EXPECT_DEATH(FeatureTable(table.Store(), std::vector<uint32_t>{1}), "every row");
}

TEST(PreparedDataTest, RefusesDataOfAnotherSplitWithBothValues) {
  SmallTable table;
  table.ids = {"a"};
  const auto data = table.Store(0.25, "salt");
  v1::RunAgreement agreement;
  agreement.set_test_fraction(0.25);
  agreement.set_validation_fraction(0);
  agreement.set_split_salt("salt");
  EXPECT_TRUE(CheckSplit(*data, agreement).ok());
  agreement.set_split_salt("other");
  EXPECT_THAT(std::string(CheckSplit(*data, agreement).message()),
              HasSubstr("split_salt: expected data prepared for \"other\" as in the run agreement, found \"salt\""));
  agreement.set_test_fraction(0.1);
  EXPECT_THAT(std::string(CheckSplit(*data, agreement).message()),
              HasSubstr("test_fraction: expected data prepared for 0.1 as in the run agreement, found 0.25"));
  agreement.set_test_fraction(0.25);
  agreement.set_split_salt("salt");
  agreement.mutable_attribute_audit()->set_auxiliary_fraction(0.3);
  EXPECT_THAT(std::string(CheckSplit(*data, agreement).message()),
              HasSubstr("auxiliary_fraction: expected data prepared for 0.3 as in the run agreement's "
                        "attribute_audit, found 0"));
  agreement.clear_attribute_audit();
  agreement.set_validation_fraction(0.125);
  EXPECT_THAT(std::string(CheckSplit(*data, agreement).message()),
              HasSubstr("validation_fraction: expected data prepared for 0.125 as in the run agreement, found 0"));
  agreement.set_validation_fraction(0);
  agreement.set_split_by_group(true);
  EXPECT_THAT(
      std::string(CheckSplit(*data, agreement).message()),
      HasSubstr("split_by_group: the run agreement splits by group, but the table that these data were prepared "
                "from has no column of kind GROUP"));
  agreement.set_split_by_group(false);
  agreement.set_test_after("2024-06-01");
  EXPECT_THAT(std::string(CheckSplit(*data, agreement).message()),
              HasSubstr("test_after: expected data prepared for \"2024-06-01\" as in the run agreement, found \"\""));
}

TEST(DatasetTest, KeepsThePartOfEachRowWhereItsIdDoesNotTell) {
  const ScratchFolder folder;
  Parts parts;
  parts.preprocessing.set_split_by_group(true);
  parts.sections["parts"] = std::string("\3\1", 2);
  const auto data = *Dataset::Open(parts.Write(folder));
  EXPECT_THAT(data->parts(), ElementsAre(3, 1));
  parts.sections["parts"] = std::string("\4\1", 2);
  EXPECT_THAT(std::string(Dataset::Open(parts.Write(folder)).status().message()),
              HasSubstr("a row in no part of the split"));
  parts.sections["parts"] = "\1";
  EXPECT_FALSE(Dataset::Open(parts.Write(folder)).ok());
  parts.sections.erase("parts");
  EXPECT_FALSE(Dataset::Open(parts.Write(folder)).ok());
}

TEST(PreparedDataTest, OpensWhatThePartyNames) {
  const ScratchFolder folder;
  Parts().Write(folder);  // With labels.
  v1::PartyCommon party;
  party.mutable_dataset()->set_path(folder.Path("data"));
  v1::RunAgreement agreement;
  agreement.set_test_fraction(0);
  agreement.set_validation_fraction(0);
  EXPECT_TRUE(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).ok());
  party.mutable_dataset()->set_path(folder.Path("none"));
  EXPECT_EQ(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().code(), absl::StatusCode::kNotFound);
}

TEST(PreparedDataTest, RefusesIdsInOtherFormsThanTheAgreedOnes) {
  const ScratchFolder folder;
  Parts parts;
  parts.preprocessing.add_id_form(v1::INTEGER);
  parts.Write(folder);
  v1::PartyCommon party;
  party.mutable_dataset()->set_path(folder.Path("data"));
  v1::RunAgreement agreement;  // Predicts: nothing is split, but ids are compared.
  agreement.mutable_alignment()->add_id_form(v1::UNICODE_NFC);
  EXPECT_THAT(
      std::string(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().message()),
      HasSubstr("id_form: expected ids in the forms of the run agreement (UNICODE_NFC), found data prepared with "
                "INTEGER"));
  agreement.mutable_alignment()->set_id_form(0, v1::INTEGER);
  agreement.mutable_alignment()->add_id_form(v1::INTEGER);
  EXPECT_TRUE(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).ok());
  agreement.mutable_alignment()->clear_id_form();
  EXPECT_FALSE(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).ok());
  agreement.mutable_alignment()->add_key_column()->add_id_form(v1::INTEGER);
  EXPECT_THAT(std::string(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().message()),
              HasSubstr("alignment.key_column: it is for keys of several columns"));
}

TEST(PreparedDataTest, RefusesIdsThatTheAgreedPatternDoesNotDescribe) {
  const ScratchFolder folder;
  Parts().Write(folder);
  v1::PartyCommon party;
  party.mutable_dataset()->set_path(folder.Path("data"));
  v1::RunAgreement agreement;
  agreement.mutable_alignment()->add_id_pattern("..*");
  const absl::StatusOr<std::shared_ptr<const Dataset>> data =
      OpenPreparedData(party, agreement, PreparedFor::kLabelParty);
  ASSERT_TRUE(data.ok()) << data.status();
  agreement.mutable_alignment()->set_id_pattern(0, std::string((*data)->ids()[0]));
  const std::string error(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().message());
  EXPECT_THAT(error, HasSubstr(absl::StrCat(": ", (*data)->rows() - 1, (*data)->rows() == 2 ? " row" : " rows",
                                            " with an id that the agreed id_pattern")));
  EXPECT_THAT(error, HasSubstr("(row 2"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr(std::string((*data)->ids()[1]))));
  agreement.mutable_alignment()->add_id_pattern(".*");
  EXPECT_THAT(std::string(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().message()),
              HasSubstr("alignment.id_pattern: expected one"));
}

TEST(PreparedDataTest, RefusesTheOtherPartysData) {
  const ScratchFolder folder;
  Parts parts;
  parts.Write(folder);
  v1::PartyCommon party;
  party.mutable_dataset()->set_path(folder.Path("data"));
  v1::RunAgreement agreement;
  agreement.set_test_fraction(0);
  agreement.set_validation_fraction(0);
  EXPECT_EQ(OpenPreparedData(party, agreement, PreparedFor::kNonLabelParty).status().message(),
            folder.Path("data") +
                ": has labels, so it is not the non-label party's data: set party.dataset.path to this party's own");
  parts.preprocessing.clear_positives();
  parts.sections["labels"].clear();
  parts.Write(folder);
  EXPECT_EQ(std::string(OpenPreparedData(party, agreement, PreparedFor::kLabelParty).status().message()),
            folder.Path("data") +
                ": has no labels, so it is not the label party's data: set party.dataset.path to this party's own");
}

std::string DigestOf(const std::vector<std::string>& values, const std::string& asked = "sex") {
  v1::Preprocessing preprocessing;
  preprocessing.add_attributes()->set_name("age");
  v1::AttributeValues& attribute = *preprocessing.add_attributes();
  attribute.set_name("sex");
  for (const std::string& value : values) {
    attribute.add_values(value);
  }
  google::protobuf::RepeatedPtrField<std::string> names;
  *names.Add() = asked;
  return AttributeValueDigests(preprocessing, names).front();
}

TEST(AttributeValueDigestsTest, TellTheValuesAndTheirOrder) {
  EXPECT_EQ(DigestOf({"Male", "Female"}).size(), 32);
  EXPECT_EQ(DigestOf({"Male", "Female"}), DigestOf({"Male", "Female"}));
  EXPECT_NE(DigestOf({"Male", "Female"}), DigestOf({"Female", "Male"}));
  EXPECT_NE(DigestOf({"ab", "c"}), DigestOf({"a", "bc"}));
  EXPECT_NE(DigestOf({"Male", "Female"}), DigestOf({"Male", "Female"}, "income"));
}

}  // namespace
}  // namespace splitveil
