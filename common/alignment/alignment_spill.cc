#include "common/alignment/alignment_spill.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

using Header = v1::AlignmentSpillHeader;

constexpr absl::string_view kMagic = "SVSPILL1";
constexpr uint64_t kSlotBytes = 4096;
constexpr uint64_t kSlotPrefix = sizeof(Digest) + sizeof(uint64_t) + sizeof(uint32_t);
constexpr uint64_t kHeaderBytes = 3 * kSlotBytes;

absl::Status Damaged(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat("party.spill_path: ", path,
                                                 ": it is not an interrupted alignment, or is damaged: remove it, or "
                                                 "choose a different path"));
}

bool WriteAt(int file, uint64_t offset, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
    offset += static_cast<uint64_t>(written);
  }
  return true;
}

bool ReadAt(int file, uint64_t offset, absl::Span<char> bytes) {
  while (!bytes.empty()) {
    const ssize_t read = pread(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (read < 0 && errno == EINTR) {
      continue;
    }
    if (read <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(read));
    offset += static_cast<uint64_t>(read);
  }
  return true;
}

// The header in a slot, with its sequence; nothing if it is not whole.
std::optional<std::pair<uint64_t, Header>> ReadSlot(int file, int slot) {
  std::string bytes(kSlotBytes, '\0');
  Digest digest;
  uint64_t sequence = 0;
  uint32_t length = 0;
  Header header;
  std::optional<std::pair<uint64_t, Header>> read;
  if (ReadAt(file, (1 + slot) * kSlotBytes, absl::MakeSpan(bytes))) {
    std::memcpy(digest.data(), bytes.data(), sizeof(digest));
    std::memcpy(&sequence, bytes.data() + sizeof(digest), sizeof(sequence));
    std::memcpy(&length, bytes.data() + sizeof(digest) + sizeof(sequence), sizeof(length));
    if (length <= kSlotBytes - kSlotPrefix &&
        Sha256(absl::string_view(bytes).substr(sizeof(digest), kSlotPrefix - sizeof(digest) + length)) == digest &&
        header.ParseFromArray(bytes.data() + kSlotPrefix, static_cast<int>(length))) {
      read = std::pair(sequence, std::move(header));
    }
  }
  sodium_memzero(bytes.data(), bytes.size());
  return read;
}

template <size_t kSize>
bool CopyTo(const std::string& bytes, std::array<uint8_t, kSize>& out) {
  std::copy_n(bytes.begin(), std::min(bytes.size(), kSize), out.begin());
  return bytes.size() == kSize;
}

// Whether a header that was written whole makes sense beside `terms`, as far as its numbers are used as such.
bool IsUsable(const Header& header, const Buckets& buckets) {
  const auto fits = [&](const Header::Bucket& bucket) {
    return bucket.number() <= buckets.count && bucket.shared_rows() <= header.own_ids() &&
           (bucket.number() == 0 || bucket.order_sha256().size() == sizeof(Digest));
  };
  return header.buckets_size() >= 1 && header.buckets_size() <= 2 && header.masked_buckets() <= buckets.count &&
         std::all_of(header.buckets().begin(), header.buckets().end(), fits) &&
         (header.buckets_size() == 1 || header.buckets(0).number() + 1 == header.buckets(1).number());
}

// An open and locked file for its owner alone; -1 if there is none and `make` is false. InvalidArgument if a file of
// another kind has the name: a mistyped path must not cost a checkpoint or a key.
absl::StatusOr<int> OpenLocked(const std::string& path, bool make) {
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (make ? O_CREAT : 0), kOwnerOnly);
  if (file < 0 && !make && errno == ENOENT) {
    return -1;
  }
  absl::Status status;
  std::array<char, kMagic.size()> magic = {};
  struct stat facts = {};
  if (file < 0 || fstat(file, &facts) != 0) {
    status = absl::InvalidArgumentError(
        absl::StrCat("party.spill_path: ", path, ": it cannot be written: ", std::strerror(errno)));
  } else if (!S_ISREG(facts.st_mode)) {
    status = absl::InvalidArgumentError(absl::StrCat("party.spill_path: ", path, ": it is not a file"));
  } else if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    status = absl::FailedPreconditionError(
        absl::StrCat("party.spill_path: ", path, ": another process aligns with this file: wait until it ends"));
  } else if (facts.st_size > 0 &&
             (!ReadAt(file, 0, absl::MakeSpan(magic)) || absl::string_view(magic.data(), magic.size()) != kMagic)) {
    status = Damaged(path);
  } else if (fchmod(file, kOwnerOnly) != 0) {
    status = absl::InternalError(absl::StrCat("party.spill_path: ", path, ": ", std::strerror(errno)));
  } else {
    return file;
  }
  if (file >= 0) {
    close(file);
  }
  return status;
}

}  // namespace

