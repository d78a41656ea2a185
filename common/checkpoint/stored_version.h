// What a prediction run leaves for `serve`: a version. From the label party's it answers alone; the non-label party's
// half, without activations, is for answers from its features of the moment.
//
//   FOLDER/N/activations       section_file: "header" (v1.VersionHeader), "activations" float32 [n, cut_width],
//                              "rows" u32 [n], this party's row of each shared example, "scores"
//                              (v1.ScoreCounts) of the rows that the model was trained on; empty: not known
//   FOLDER/N/ROLE.checkpoint   this party's half of the model; ROLE: label_party or nonlabel_party
//   FOLDER/N/ROLE.data         the prepared data that the rows are of
//
// N counts up from 1. Checkpoint and data are links to the run's own files where the file system allows it.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_STORED_VERSION_H_
#define SPLITVEIL_COMMON_CHECKPOINT_STORED_VERSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/matrix/matrix.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// A version whose files belong together. Thread-safe.
struct StoredVersion {
  int64_t number = 0;
  int64_t stored_seconds = 0;  // Since 1970: when its file was written.
  v1::VersionHeader header;
  v1::ScoreCounts scores;
  std::string checkpoint_path;
  std::shared_ptr<const Dataset> data;
  std::unique_ptr<SectionFile> file;
  absl::Span<const uint32_t> rows;  // [n], each below data->rows(). A view into the file, as the next.
  ConstMatrixView activations;      // [n, cut_width]; empty at the non-label party.
};

// Numbers of the versions in `folder`, ascending; none where there is no such folder. Errors: Internal where it cannot
// be read.
absl::StatusOr<std::vector<int64_t>> ListVersions(const std::string& folder);

// Changes when a file of the version does: a number may be taken again once its version has been removed. As it is on
// the disk, not as it was opened.
std::string VersionStamp(const std::string& folder, int64_t number);
// The same of one file.
std::string FileStamp(const std::string& path);

// Reads all files once, for their digests. Errors: NotFound; InvalidArgument where one is damaged, of another version
// or of the other party.
absl::StatusOr<StoredVersion> OpenVersion(const std::string& folder, int64_t number,
                                          const std::string& role = "label_party");

// Writes the next version: whole or not at all, for its owner alone. One at a time in a folder. Not thread-safe.
class VersionWriter {
 public:
  // `header`: role, run_id, checkpoint, alignment, cut_width; its width is 0 where nothing is to be appended. `rows`:
  // of each shared example. Makes the folder where it is missing, and removes what a killed process left of a version.
  // Errors: FailedPrecondition while another process writes a version there; InvalidArgument where the files cannot be
  // made or linked.
  static absl::StatusOr<std::unique_ptr<VersionWriter>> Create(const std::string& folder, v1::VersionHeader header,
                                                               const std::string& checkpoint_path, const Dataset& data,
                                                               absl::Span<const uint32_t> rows);
  ~VersionWriter();
  VersionWriter(const VersionWriter&) = delete;
  VersionWriter& operator=(const VersionWriter&) = delete;

  // The activations of the next rows. Without a width none are to come. Errors: Internal where they cannot be written.
  absl::Status Append(ConstMatrixView activations);
  int64_t rows() const { return rows_; }  // So far.
  // Makes the version durable and gives it its number, which is returned. Once all rows are there. `scores`: where they
  // are not known, those of the latest version in the folder with the same checkpoint.
  absl::StatusOr<int64_t> Publish(const v1::ScoreCounts& scores = {});

 private:
  VersionWriter(std::string folder, int lock) : folder_(std::move(folder)), lock_(lock) {}
  absl::Status Begin(v1::VersionHeader header, const std::string& checkpoint_path, const Dataset& data,
                     absl::Span<const uint32_t> rows);
  // Empty where no version has any.
  std::string EarlierScores() const;

  const std::string folder_;
  const int lock_;  // The folder's descriptor, locked.
  std::unique_ptr<SectionFileWriter> file_;
  std::string checkpoint_sha256_;
  int64_t rows_ = 0, expected_rows_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_STORED_VERSION_H_
