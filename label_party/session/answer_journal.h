// Which activations were answered, on the disk: what may be asked again after a crash.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_ANSWER_JOURNAL_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_ANSWER_JOURNAL_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/sha256.h"

namespace splitveil {

// A run that is continued from a checkpoint repeats the steps after it. The same activations get the same bytes
// (label_party/protection/noise_key.h); other ones would get another draw of noise, and a peer that makes a run break
// off again and again could average. So each step's activations are written down before its answer leaves, and a step
// that was answered is never answered for others (architecture rule 2).
//
// A file of 44 bytes per step: epoch and batch (u32, little-endian), SHA-256 of the activations as they came, u32
// flags. It is written to before each answer and not synced: it survives the process, not the loss of power, which no
// peer can cause. Not thread-safe.
class AnswerJournal {
 public:
  // Beside the checkpoint of this path.
  static std::string PathOf(const std::string& checkpoint_path);

  // Of a run that begins: replaces what is there. Errors: NotFound, InvalidArgument where the file cannot be made.
  static absl::StatusOr<std::unique_ptr<AnswerJournal>> Begin(const std::string& path);
  // Of one that goes on at batch (epoch, batch). What a crash has left of a last record is cut off. Errors: as Begin;
  // NotFound, too, where there is none: then nothing says what was answered, and the run cannot go on.
  static absl::StatusOr<std::unique_ptr<AnswerJournal>> Continue(const std::string& path, uint32_t epoch,
                                                                 uint32_t batch);

  // Before batch (epoch, batch) is answered: that it was not answered for other activations; writes it down.
  // `scores_answered`: the attack module's scores of it will be answered, too. Errors: AlreadyExists where it was
  // answered for others; Internal where it cannot be written.
  absl::Status Answer(uint32_t epoch, uint32_t batch, const Digest& activations, bool scores_answered);
  // Whether the scores of this batch were, or may have been, answered before the run went on.
  bool ScoresAnswered(uint32_t epoch, uint32_t batch) const;

 private:
  struct Entry {
    Digest activations;
    bool scores_answered = false;
  };
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Closer>;
  AnswerJournal(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  // `flags`: of open(2), besides those that every journal has.
  static absl::StatusOr<std::unique_ptr<AnswerJournal>> Open(const std::string& path, int flags);
  // Errors: Internal where it cannot be read.
  absl::Status ReadFrom(uint32_t epoch, uint32_t batch);

  const std::string path_;
  const File file_;
  // What was answered before the run went on and is to be repeated, by epoch and batch.
  std::map<std::pair<uint32_t, uint32_t>, Entry> before_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_ANSWER_JOURNAL_H_