AlignmentSpill::AlignmentSpill(std::string path, int file, AlignmentTerms terms, AlignmentSecret secret)
    : path_(std::move(path)),
      file_(file),
      terms_(std::move(terms)),
      secret_(std::move(secret)),
      buckets_(SplitIntoBuckets(terms_.own_ids, terms_.peer_ids, terms_.bucket_ids)),
      own_chunks_(MaskedChunks(buckets_.own_capacity, terms_.chunk_ids)) {
  // To grow would take twice the memory for a while; what is reserved takes none until it is written.
  shared_rows_.reserve(std::min(terms_.own_ids, terms_.peer_ids));
}

AlignmentSpill::~AlignmentSpill() {
  if (mapped_ != nullptr) {
    const uint64_t bytes = FileOffsetOfSharedRows();
    if (file_ >= 0) {
      ForgetMappedFile({reinterpret_cast<const char*>(mapped_), bytes});
    }
    munmap(mapped_, bytes);
  }
  if (file_ >= 0) {
    close(file_);
  }
  sodium_memzero(header_.mutable_secret()->data(), header_.secret().size());
}

absl::StatusOr<std::unique_ptr<AlignmentSpill>> AlignmentSpill::Create(const std::string& path,
                                                                       const AlignmentTerms& terms) {
  int file = -1;
  if (!path.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(file, OpenLocked(path, /*make=*/true));
  }
  std::unique_ptr<AlignmentSpill> spill(new AlignmentSpill(path, file, terms, AlignmentSecret()));
  Header& header = spill->header_;
  header.set_binding_sha256(std::string(AsBytes(terms.binding)));
  header.set_run_id(terms.run_id);
  header.set_secret(std::string(AsBytes(spill->secret_.key().bytes())));
  header.set_bucket_key(std::string(AsBytes(terms.bucket_key)));
  header.set_own_ids(terms.own_ids);
  header.set_peer_ids(terms.peer_ids);
  header.add_buckets();
  if (absl::Status status = spill->Allocate(); !status.ok()) {
    spill->Remove();
    return status;
  }
  SPLITVEIL_RETURN_IF_ERROR(spill->Map());
  return spill;
}

absl::StatusOr<std::unique_ptr<AlignmentSpill>> AlignmentSpill::Open(const std::string& path,
                                                                     const AlignmentTerms& terms) {
  SPLITVEIL_ASSIGN_OR_RETURN(const int file, OpenLocked(path, /*make=*/false));
  if (file < 0) {
    return nullptr;
  }
  std::optional<std::pair<uint64_t, Header>> latest = ReadSlot(file, 0), other = ReadSlot(file, 1);
  if (!latest.has_value() || (other.has_value() && other->first > latest->first)) {
    std::swap(latest, other);
  }
  if (other.has_value()) {
    sodium_memzero(other->second.mutable_secret()->data(), other->second.secret().size());
  }
  // Killed before it was of use.
  if (!latest.has_value()) {
    close(file);
    return nullptr;
  }
  Header& header = latest->second;
  AlignmentTerms found = terms;
  found.run_id = header.run_id();
  found.own_ids = header.own_ids();
  found.peer_ids = header.peer_ids();
  std::array<uint8_t, 32> secret;
  const bool whole = CopyTo(header.binding_sha256(), found.binding) && CopyTo(header.bucket_key(), found.bucket_key) &&
                     CopyTo(header.secret(), secret);
  std::unique_ptr<AlignmentSpill> spill(
      new AlignmentSpill(path, file, std::move(found), AlignmentSecret(SecretKey(secret))));
  sodium_memzero(secret.data(), secret.size());
  if (spill->terms_.binding != terms.binding) {
    return absl::InvalidArgumentError(absl::StrCat(
        "party.spill_path: ", path,
        ": it holds an interrupted alignment of different ids, with a different certificate "
        "or under a different agreement: restore these, or remove the file, and both parties align from the start"));
  }
  if (!whole || !IsUsable(header, spill->buckets_)) {
    return Damaged(path);
  }
  spill->sequence_ = latest->first;
  spill->header_.Swap(&header);
  SPLITVEIL_RETURN_IF_ERROR(spill->ReadSharedRows());
  SPLITVEIL_RETURN_IF_ERROR(spill->Map());
  return spill;
}

