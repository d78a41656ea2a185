// The durable account of what has been released of each label, or of each example's activations, in all runs.
#ifndef SPLITVEIL_COMMON_PRIVACY_ACCOUNT_PRIVACY_ACCOUNT_H_
#define SPLITVEIL_COMMON_PRIVACY_ACCOUNT_PRIVACY_ACCOUNT_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "common/crypto/secure_random.h"
#include "common/privacy/label_privacy.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

// LabelPartyConfig.privacy_account, or NonLabelPartyConfig's, `path` resolved.
struct PrivacyAccountOptions {
  std::string path;
  std::string label_set;  // Of activations: what names the run's noise.
  double max_lifetime_auc_bound = 1;
  LabelKind label_kind = LabelKind::kBinary;
};

// The first `draws` draws of noise of one strength (common/crypto/label_noise.h): a release of an example each.
struct NoiseReleases {
  uint32_t sigma_units = 0;
  uint32_t draws = 1;
};

// What releases would count, were they debited.
struct ForeseenDebit {
  int64_t releases = 0;   // Of an example, that the account does not have; each counts.
  int64_t examples = 0;   // That they are of.
  LabelPrivacy so_far;    // What all releases of the most exposed example disclose together now,
  LabelPrivacy lifetime;  // and with these.
};

// One SQLite file (application_id 0x53565041, "SVPA"; user_version 5): the key of the noise, the label sets, the
// strengths of noise that each was released with, and how many draws of which strength an example was released with,
// and its label. The draws of a strength are numbered, and runs take them in order. A draw of an example is the same
// bits however often it is released, so it counts once; different ones, and different strengths, have independent noise
// and compose (LabelPrivacy). Nothing is ever taken off.
//
// The guarantee rests on the file: who takes it away or puts an older one in its place resets the account, and who
// reads it can take the noise off. It is created with mode 0600, and a debit is on the disk before Debit returns.
//
// An account of activations (LabelKind::kActivations) is the same file with an application_id of its own (0x53564141,
// "SVAA"; version 3). Its runs draw noise under a key of their own each, so that each is a label set of its own; the
// labels are 0, and the account's key draws nothing.
//
// Several processes may use one file. Not thread-safe.
class PrivacyAccount {
 public:
  // Opens the account, or makes it. Errors: InvalidArgument for another file, one that others may read, an account
  // of another version, no label_set, a bound outside [0.5, 1], or a path that cannot be used; NotFound where its
  // folder does not exist; else as SqliteDatabase. Messages begin with the path.
  static absl::StatusOr<std::unique_ptr<PrivacyAccount>> Open(PrivacyAccountOptions options);
  // The account as it is: nothing is written, and Debit fails. Null where Open would make a new one, there being no
  // file, or an empty one. Errors: as Open.
  static absl::StatusOr<std::unique_ptr<PrivacyAccount>> OpenToRead(PrivacyAccountOptions options);

  // Names the account for good: 128 random bits in hexadecimal.
  const std::string& id() const { return id_; }
  // Made by Open: it knows of nothing that was released before.
  bool is_new() const { return access_ == Access::kCountInNew; }

  // The noise of this label set at this strength, LabelNoise's releases being the draws. Errors: as LabelNoise::Create.
  absl::StatusOr<LabelNoise> Noise(const NoiseReleases& releases) const;

  // That every example released under this label set has the label it had then. Ask it of all labels of the party, not
  // of those of a run: the peer has a say in which examples take part, and sees where a run ends. `examples`, `labels`
  // [n]: LabelNumber of each. Error: InvalidArgument, also where the label set is of another kind.
  absl::Status CheckLabels(absl::Span<const NoiseRow> examples, absl::Span<const int64_t> labels);

