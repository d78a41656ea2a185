#include "common/checkpoint/release_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

#include "common/checkpoint/run_files.h"
#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"

namespace splitveil {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian hosts need byte swaps in release_journal.cc");

constexpr char kKind[] = "answered";

// What is not a number counts as unbounded.
// std::max would keep the old value against NaN, and the release would count as nothing.
double LargerOf(double largest, double sum_kl) {
  if (std::isnan(sum_kl)) {
    return std::numeric_limits<double>::infinity();
  }
  return std::max(largest, sum_kl);
}

absl::Status Failed(const std::string& path, const char* what) {
  return absl::InternalError(absl::StrCat(path, ": cannot be ", what, ": ", std::strerror(errno)));
}

// The run's digits, which the file's name ends with: a folder that was moved keeps them.
Digest RunOf(const std::string& path) { return Sha256(path.substr(path.rfind('.') + 1)); }

absl::Status OtherActivations(const std::string& of) {
  return absl::AlreadyExistsError(
      absl::StrCat("activations: they differ from those that ", of,
                   " was answered for before the run was interrupted: run the non-label party on what it ran on "
                   "(machine, threads, libraries), or set restart at both parties"));
}

}  // namespace

std::string ReleaseJournal::PathOf(const std::string& checkpoint_path, const std::string& run_id) {
  return RunFilePath(checkpoint_path, kKind, run_id);
}

absl::StatusOr<std::unique_ptr<ReleaseJournal>> ReleaseJournal::Open(const std::string& path, int flags) {
  // Nobody else's file, and not through a link: it decides whether noise is drawn again.
  // In place of fopen, which cannot refuse a link or create with mode 0600.
  const int descriptor = open(path.c_str(), O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (descriptor < 0) {
    const std::string what = absl::StrCat(path, ": cannot be opened: ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(what) : absl::InvalidArgumentError(what);
  }
  const bool is_read = (flags & O_ACCMODE) == O_RDONLY;
  // Two processes that answer the same run would draw and send twice.
  if (!is_read && flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat(path, ": another process is using this run's journal"));
  }
  File file(fdopen(descriptor, is_read ? "r" : "r+"));
  if (file == nullptr) {
    close(descriptor);
    return Failed(path, "opened");
  }
  return std::unique_ptr<ReleaseJournal>(new ReleaseJournal(path, std::move(file)));
}

absl::StatusOr<std::unique_ptr<ReleaseJournal>> ReleaseJournal::Begin(const std::string& path,
                                                                      const std::string& account,
                                                                      std::vector<std::string> replaced) {
  // O_EXCL: a journal that is there belongs to a run that has answered, and must not be overwritten.
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<ReleaseJournal> journal, Open(path, O_RDWR | O_CREAT | O_EXCL));
  journal->replaced_ = std::move(replaced);
  // The name, too, must survive a power failure.
  SPLITVEIL_RETURN_IF_ERROR(SyncFolderOf(path));
  SPLITVEIL_RETURN_IF_ERROR(journal->WriteWhose(account));
  return journal;
}

absl::StatusOr<std::unique_ptr<ReleaseJournal>> ReleaseJournal::Continue(const std::string& path,
                                                                         const std::string& account, uint32_t epoch,
                                                                         uint32_t batch) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<ReleaseJournal> journal, Open(path, O_RDWR));
  SPLITVEIL_RETURN_IF_ERROR(journal->ReadFrom(epoch, batch));
  SPLITVEIL_RETURN_IF_ERROR(journal->CheckRun());
  const Outline& outline = journal->outline_;
  // Under a different account, what this run released would be counted twice or not at all.
  if (!outline.empty && (account.empty() ? outline.account.has_value() : !outline.IsCountedBy(account))) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ": ", account.empty() ? "no privacy account is configured" : "a different privacy account is configured",
        ", unlike before the run was interrupted: restore the earlier one, or set restart at both parties"));
  }
  SPLITVEIL_RETURN_IF_ERROR(journal->GoToEnd());
  // A crash may have come before these.
  SPLITVEIL_RETURN_IF_ERROR(outline.empty ? journal->WriteWhose(account) : absl::OkStatus());
  // A number of its own: of records that are alike one is enough.
  const auto number = static_cast<uint32_t>(outline.records);
  SPLITVEIL_RETURN_IF_ERROR(journal->Write({Kind::kContinued, 0, number, 0, {}, 0}));
  return journal;
}

absl::StatusOr<std::vector<std::string>> ReleaseJournal::AllOf(const std::string& checkpoint_path) {
  return RunFiles(checkpoint_path, kKind);
}

