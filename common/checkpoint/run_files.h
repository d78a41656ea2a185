// The files that a run keeps beside its party's checkpoints, and the one with its aligned rows.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_RUN_FILES_H_
#define SPLITVEIL_COMMON_CHECKPOINT_RUN_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/storage/section_file.h"

namespace splitveil {

// "PATH.KIND.DIGITS": the file of this kind of run `run_id`, beside the checkpoints at `checkpoint_path`.
std::string RunFilePath(absl::string_view checkpoint_path, absl::string_view kind, absl::string_view run_id);
// All of this kind there, of whatever run. Errors: Internal if the folder cannot be read.
absl::StatusOr<std::vector<std::string>> RunFiles(const std::string& checkpoint_path, absl::string_view kind);
// Of these, removes those of all runs but `run_ids`. One that cannot be removed stays.
void RemoveOtherRunFiles(const std::string& checkpoint_path, absl::string_view kind,
                         const std::vector<std::string>& run_ids);

// The kind of the file with a run's aligned rows: written once, and named by each of its checkpoints, which would else
// hold 4 bytes an example each. It reveals which rows are shared, to its owner alone.
inline constexpr char kAlignedRows[] = "rows";

// What a checkpoint says of that file.
Digest RowsSha256(absl::Span<const uint32_t> rows);
// Replaces the file. Errors: see WriteSectionFile.
absl::Status WriteAlignedRows(const std::string& path, absl::Span<const uint32_t> rows);
// Errors: InvalidArgument if the file is not there, is damaged, or has other rows than those of `sha256`.
absl::StatusOr<std::vector<uint32_t>> ReadAlignedRows(const std::string& path, absl::string_view sha256);

// The section of rows, as a file with an alignment has it, and a copy of it. Errors: InvalidArgument without one.
NamedSection RowsSection(absl::Span<const uint32_t> rows);
absl::StatusOr<std::vector<uint32_t>> RowsOf(const SectionFile& file);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_RUN_FILES_H_