  struct Start {
    std::string name;         // Of no other one: "RUN-ID 2026-01-31T09:30:00.123Z 0123456789abcdef".
    double most_exposed = 0;  // Of the label set, mu^2: others than this run's examples may be more exposed.
  };
  // Keeps that the run begins, or goes on, and the largest mu^2 that Debit has returned, `most_exposed`, on the disk
  // when it returns: before a ledger names that start, or anything is released. Their times are in the order in which
  // they were kept, whatever the clock says. Errors: as Debit.
  absl::StatusOr<Start> RememberStart(absl::string_view run_id, double most_exposed) const;
  // Keeps a name. Errors: as Debit.
  absl::Status Remember(absl::string_view name) const;
  // What it remembered when it was opened, and whether a start of this run is among it. An older copy of the file lacks
  // what came after it.
  const std::set<std::string>& remembered() const { return remembered_; }
  bool Knows(absl::string_view run_id) const;

  // What Debit would count of these examples with all of these together; of a strength that is there twice, the larger
  // number of draws. Changes nothing. Errors: as SqliteDatabase; InvalidArgument for a strength of 0, or where the
  // label set is of another kind.
  absl::StatusOr<ForeseenDebit> Foresee(absl::Span<const NoiseRow> examples, absl::Span<const NoiseReleases> releases);
  // The same of an account that is still to be made.
  static absl::StatusOr<ForeseenDebit> ForeseeNew(LabelKind kind, int64_t examples,
                                                  absl::Span<const NoiseReleases> releases);

  // Error: ResourceExhausted, marked as a halt, for a bound on all releases together above max_lifetime_auc_bound.
  static absl::Status CheckLifetime(double auc_bound, double limit);

  // Counts these releases, each strength once, of these examples, [n] each. All of it is on the disk when it returns:
  // before anything that is computed from the noised labels is sent. Returns what all releases of the most exposed of
  // them disclose together, these included. Errors, after which nothing may be sent: ResourceExhausted, marked as a
  // halt, where that passes max_lifetime_auc_bound; Internal where the file has gone, or is another account than was
  // opened or an older copy of it; InvalidArgument for other labels than an example was released with; else as
  // SqliteDatabase.
  //
  // It looks at all examples first, so that a run past the limit counts nothing. Then it counts at most a million a
  // transaction, in the order of their 12 bytes, and lets other runs count between two. A process that is killed
  // meanwhile, and one that finds that another run has counted since, leaves examples counted that it never releases:
  // the account says too much, never too little.
  absl::StatusOr<LabelPrivacy> Debit(absl::Span<const NoiseRow> examples, absl::Span<const int64_t> labels,
                                     absl::Span<const NoiseReleases> releases);

 private:
  enum class Access { kRead, kCount, kCountInNew };
  struct Debits;

  PrivacyAccount(PrivacyAccountOptions options, std::unique_ptr<SqliteDatabase> database, SecretKey key, std::string id,
                 std::set<std::string> remembered, Access access)
      : options_(std::move(options)),
        database_(std::move(database)),
        key_(std::move(key)),
        id_(std::move(id)),
        remembered_(std::move(remembered)),
        access_(access) {}

  static absl::StatusOr<std::unique_ptr<PrivacyAccount>> Make(PrivacyAccountOptions options,
                                                              std::unique_ptr<SqliteDatabase> database, Access access);
  // The account as the file has it now, to count in it. Errors: as Debit.
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> Reopen() const;
  // That `database` is the account that was opened, or a later state of it. Within a transaction. Errors: as Debit.
  absl::Status CheckSame(SqliteDatabase& database) const;
  // Of the first examples `left`, which it removes: looks at what the account has, or counts what it lacks. Within a
  // transaction.
  absl::Status DebitPart(SqliteDatabase& database, bool writes, Debits& debits, absl::Span<const uint32_t>& left) const;
  absl::Status At(const absl::Status& status) const;
  // Of the file as it is now, in a transaction. Errors: as Debit.
  absl::Status Change(absl::FunctionRef<absl::Status(SqliteDatabase&)> change) const;

  const PrivacyAccountOptions options_;
  std::unique_ptr<SqliteDatabase> database_;
  const SecretKey key_;
  const std::string id_;
  const std::set<std::string> remembered_;
  const Access access_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_ACCOUNT_PRIVACY_ACCOUNT_H_
