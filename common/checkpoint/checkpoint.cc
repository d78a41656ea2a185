#include "common/checkpoint/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian hosts need byte swaps in checkpoint.cc");

constexpr char kHeader[] = "header";
constexpr char kProgress[] = "progress";
constexpr char kStatePrefix[] = "state/";
constexpr char kKeptPrefix[] = "kept/";

using ListedSections = google::protobuf::RepeatedPtrField<v1::CheckpointHeader::Section>;

absl::Status NoCheckpoint(const std::string& path, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected a checkpoint of a party, found ", found));
}

// A diverged model would resume as if nothing were wrong and fail steps later.
// Checked when written and when read: the file may have been edited in between.
bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// Sections as the header has them, of the sizes it says.
absl::Status CheckSections(const SectionFile& file, const char* prefix, const ListedSections& listed) {
  for (const v1::CheckpointHeader::Section& section : listed) {
    SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view bytes, file.section(absl::StrCat(prefix, section.name())));
    if (bytes.size() % sizeof(float) != 0 || bytes.size() / sizeof(float) != section.values()) {
      return NoCheckpoint(file.path(), absl::StrCat("a section of another size than its header says"));
    }
  }
  return absl::OkStatus();
}

// Lists them in the header, too. `sections` borrows the values.
absl::Status AddSections(const std::string& path, const char* prefix, const NamedParameters& parameters,
                         std::vector<NamedSection>& sections, ListedSections& listed) {
  listed.Clear();
  for (const auto& [name, values] : parameters) {
    if (!AllFinite(values)) {  // Not to be read again, in place of one that can.
      return absl::InternalError(
          absl::StrCat(path, ": expected finite numbers in ", name, ": the training has diverged"));
    }
    v1::CheckpointHeader::Section& section = *listed.Add();
    section.set_name(name);
    section.set_values(values.size());
    sections.emplace_back(absl::StrCat(prefix, name), absl::string_view(reinterpret_cast<const char*>(values.data()),
                                                                        values.size() * sizeof(float)));
  }
  return absl::OkStatus();
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<SectionFile> file, v1::CheckpointHeader header, absl::string_view progress)
    : file_(std::move(file)), header_(std::move(header)), progress_(progress) {}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path, SectionFile::Check check) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SectionFile> file, SectionFile::Open(path, check));
  const absl::StatusOr<absl::string_view> bytes = file->section(kHeader);
  v1::CheckpointHeader header;
  if (!bytes.ok() || !header.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
    return NoCheckpoint(path, "a file without its header");
  }
  // An empty message parses, too.
  if (header.run_id().empty()) {
    return NoCheckpoint(path, "a header without a run");
  }
  // Sizes are checked once here, so that Copied can copy without a further check.
  SPLITVEIL_RETURN_IF_ERROR(CheckSections(*file, kStatePrefix, header.sections()));
  SPLITVEIL_RETURN_IF_ERROR(CheckSections(*file, kKeptPrefix, header.kept()));
  const absl::StatusOr<absl::string_view> progress = file->section(kProgress);
  if (!progress.ok()) {
    return NoCheckpoint(path, "a file without the run's progress");
  }
  return std::unique_ptr<Checkpoint>(new Checkpoint(std::move(file), std::move(header), *progress));
}

absl::Status Checkpoint::Write(const std::string& path, v1::CheckpointHeader header, const NamedParameters& state,
                               absl::string_view progress, const NamedParameters& kept) {
  // Overwritten whatever the caller passed: it names the program that wrote this file.
  header.set_version(Version());
  std::vector<NamedSection> sections(2);
  SPLITVEIL_RETURN_IF_ERROR(AddSections(path, kStatePrefix, state, sections, *header.mutable_sections()));
  SPLITVEIL_RETURN_IF_ERROR(AddSections(path, kKeptPrefix, kept, sections, *header.mutable_kept()));
  // After the sections are listed in it.
  const std::string header_bytes = header.SerializeAsString();
  sections[0] = {kHeader, header_bytes};
  sections[1] = {kProgress, progress};
  return WriteSectionFile(path, sections);
}

std::string Checkpoint::name() const {
  return absl::StrCat(header_.run_id(), "/", header_.epochs(),
                      header_.batches() > 0 ? absl::StrCat("+", header_.batches()) : "");
}

absl::StatusOr<NamedParameters> Checkpoint::Copied(Part part) const {
  NamedParameters state;
  for (const v1::CheckpointHeader::Section& section : part == kState ? header_.sections() : header_.kept()) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        const absl::string_view bytes,
        file_->section(absl::StrCat(part == kState ? kStatePrefix : kKeptPrefix, section.name())));
    std::vector<float> values(section.values());
    if (!values.empty()) {  // Else there is no memory to point to.
      std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    if (!AllFinite(values)) {
      return NoCheckpoint(path(), absl::StrCat("a value that is not finite in ", section.name()));
    }
    state.emplace_back(section.name(), std::move(values));
  }
  // A model is copied once at the start; its mapped pages are not needed again during the run.
  file_->ReleaseMemory();
  return state;
}

}  // namespace splitveil