void ReleaseJournal::RemoveOthers(const std::string& checkpoint_path, const std::vector<std::string>& run_ids) {
  RemoveOtherRunFiles(checkpoint_path, kKind, run_ids);  // A file that stays is read again and counts.
}

// Settled by a record in the file rather than by removing it: what was released stays readable.
absl::Status ReleaseJournal::Settle(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<ReleaseJournal> journal, Open(path, O_RDWR));
  // No batch is that late: only the outline is needed.
  SPLITVEIL_RETURN_IF_ERROR(journal->ReadFrom(std::numeric_limits<uint32_t>::max(), 0));
  SPLITVEIL_RETURN_IF_ERROR(journal->GoToEnd());
  return journal->Settle();
}

absl::StatusOr<ReleaseJournal::Outline> ReleaseJournal::Read(const std::string& path) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<ReleaseJournal> journal, Open(path, O_RDONLY));
  SPLITVEIL_RETURN_IF_ERROR(journal->ReadFrom(std::numeric_limits<uint32_t>::max(), 0));
  SPLITVEIL_RETURN_IF_ERROR(journal->CheckRun());
  return journal->outline_;
}

absl::Status ReleaseJournal::CheckRun() const {
  return outline_.records == 0 || outline_.run == RunOf(path_)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(absl::StrCat(
                   path_,
                   ": it says what another run has sent, not the one that it is named for: restore this run's "
                   "own, or set restart at both parties, which begins a new run"));
}

absl::Status ReleaseJournal::WriteWhose(const std::string& account) {
  SPLITVEIL_RETURN_IF_ERROR(outline_.run.has_value() ? absl::OkStatus()
                                                     : Write({Kind::kRun, 0, 0, 0, RunOf(path_), 0}));
  return account.empty() || outline_.IsCountedBy(account) ? absl::OkStatus()
                                                          : Write({Kind::kAccount, 0, 0, 0, Sha256(account), 0});
}

absl::Status ReleaseJournal::GoToEnd() {
  // A crash may have cut the last record short: it was not complete, so nothing was sent for it.
  const int64_t whole = outline_.records * static_cast<int64_t>(sizeof(Record));
  return ftruncate(fileno(file_.get()), static_cast<off_t>(whole)) == 0 && std::fseek(file_.get(), 0, SEEK_END) == 0
             ? absl::OkStatus()
             : Failed(path_, "written");
}

absl::Status ReleaseJournal::ReadFrom(uint32_t epoch, uint32_t batch) {
  static_assert(sizeof(Record) == 56, "the file's format");
  Record record;
  for (; std::fread(&record, sizeof(record), 1, file_.get()) == 1;) {
    // All records count for the sums; only those after the checkpoint bind what comes.
    Count(record);
    if (record.kind == Kind::kRaised) {
      raised_.push_back({{record.epoch, record.batch}, record.sum_kl});
      continue;  // There may be several of a batch.
    }
    if (record.kind == Kind::kLowered && !lowered_from_.has_value()) {
      lowered_from_ = {record.epoch, record.batch};
    }
    // An evaluation comes after all batches of its epoch.
    if (record.epoch > epoch || (record.epoch == epoch && (record.batch >= batch || record.kind == Kind::kEvaluated))) {
      before_[{record.kind, record.epoch, record.batch}] = record;
    }
  }
  return std::ferror(file_.get()) == 0 ? absl::OkStatus() : Failed(path_, "read");
}

const ReleaseJournal::Record* ReleaseJournal::Before(Kind kind, uint32_t epoch, uint32_t batch) const {
  const auto before = before_.find({kind, epoch, batch});
  return before == before_.end() ? nullptr : &before->second;
}

void ReleaseJournal::Count(const Record& record) {
  ++outline_.records;
  if (record.kind == Kind::kRun) {
    outline_.run = record.digest;
    return;
  }
  if (record.kind == Kind::kAccount) {
    outline_.account = record.digest;
    return;
  }
  if (record.kind == Kind::kSettled) {
    outline_.settled = true;
    return;
  }
  if (record.kind == Kind::kContinued) {
    return;
  }
  outline_.empty = false;
  // In a record of raised noise, sum_kl is a limit, not a release.
  if (record.kind != Kind::kRaised) {
    // The largest sum of any example so far, which the next run has to count.
    outline_.largest_sum_kl = LargerOf(outline_.largest_sum_kl, record.sum_kl);
  }
}