uint64_t AlignmentSpill::Bytes(uint64_t own_ids, uint64_t buckets, uint64_t chunk_ids) {
  const PointChunks chunks = MaskedChunks(BucketCapacity(own_ids, buckets), chunk_ids);
  return kHeaderBytes +
         buckets * (chunks.points * (sizeof(Point) + sizeof(uint32_t)) + chunks.count() * sizeof(Digest));
}

void AlignmentSpill::Remove() {
  if (file_ < 0) {
    return;
  }
  // Not the magic: a process that is killed before it removes the name leaves a file that the next one may replace.
  const std::string zeros(kHeaderBytes - kSlotBytes, '\0');
  if (!WriteAt(file_, kSlotBytes, zeros) || fdatasync(file_) != 0) {
    // A disk that takes no more bytes: without its name the file is gone in any case.
  }
  unlink(path_.c_str());
}

uint64_t AlignmentSpill::FileOffsetOfSharedRows() const {
  return Bytes(terms_.own_ids, buckets_.count, terms_.chunk_ids);
}

absl::Status AlignmentSpill::Failed(const char* what) const {
  return absl::InternalError(absl::StrCat("party.spill_path: ", path_, ": cannot ", what, ": ", std::strerror(errno)));
}

absl::Status AlignmentSpill::Allocate() {
  if (file_ < 0) {
    return absl::OkStatus();
  }
  if (ftruncate(file_, 0) != 0 || !WriteAt(file_, 0, kMagic)) {
    return Failed("write");
  }
  // Now, not when a page of the mapped file finds no room, which would end the process.
  if (const int error = posix_fallocate(file_, 0, static_cast<off_t>(FileOffsetOfSharedRows())); error != 0) {
    errno = error;
    return Failed(absl::StrCat("take ", FileOffsetOfSharedRows() / 1'000'000, " MB").c_str());
  }
  return SyncFolderOf(path_);
}

absl::Status AlignmentSpill::Map() {
  const uint64_t bytes = FileOffsetOfSharedRows();
  struct stat facts = {};
  if (file_ >= 0 && (fstat(file_, &facts) != 0 || static_cast<uint64_t>(facts.st_size) < bytes)) {
    return Damaged(path_);
  }
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, file_ < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file_, 0);
  if (mapped == MAP_FAILED) {
    return file_ < 0 ? absl::InternalError(absl::StrCat("alignment: out of memory: ", std::strerror(errno)))
                     : Failed("map");
  }
  mapped_ = static_cast<uint8_t*>(mapped);
  if (file_ >= 0) {
    NoteMappedFile({reinterpret_cast<const char*>(mapped_), bytes}, path_);
  }
  return absl::OkStatus();
}

absl::Span<Point> AlignmentSpill::Masked(uint64_t bucket) {
  return {reinterpret_cast<Point*>(mapped_ + kHeaderBytes) + bucket * own_chunks_.points, own_chunks_.points};
}

absl::Span<Digest> AlignmentSpill::Commitments(uint64_t bucket) {
  auto* const commitments = reinterpret_cast<Digest*>(Masked(buckets_.count).data());
  return {commitments + bucket * own_chunks_.count(), own_chunks_.count()};
}

absl::Span<uint32_t> AlignmentSpill::Items(uint64_t bucket) {
  auto* const items = reinterpret_cast<uint32_t*>(Commitments(buckets_.count).data());
  return {items + bucket * own_chunks_.points, own_chunks_.points};
}

absl::Status AlignmentSpill::ReadSharedRows() {
  shared_rows_.resize(latest().shared_rows());
  const absl::Span<char> bytes(reinterpret_cast<char*>(shared_rows_.data()), shared_rows_.size() * sizeof(uint32_t));
  if (!ReadAt(file_, FileOffsetOfSharedRows(), bytes) ||
      std::any_of(shared_rows_.begin(), shared_rows_.end(), [&](uint32_t row) { return row >= terms_.own_ids; })) {
    return Damaged(path_);
  }
  return absl::OkStatus();
}

