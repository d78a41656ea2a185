#include "deploy/operator/preparation/dataset_writer.h"

namespace splitveil {
namespace {

enum Section {
  kPreprocessing,
  kIdEnds,
  kIds,
  kLabels,
  kNumeric,
  kCategories,
  kPixels,
  kVocabularyEnds,
  kVocabulary,
  kFirstOptional  // Targets, attributes, parts, where there are such.
};

template <typename Number>
absl::string_view BytesOf(absl::Span<const Number> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetWriter>> DatasetWriter::Create(std::string path, std::optional<Task> task,
                                                                     bool has_attributes, bool has_parts) {
  std::vector<std::string> sections = {
      "preprocessing", "id_ends", "ids", "labels", "numeric", "categories", "pixels", "vocabulary_ends", "vocabulary"};
  if (task.has_value() && task->kind == Task::Kind::kRegression) {
    sections.emplace_back("targets");
  }
  if (has_attributes) {
    sections.emplace_back("attributes");
  }
  if (has_parts) {
    sections.emplace_back("parts");
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SectionFileWriter> file,
                             SectionFileWriter::Create(std::move(path), std::move(sections)));
  return std::unique_ptr<DatasetWriter>(new DatasetWriter(std::move(file), task, has_attributes, has_parts));
}

absl::Status DatasetWriter::Append(const EncodedRow& row) {
  ++rows_;
  positives_ += Is(Task::Kind::kBinary) ? row.label : 0;
  // Ends and not lengths: any id can be found without reading those before it.
  id_bytes_ += row.id.size();
  absl::Status status = file_->Append(kIdEnds, BytesOf<uint64_t>({&id_bytes_, 1}));
  status.Update(file_->Append(kIds, row.id));
  size_t optional = kFirstOptional;
  if (Is(Task::Kind::kRegression)) {
    status.Update(file_->Append(optional++, BytesOf<float>({&row.target, 1})));
  } else if (task_.has_value()) {
    status.Update(file_->Append(kLabels, BytesOf<uint8_t>({&row.label, 1})));
  }
  status.Update(file_->Append(kNumeric, BytesOf<float>(row.numeric)));
  status.Update(file_->Append(kCategories, BytesOf<int32_t>(row.categories)));
  status.Update(file_->Append(kPixels, BytesOf<uint8_t>(row.pixels)));
  if (has_attributes_) {
    status.Update(file_->Append(optional++, BytesOf<uint8_t>(row.attributes)));
  }
  if (has_parts_) {
    // As decided here: training must not depend on group or time columns, which the data do not carry.
    const auto part = static_cast<uint8_t>(row.part);
    status.Update(file_->Append(optional, BytesOf<uint8_t>({&part, 1})));
  }
  return status;
}

absl::Status DatasetWriter::Finish(v1::Preprocessing preprocessing, absl::Span<const Vocabulary> vocabularies) {
  // Rows and positives are known only now.
  preprocessing.set_rows(rows_);
  if (Is(Task::Kind::kBinary)) {
    preprocessing.set_positives(positives_);
  }
  absl::Status status = file_->Append(kPreprocessing, preprocessing.SerializeAsString());
  uint64_t end = 0;
  for (const Vocabulary& vocabulary : vocabularies) {
    for (int32_t number = 1; status.ok() && number <= vocabulary.size(); ++number) {
      end += vocabulary.value(number).size();
      status = file_->Append(kVocabularyEnds, BytesOf<uint64_t>({&end, 1}));
      status.Update(file_->Append(kVocabulary, vocabulary.value(number)));
    }
  }
  return status;
}

absl::Status DatasetWriter::Publish(absl::Span<DatasetWriter* const> writers, Replaces replaces) {
  std::vector<SectionFileWriter*> files;
  for (DatasetWriter* writer : writers) {
    files.push_back(writer->file_.get());
  }
  return SectionFileWriter::PublishAll(files, replaces);
}

}  // namespace splitveil
