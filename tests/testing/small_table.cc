#include "tests/testing/small_table.h"

#include <gtest/gtest.h>
#include <optional>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/dataset_writer.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

// Named A1, A2, ..., of so many values each.
void AddAttributes(const std::vector<int>& values, v1::Preprocessing& preprocessing) {
  for (size_t a = 0; a < values.size(); ++a) {
    v1::AttributeValues& attribute = *preprocessing.add_attributes();
    attribute.set_name(absl::StrCat("A", a + 1));
    for (int value = 0; value < values[a]; ++value) {
      attribute.add_values(absl::StrCat("value", value));
    }
  }
}

}  // namespace

std::shared_ptr<const Dataset> SmallTable::Store(double test_fraction, const std::string& split_salt,
                                                 double validation_fraction) const {
  const size_t columns = categories.empty() ? 0 : categories.front().size();
  v1::Preprocessing preprocessing;
  preprocessing.set_test_fraction(test_fraction);
  preprocessing.set_split_salt(split_salt);
  preprocessing.set_validation_fraction(validation_fraction);
  for (size_t i = 0; i < (numeric.empty() ? 0 : numeric.front().size()); ++i) {
    preprocessing.add_numeric()->set_name(absl::StrCat("N", i + 1));
  }
  if (image.channels > 0) {
    preprocessing.mutable_image()->set_channels(image.channels);
    preprocessing.mutable_image()->set_height(image.height);
    preprocessing.mutable_image()->set_width(image.width);
  }
  std::vector<Vocabulary> vocabularies(columns);
  for (size_t c = 0; c < columns; ++c) {
    v1::CategoryIndex& index = *preprocessing.add_categorical();
    index.set_name(absl::StrCat("C", c + 1));
    v1::CategoryIndex::Block& block = *index.add_blocks();
    block.set_first_row(static_cast<int64_t>(c) * (1 + categories_per_column));
    block.set_rows(1 + categories_per_column);
    for (int32_t value = 1; value <= categories_per_column; ++value) {
      vocabularies[c].Add(absl::StrCat("value", value));
    }
  }
  preprocessing.set_embedding_rows(static_cast<int64_t>(columns) * (1 + categories_per_column));

  AddAttributes(attribute_values, preprocessing);
  const bool labelled = !labels.empty() || !targets.empty();
  for (int64_t label = 0; labelled && task.kind == Task::Kind::kMultiClass && label < task.classes; ++label) {
    preprocessing.add_classes(absl::StrCat("class", label));
  }
  if (labelled && task.kind == Task::Kind::kRegression) {
    preprocessing.mutable_target()->set_maximum(1);
  }

  const TempFolder files;  // The mapping outlives the name.
  const std::string path = files.File("small.data");
  absl::StatusOr<std::unique_ptr<DatasetWriter>> writer =
      DatasetWriter::Create(path, labelled ? std::optional<Task>(task) : std::nullopt, !attribute_values.empty());
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (size_t row = 0; row < ids.size(); ++row) {
    EncodedRow encoded;
    encoded.id = ids[row];
    encoded.label = labels.empty() ? 0 : labels[row];
    encoded.target = targets.empty() ? 0 : targets[row];
    encoded.numeric = numeric.empty() ? std::vector<float>() : numeric[row];
    encoded.pixels = pixels.empty() ? std::vector<uint8_t>() : pixels[row];
    encoded.attributes = attributes.empty() ? std::vector<uint8_t>() : attributes[row];
    for (size_t c = 0; c < columns; ++c) {
      encoded.categories.push_back(static_cast<int32_t>(c) * (1 + categories_per_column) + categories[row][c]);
    }
    EXPECT_TRUE((*writer)->Append(encoded).ok());
  }
  EXPECT_TRUE((*writer)->Finish(preprocessing, vocabularies).ok());
  EXPECT_TRUE(DatasetWriter::Publish({writer->get()}).ok());
  absl::StatusOr<std::shared_ptr<const Dataset>> dataset = Dataset::Open(path);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

}  // namespace splitveil::testing