absl::Status AlignmentSpill::SaveHeader() {
  if (file_ < 0) {
    return absl::OkStatus();
  }
  ++sequence_;
  std::string slot(kSlotPrefix, '\0');
  header_.AppendToString(&slot);
  const auto length = static_cast<uint32_t>(slot.size() - kSlotPrefix);
  std::memcpy(slot.data() + sizeof(Digest), &sequence_, sizeof(sequence_));
  std::memcpy(slot.data() + sizeof(Digest) + sizeof(sequence_), &length, sizeof(length));
  const Digest digest = Sha256(absl::string_view(slot).substr(sizeof(Digest)));
  std::memcpy(slot.data(), digest.data(), sizeof(digest));
  // The points first: a header must not promise what a power cut takes away.
  const bool saved = slot.size() <= kSlotBytes && fdatasync(file_) == 0 &&
                     WriteAt(file_, (1 + sequence_ % 2) * kSlotBytes, slot) && fdatasync(file_) == 0;
  sodium_memzero(slot.data(), slot.size());
  return saved ? absl::OkStatus() : Failed("write");
}

absl::Status AlignmentSpill::SaveMasked(uint64_t masked_buckets) {
  header_.set_masked_buckets(masked_buckets);
  return SaveHeader();
}

absl::Status AlignmentSpill::HoldPeerTo(PointKind kind, const Digest& sha256) {
  std::string& held = kind == PointKind::kMasked ? *header_.mutable_peer_commitments_sha256()
                                                 : *header_.mutable_buckets()->rbegin()->mutable_peer_answers_sha256();
  if (held.empty()) {
    held = std::string(AsBytes(sha256));
    return SaveHeader();
  }
  return held == AsBytes(sha256)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(
                   absl::StrCat(kind == PointKind::kMasked ? "masked" : "double_masked",
                                "_commitment: the peer is committed to other points than before the interruption"));
}

absl::Status AlignmentSpill::FinishBucket(absl::Span<const uint32_t> rows, const Digest& values_sha256) {
  const absl::string_view bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(uint32_t));
  if (file_ >= 0 && !WriteAt(file_, FileOffsetOfSharedRows() + shared_rows_.size() * sizeof(uint32_t), bytes)) {
    return Failed("write");
  }
  shared_rows_.insert(shared_rows_.end(), rows.begin(), rows.end());
  const Header::Bucket finished = latest();
  Header::Bucket next;
  next.set_number(finished.number() + 1);
  next.set_shared_rows(shared_rows_.size());
  next.set_order_sha256(std::string(AsBytes(
      finished.number() == 0 ? values_sha256 : Sha256(absl::StrCat(finished.order_sha256(), AsBytes(values_sha256))))));
  header_.clear_buckets();
  *header_.add_buckets() = finished;
  *header_.add_buckets() = next;
  SPLITVEIL_RETURN_IF_ERROR(SaveHeader());
  // The peer has asked for this bucket, so it has finished the one before.
  if (file_ >= 0 && finished.number() > 0) {
    const uint64_t bucket_bytes = own_chunks_.points * sizeof(Point);
    // Only saves room on the disk: not every file system can.
    (void)fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(kHeaderBytes + (finished.number() - 1) * bucket_bytes),
                    static_cast<off_t>(bucket_bytes));
  }
  return absl::OkStatus();
}

absl::Status AlignmentSpill::GoBackTo(uint64_t bucket) {
  if (bucket != latest().number() && bucket != header_.buckets(0).number()) {
    return absl::FailedPreconditionError(absl::StrCat("set_size.resumes: expected next_bucket ",
                                                      header_.buckets(0).number(), " to ", latest().number(),
                                                      ", found ", bucket));
  }
  while (latest().number() != bucket) {
    header_.mutable_buckets()->RemoveLast();
  }
  shared_rows_.resize(latest().shared_rows());
  return absl::OkStatus();
}

Digest AlignmentSpill::order_sha256() const {
  Digest order = {};
  CopyTo(latest().order_sha256(), order);
  return order;
}

}  // namespace splitveil
