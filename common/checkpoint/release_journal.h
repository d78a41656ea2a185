// What was sent to the peer, on the disk: what may be sent again after a crash. Told of the label party, which answers;
// of the non-label party, Take alone is used, with what it is about to send (activation_account.h).
#ifndef SPLITVEIL_COMMON_CHECKPOINT_RELEASE_JOURNAL_H_
#define SPLITVEIL_COMMON_CHECKPOINT_RELEASE_JOURNAL_H_

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/sha256.h"

namespace splitveil {

// A run that is continued from a checkpoint repeats the steps after it. The same activations get the same bytes
// (label_party/storage/noise_key.h); other ones would get another draw of noise, and a peer that makes a run break
// off again and again could average. So each step's activations are written down before anything is decided of them,
// and its answer before it is sent: a step that was begun is never taken for other activations, and one that was
// answered never gets other bytes, whatever the reason (architecture rule 2). So are the activations of an evaluation
// whose answer may say that training stops. Where the operator has lowered the disclosure level or raised the noise, so
// is the batch from which on: what left before is repeated as it was. The first record says whose run it is: the
// journal of another one, put in its place, would let this run send its own batches a second time. Where a privacy
// account counts the run, the next one says which.
//
// A journal that says that something was released blocks every other run with these checkpoints, whatever has
// become of the checkpoints themselves, until it is settled: the run is complete, or another one has begun that counts
// its releases or that the operator has allowed. A run whose journal is settled is not continued.
//
// A file for each run, beside its checkpoints; of 56 bytes per record, two records per step, little-endian: kind,
// epoch, batch and flags (u32 each), SHA-256 of what came or is sent, the largest divergence of all releases of one
// example so far (f64). What is known from an earlier part of the run is not written again. It is written to before
// each answer, so that it survives the process. On the disk, where it also survives the loss of power, are its name,
// its first record, which says that something was released, and, with each checkpoint, what came before it. What was
// answered since then a power cut may take: to wait for the disk at every step would cost milliseconds of each, and no
// peer can cause one. One process at a time may write to it. Not thread-safe, but for Sync.
class ReleaseJournal {
 public:
  // That of run `run_id`, whose checkpoints have this path: "PATH.answered." and 16 hexadecimal digits of the SHA-256
  // of its id.
  static std::string PathOf(const std::string& checkpoint_path, const std::string& run_id);

  // Of a run that begins. `account`: the id of the privacy account that counts it; empty: none does. `replaced`:
  // journals that this run makes up for. They are settled once this one has its first record, and so blocks new runs
  // itself: a run that ends before leaves them as they were. Errors: NotFound, InvalidArgument where the file cannot be
  // made, or is there already; Internal where its name cannot be made durable.
  static absl::StatusOr<std::unique_ptr<ReleaseJournal>> Begin(const std::string& path, const std::string& account,
                                                               std::vector<std::string> replaced = {});
  // Of one that goes on at batch (epoch, batch), which it notes. An incomplete last record, after a crash, is cut off.
  // Errors: as Begin; NotFound, too, where there is none: then nothing says what was answered, and the run cannot go
  // on; InvalidArgument, too, where another process writes to it, it is another run's, or another account, or none, has
  // counted what left.
  static absl::StatusOr<std::unique_ptr<ReleaseJournal>> Continue(const std::string& path, const std::string& account,
                                                                  uint32_t epoch, uint32_t batch);
  // The journals beside `checkpoint_path`, of whatever run. Errors: Internal where the folder cannot be read.
  static absl::StatusOr<std::vector<std::string>> AllOf(const std::string& checkpoint_path);
  // Of these, removes those of all runs but `run_ids`, of which no checkpoint is left. One that cannot be removed
  // stays.
  static void RemoveOthers(const std::string& checkpoint_path, const std::vector<std::string>& run_ids);
  // Marks the journal at `path` as settled, so that it no longer blocks new runs. Errors: as Continue.
  static absl::Status Settle(const std::string& path);

  struct Outline {
    bool empty = true;  // Nothing was begun, so that nothing was released.
    bool settled = false;
    double largest_sum_kl = 0;      // Of any answer.
    int64_t records = 0;            // Whole ones: an older copy has fewer. There is one each time the run goes on, too.
    std::optional<Digest> account;  // SHA-256 of its id; nullopt: none counts the run.
    std::optional<Digest> run;  // SHA-256 of what names it in PathOf; nullopt: a crash came before the first record.

    bool IsCountedBy(const std::string& id) const { return !id.empty() && account == Sha256(id); }
  };
  // Of the journal at `path`. Errors: NotFound where there is none; InvalidArgument, Internal where it cannot be read;
  // InvalidArgument where it is another run's.
  static absl::StatusOr<Outline> Read(const std::string& path);