absl::Status ReleaseJournal::Write(const Record& record) {
  // A repeated step that agrees with its record needs no second one.
  if (Before(record.kind, record.epoch, record.batch) != nullptr) {
    return absl::OkStatus();
  }
  // Before Count, which ends the emptiness.
  const bool was_empty = empty();
  Count(record);
  if (std::fwrite(&record, sizeof(record), 1, file_.get()) != 1 || std::fflush(file_.get()) != 0) {
    return Failed(path_, "written");
  }
  // The first record is synced: from then on the file says that something was released. Later ones are with
  // checkpoints.
  if (!was_empty || empty()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(Sync());
  return SettleReplaced();
}

absl::Status ReleaseJournal::SettleReplaced() {
  for (const std::string& path : std::exchange(replaced_, {})) {
    SPLITVEIL_RETURN_IF_ERROR(Settle(path));
  }
  return absl::OkStatus();
}

absl::Status ReleaseJournal::Sync() {
  return fdatasync(fileno(file_.get())) == 0 ? absl::OkStatus() : Failed(path_, "made durable");
}

absl::Status ReleaseJournal::Settle() {
  if (outline_.settled) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(Write({Kind::kSettled, 0, 0, 0, {}, 0}));
  SPLITVEIL_RETURN_IF_ERROR(Sync());
  return SettleReplaced();  // Of a run that was complete without a record.
}

absl::Status ReleaseJournal::Take(uint32_t epoch, uint32_t batch, const Digest& activations) {
  // Recorded before the batch is decided on: a peer that sees no answer cannot try other activations for the same
  // labels.
  const Record* const before = Before(Kind::kTaken, epoch, batch);
  return before != nullptr && before->digest != activations
             ? OtherActivations(absl::StrCat("epoch ", epoch, " batch ", batch))
             : Write({Kind::kTaken, epoch, batch, 0, activations, 0});
}

absl::Status ReleaseJournal::Answer(uint32_t epoch, uint32_t batch, const Reply& reply) {
  // Only a digest of the answer is kept: enough to prove that it repeats, and nothing that would reveal a gradient.
  const Record* const before = Before(Kind::kAnswered, epoch, batch);
  return before != nullptr && before->digest != reply.bytes
             ? absl::InvalidArgumentError(absl::StrCat(
                   path_, ": the answer to epoch ", epoch, " batch ", batch,
                   " differs from the one that was sent before the run was interrupted: run this party on what it ran "
                   "on (machine, threads, libraries, noise key, protection and release policy), or set restart at both "
                   "parties"))
             : Write({Kind::kAnswered, epoch, batch, reply.scores_answered ? 1U : 0U, reply.bytes, reply.sum_kl});
}

bool ReleaseJournal::ScoresAnswered(uint32_t epoch, uint32_t batch) const {
  const Record* const before = Before(Kind::kAnswered, epoch, batch);
  return before != nullptr && before->scores_answered != 0;
}

absl::Status ReleaseJournal::Evaluate(uint32_t epoch, const Digest& activations) {
  const Record* const before = Before(Kind::kEvaluated, epoch, 0);
  return before != nullptr && before->digest != activations
             ? OtherActivations(absl::StrCat("the evaluation after epoch ", epoch))
             : Write({Kind::kEvaluated, epoch, 0, 0, activations, 0});
}

absl::Status ReleaseJournal::LowerDisclosure(uint32_t epoch, uint32_t batch) {
  // For good: a later request must not move the start.
  if (lowered_from_.has_value()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(Write({Kind::kLowered, epoch, batch, 0, {}, 0}));
  lowered_from_ = {epoch, batch};
  return absl::OkStatus();
}

// An operator's decision, to be made again at the same batch if the run is interrupted and resumed.
absl::Status ReleaseJournal::RaiseNoise(const RaisedNoise& raised) {
  SPLITVEIL_RETURN_IF_ERROR(Write({Kind::kRaised, raised.from.epoch, raised.from.batch, 0, {}, raised.max_sum_kl}));
  raised_.push_back(raised);
  return absl::OkStatus();
}

ReleaseJournal::Batch ReleaseJournal::FirstUnanswered(const Batch& next) const {
  // All answered batches are known from the ordered map; the next one is the first that may still be decided freely.
  const auto beyond = before_.lower_bound({Kind::kEvaluated, 0, 0});  // Kinds are in order: kAnswered comes before it.
  if (beyond == before_.begin()) {
    return next;
  }
  const auto& [kind, epoch, batch] = std::prev(beyond)->first;
  return kind != Kind::kAnswered || std::pair(epoch, batch) < std::pair(next.epoch, next.batch)
             ? next
             : Batch{epoch, batch + 1};
}

absl::Status ReleaseJournal::ReleaseUnprotected() {
  // Once is enough: infinity cannot grow.
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  return outline_.largest_sum_kl == kUnbounded ? absl::OkStatus()
                                               : Write({Kind::kUnprotected, 0, 0, 0, {}, kUnbounded});
}

}  // namespace splitveil
