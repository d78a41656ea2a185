#include "label_party/session/answer_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "big-endian hosts need byte swaps in answer_journal.cc");

struct Record {
  uint32_t epoch = 0, batch = 0;
  Digest activations;
  uint32_t scores_answered = 0;
};
static_assert(sizeof(Record) == 44, "the file's format");

absl::Status Failed(const std::string& path, const char* what) {
  return absl::InternalError(absl::StrCat(path, ": cannot be ", what, ": ", std::strerror(errno)));
}

}  // namespace

std::string AnswerJournal::PathOf(const std::string& checkpoint_path) {
  return checkpoint_path.empty() ? "" : checkpoint_path + ".answered";
}

absl::StatusOr<std::unique_ptr<AnswerJournal>> AnswerJournal::Open(const std::string& path, int flags) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (descriptor < 0) {
    const std::string what = absl::StrCat(path, ": cannot be opened: ", std::strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(what) : absl::InvalidArgumentError(what);
  }
  File file(fdopen(descriptor, "r+"));
  if (file == nullptr) {
    close(descriptor);
    return Failed(path, "opened");
  }
  return std::unique_ptr<AnswerJournal>(new AnswerJournal(path, std::move(file)));
}

absl::StatusOr<std::unique_ptr<AnswerJournal>> AnswerJournal::Begin(const std::string& path) {
  return Open(path, O_CREAT | O_TRUNC);
}

absl::StatusOr<std::unique_ptr<AnswerJournal>> AnswerJournal::Continue(const std::string& path, uint32_t epoch,
                                                                       uint32_t batch) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<AnswerJournal> journal, Open(path, 0));
  SPLITVEIL_RETURN_IF_ERROR(journal->ReadFrom(epoch, batch));
  return journal;
}

absl::Status AnswerJournal::ReadFrom(uint32_t epoch, uint32_t batch) {
  Record record;
  int64_t records = 0;
  for (; std::fread(&record, sizeof(record), 1, file_.get()) == 1; ++records) {
    if (std::pair(record.epoch, record.batch) < std::pair(epoch, batch)) {
      continue;
    }
    Entry& entry = before_[{record.epoch, record.batch}];
    entry.activations = record.activations;
    entry.scores_answered = entry.scores_answered || record.scores_answered != 0;
  }
  const auto whole = static_cast<off_t>(records * static_cast<int64_t>(sizeof(Record)));
  return std::ferror(file_.get()) == 0 && ftruncate(fileno(file_.get()), whole) == 0 &&
                 std::fseek(file_.get(), 0, SEEK_END) == 0
             ? absl::OkStatus()
             : Failed(path_, "read");
}

absl::Status AnswerJournal::Answer(uint32_t epoch, uint32_t batch, const Digest& activations, bool scores_answered) {
  const auto before = before_.find({epoch, batch});
  if (before != before_.end() && before->second.activations != activations) {
    return absl::AlreadyExistsError(
        absl::StrCat("activations: expected those that epoch ", epoch, " batch ", batch,
                     " was answered for before the run was broken off, found others: the non-label party must run on "
                     "what it ran on (machine, threads, libraries), or both begin anew (starts_anew)"));
  }
  const Record record = {epoch, batch, activations, scores_answered ? 1U : 0U};
  return std::fwrite(&record, sizeof(record), 1, file_.get()) == 1 && std::fflush(file_.get()) == 0
             ? absl::OkStatus()
             : Failed(path_, "written");
}

bool AnswerJournal::ScoresAnswered(uint32_t epoch, uint32_t batch) const {
  const auto before = before_.find({epoch, batch});
  return before != before_.end() && before->second.scores_answered;
}

}  // namespace splitveil