  // As Outline.empty and Outline.records, of this run.
  bool empty() const { return outline_.empty; }
  int64_t records() const { return outline_.records; }
  // See above. Errors: Internal where it cannot be written.
  absl::Status Settle();

  // All of batch (epoch, batch) has come: that it did not come with other activations before. Errors: AlreadyExists
  // where it did; Internal where it cannot be written.
  absl::Status Take(uint32_t epoch, uint32_t batch, const Digest& activations);

  struct Batch {
    uint32_t epoch = 0, batch = 0;
  };

  struct Reply {
    Digest bytes = {};
    double sum_kl = 0;             // The largest divergence of all releases of one example, this one included, nats.
    bool scores_answered = false;  // The attack module's scores of the batch will be answered, too.
  };
  // `reply` is sent for batch (epoch, batch): checks that no different one was sent for it before. Errors:
  // InvalidArgument where one did, which is this party's fault; Internal where it cannot be written.
  absl::Status Answer(uint32_t epoch, uint32_t batch, const Reply& reply);
  // Whether the scores of this batch were, or may have been, answered before the run went on.
  bool ScoresAnswered(uint32_t epoch, uint32_t batch) const;

  // All of the evaluation after `epoch` has come, whose answer depends on the labels. Errors: as Take.
  absl::Status Evaluate(uint32_t epoch, const Digest& activations);

  // From batch (epoch, batch) on the disclosure level is the least there is. Once is enough: the first holds. Errors:
  // Internal where it cannot be written.
  absl::Status LowerDisclosure(uint32_t epoch, uint32_t batch);
  // The batch from which on it is lowered, in whatever part of the run that was; nullopt: it is as agreed.
  std::optional<Batch> lowered_from() const { return lowered_from_; }

  // From batch `from` on a release has a divergence of at most `max_sum_kl`, positive and finite.
  struct RaisedNoise {
    Batch from;
    double max_sum_kl = 0;
  };
  // Errors: Internal where it cannot be written.
  absl::Status RaiseNoise(const RaisedNoise& raised);
  // All of the run, in whatever part of it, the first one first.
  const std::vector<RaisedNoise>& raised() const { return raised_; }

  // The first batch, `next` or a later one, that was not answered before the run went on.
  Batch FirstUnanswered(const Batch& next) const;

  // All that was written is on the disk. Errors: Internal.
  absl::Status Sync();

  // Something is released that nothing protects: no sum is large enough. Once is enough. Errors: Internal where it
  // cannot be written.
  absl::Status ReleaseUnprotected();

 private:
  enum class Kind : uint32_t {
    kTaken = 1,
    kAnswered,
    kEvaluated,
    kUnprotected,
    kLowered,
    kRaised,
    kAccount,
    kSettled,
    kContinued,
    kRun
  };
  struct Record {
    Kind kind = Kind::kTaken;
    uint32_t epoch = 0, batch = 0;
    uint32_t scores_answered = 0;
    Digest digest = {};
    double sum_kl = 0;  // kRaised: RaisedNoise.max_sum_kl.
  };
  using Key = std::tuple<Kind, uint32_t, uint32_t>;
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Closer>;

  ReleaseJournal(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  // `flags`: of open(2), besides those that every journal has. To be written to, it is locked.
  static absl::StatusOr<std::unique_ptr<ReleaseJournal>> Open(const std::string& path, int flags);
  // Counts the whole records, and keeps what lies at or after (epoch, batch). Errors: Internal where it cannot be read.
  absl::Status ReadFrom(uint32_t epoch, uint32_t batch);
  // That what was read is this run's. Errors: InvalidArgument.
  absl::Status CheckRun() const;
  // The first two records, where they are missing.
  absl::Status WriteWhose(const std::string& account);
  // The record of this kind from before the run went on; null: none.
  const Record* Before(Kind kind, uint32_t epoch, uint32_t batch) const;
  // What a record, read or written, says of the run.
  void Count(const Record& record);
  // Cuts off what is no whole record; what is written next comes after them.
  absl::Status GoToEnd();
  // Writes what is not known.
  absl::Status Write(const Record& record);
  absl::Status SettleReplaced();

  const std::string path_;
  const File file_;
  std::map<Key, Record> before_;  // What was answered before the run went on and is to be repeated.
  Outline outline_;
  std::optional<Batch> lowered_from_;
  std::vector<RaisedNoise> raised_;
  std::vector<std::string> replaced_;  // Not settled yet.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_RELEASE_JOURNAL_H_
