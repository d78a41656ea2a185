// Prepared data of one party: what `splitveil prepare` makes once and every run reads. Their file: dataset_contents.h.
#ifndef SPLITVEIL_COMMON_DATASET_DATASET_H_
#define SPLITVEIL_COMMON_DATASET_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/dataset/dataset_contents.h"
#include "common/dataset/features.h"
#include "common/dataset/id_list.h"
#include "common/dataset/task.h"
#include "common/dataset/vocabulary.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Memory-mapped and read-only: a row is read from the disk, or the system's page cache, when it is gathered.
// Thread-safe.
class Dataset {
 public:
  // Data up to this size, 2.6 million rows of Criteo, stay in the process's memory as far as they have been gathered;
  // of larger data each row is read again each time.
  static constexpr int64_t kMaxResidentBytes = int64_t{512} << 20;

  enum class Check {
    kWhole,       // The file's SHA-256, and that every index, length and number in it is in range.
    kRemembered,  // The same, unless the file is as it was when this did it last, which it records (CheckRecord).
  };

  // `max_resident_bytes`: other than the default for tests. Errors: NotFound; InvalidArgument with the file and what is
  // wrong with it: a different kind, damage, or parts that contradict each other. Nothing fails later, but a file that
  // is damaged meanwhile or was, unnoticed, since its check: that ends the process (EndForChangedFile).
  static absl::StatusOr<std::shared_ptr<const Dataset>> Open(const std::string& path,
                                                             int64_t max_resident_bytes = kMaxResidentBytes,
                                                             Check check = Check::kWhole);

  int64_t rows() const { return contents_.preprocessing.rows(); }
  const FeatureShape& features() const { return contents_.features; }
  // Not empty; distinct only as far as `prepare` could see: the alignment checks them.
  const IdList& ids() const { return contents_.ids; }
  bool has_labels() const { return !labels().empty() || !targets().empty(); }
  // Binary where there are no labels.
  const Task& task() const { return contents_.task; }
  // [rows], below task().classes; empty where there are none.
  absl::Span<const uint8_t> labels() const { return contents_.labels; }
  // [rows] in [0, 1], the numbers that a regression predicts; empty where there are none.
  absl::Span<const float> targets() const { return contents_.targets; }
  // [rows, preprocessing().attributes_size()], each the number of a value or kUnknownAttribute.
  absl::Span<const uint8_t> attributes() const { return contents_.attributes; }
  // [rows], each a SplitPart; empty where the ids tell.
  absl::Span<const uint8_t> parts() const { return contents_.parts; }
  const v1::Preprocessing& preprocessing() const { return contents_.preprocessing; }
  const std::string& path() const { return file_->path(); }
  // Of the file: names these data.
  const Digest& digest() const { return file_->digest(); }

  // Features and attributes of `rows`, each below rows(), in their order. Pixels are scaled to [0, 1]. All in range.
  FeatureBatch Gather(absl::Span<const uint32_t> rows) const;
  // Hands the memory of all that was read so far back: for after a pass over ids() or labels().
  void ReleaseMemory() const { file_->ReleaseMemory(); }

  // A copy of the vocabularies, one a categorical column; empty ones where values are hashed.
  absl::StatusOr<std::vector<Vocabulary>> ReadVocabularies() const;

 private:
  Dataset(std::unique_ptr<SectionFile> file, DatasetContents contents, bool resident)
      : file_(std::move(file)), contents_(std::move(contents)), resident_(resident) {}

  // Has the system read all of these rows that it does not hold, in the order of the file and many at a time: one after
  // the other, each would wait for the disk.
  void AskFor(absl::Span<const uint32_t> rows) const;

  std::unique_ptr<SectionFile> file_;
  DatasetContents contents_;  // Views into file_.
  bool resident_;             // Rows are read where they are mapped.
};

// Column of the attribute `name`; preprocessing.attributes_size() if there is none. Thread-safe, as the next.
int AttributeColumn(const v1::Preprocessing& preprocessing, absl::string_view name);

// For each of `names` SHA-256 of the values it has here, in their order: equal at two parties whose numbers mean the
// same. Of no values for a name that is no attribute here.
std::vector<std::string> AttributeValueDigests(const v1::Preprocessing& preprocessing,
                                               const google::protobuf::RepeatedPtrField<std::string>& names);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_DATASET_H_
