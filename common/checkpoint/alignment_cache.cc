#include "common/checkpoint/alignment_cache.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/checkpoint/run_files.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/storage/section_file.h"
#include "common/telemetry/log.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {
namespace {

constexpr char kHeader[] = "cached alignment";

// The peer and the agreement decide which rows are shared, so all three enter.
Digest BindingOf(const Dataset& data, const Digest& identities, const v1::RunAgreement& agreement) {
  return Sha256(absl::StrCat(AsBytes(data.digest()), AsBytes(identities),
                             agreement.alignment().SerializeAsString()));  // No maps: one serialisation only.
}

absl::Status NotKept(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": it is not a cached alignment, or is damaged"));
}

struct Kept {
  v1::AlignmentCache header;
  AlignedIds aligned;
};

// NotFound where what is kept is of something else: its rows are then not those of `data`.
absl::StatusOr<Kept> Read(const std::string& path, const Dataset& data, const Digest& binding) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SectionFile> file,
                             SectionFile::Open(path, SectionFile::Check::kDigest));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::string_view header, file->section(kHeader));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<uint32_t> rows, RowsOf(*file));
  Kept kept;
  if (!kept.header.ParseFromArray(header.data(), static_cast<int>(header.size())) ||
      kept.header.order_sha256().size() != sizeof(Digest)) {
    return NotKept(path);
  }
  // Bound to data, peer and terms: rows of other data would align the wrong examples.
  if (kept.header.binding_sha256() != AsBytes(binding)) {
    return absl::NotFoundError(absl::StrCat(path, ": it is for different data, a different peer or different terms"));
  }
  std::memcpy(kept.aligned.order_sha256.data(), kept.header.order_sha256().data(), sizeof(Digest));
  kept.aligned.peer_ids = kept.header.peer_ids();
  kept.aligned.rows = std::move(rows);
  return AreDistinctRows(kept.aligned.rows, data.rows()) ? absl::StatusOr<Kept>(std::move(kept)) : NotKept(path);
}

}  // namespace

bool AreDistinctRows(absl::Span<const uint32_t> rows, int64_t of) {
  std::vector<bool> seen(static_cast<size_t>(of), false);
  for (const uint32_t row : rows) {
    // A row out of range would be read past the data; a row twice would be trained on, and released, twice.
    if (row >= of || seen[row]) {
      return false;
    }
    seen[row] = true;
  }
  return true;
}

AlignmentStore::AlignmentStore(std::string path, absl::Duration max_age, const Digest& identities)
    : path_(std::move(path)), max_age_(max_age), identities_(identities) {}

std::optional<AlignmentStore::Found> AlignmentStore::Find(const Dataset& data,
                                                          const v1::RunAgreement& agreement) const {
  return Find(data, agreement, absl::Now());
}

absl::Status AlignmentStore::Keep(const AlignedIds& aligned, const Dataset& data,
                                  const v1::RunAgreement& agreement) const {
  return Keep(aligned, data, agreement, absl::Now());
}

std::optional<AlignmentStore::Found> AlignmentStore::Find(const Dataset& data, const v1::RunAgreement& agreement,
                                                          absl::Time now) const {
  // Without a path nothing is kept, and every run aligns.
  if (path_.empty()) {
    return std::nullopt;
  }
  absl::StatusOr<Kept> kept = Read(path_, data, BindingOf(data, identities_, agreement));
  if (!kept.ok()) {
    // A damaged cache costs one alignment, not the run.
    if (!absl::IsNotFound(kept.status())) {
      LogWarning(kept.status().message(), "; this file is ignored");
    }
    return std::nullopt;
  }
  // A time in the future means a changed clock: its age is unknown, so it is too old.
  const absl::Duration age = now - absl::FromUnixSeconds(kept->header.unix_seconds());
  if (age < absl::ZeroDuration() || age > max_age_) {
    return std::nullopt;
  }
  std::string name = AlignmentName(kept->aligned);
  return Found{std::move(name), std::move(kept->aligned), age};
}

absl::Status AlignmentStore::Keep(const AlignedIds& aligned, const Dataset& data, const v1::RunAgreement& agreement,
                                  absl::Time now) const {
  if (path_.empty()) {
    return absl::OkStatus();
  }
  v1::AlignmentCache header;
  header.set_binding_sha256(std::string(AsBytes(BindingOf(data, identities_, agreement))));
  header.set_unix_seconds(absl::ToUnixSeconds(now));
  header.set_order_sha256(std::string(AsBytes(aligned.order_sha256)));
  header.set_peer_ids(aligned.peer_ids);
  return WriteSectionFile(path_, {{kHeader, header.SerializeAsString()}, RowsSection(aligned.rows)});
}

std::string AlignmentName(const AlignedIds& aligned) {
  // A hash of the order's digest, so that offering a name does not reveal the digest itself.
  const Digest digest = Sha256(absl::StrCat("splitveil cached alignment", AsBytes(aligned.order_sha256)));
  return absl::BytesToHexString(AsBytes(digest).substr(0, 16));
}

}  // namespace splitveil
