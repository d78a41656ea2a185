// A party's half of a model between two steps, as a file to resume from.
//
// A section file (common/storage/section_file.h): section "header" is a CheckpointHeader, section "state/NAME" the
// float32 values of each named parameter, the optimiser's among them, "kept/NAME" those of an earlier epoch that the
// run keeps so far (kept_model.h), section "progress" what the run has gathered beside the model (progress_archive.h),
// as its party knows it.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_H_
#define SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/model/parameters.h"
#include "common/storage/section_file.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// A checkpoint on disk, mapped into memory. Thread-safe.
class Checkpoint {
 public:
  // Reads the whole file once to check its digest; with kStructure the header alone. Errors: NotFound; InvalidArgument
  // where it is no checkpoint, is damaged, or its sections are not those of its header.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                                          SectionFile::Check check = SectionFile::Check::kDigest);

  // Writes `path`, replacing what had the name: whole or not at all, readable by its owner alone, for weights tell of
  // what they were trained on. `header`: all but version, sections and kept, which are filled in. Errors:
  // InvalidArgument where the file cannot be made; Internal where it cannot be written, or a value is not finite.
  static absl::Status Write(const std::string& path, v1::CheckpointHeader header, const NamedParameters& state,
                            absl::string_view progress, const NamedParameters& kept = {});

  const v1::CheckpointHeader& header() const { return header_; }
  const std::string& path() const { return file_->path(); }
  // "RUN_ID/EPOCHS", within an epoch "RUN_ID/EPOCHS+BATCHES": as OpenRequest carries it.
  std::string name() const;
  // A copy of the values. Errors: InvalidArgument for a value that is not finite.
  absl::StatusOr<NamedParameters> State() const { return Copied(kState); }
  // The same of what the run keeps, where that is not its state.
  absl::StatusOr<NamedParameters> Kept() const { return Copied(kKept); }
  // Borrowed.
  absl::string_view progress() const { return progress_; }

 private:
  enum Part { kState, kKept };

  Checkpoint(std::unique_ptr<SectionFile> file, v1::CheckpointHeader header, absl::string_view progress);
  absl::StatusOr<NamedParameters> Copied(Part part) const;

  std::unique_ptr<SectionFile> file_;
  v1::CheckpointHeader header_;
  absl::string_view progress_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_H_
