// The label party's attacks on sensitive attributes, as the party that knows these sees them: what it grants, and how
// well the guesses hit.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ATTRIBUTE_AUDIT_RUNNER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ATTRIBUTE_AUDIT_RUNNER_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"
#include "common/ledger/ledger.h"
#include "common/schedule/train_test_split.h"
#include "nonlabel_party/session/activation_account.h"
#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/attribute_audit.pb.h"

namespace splitveil {

// After the evaluation of every epoch that is due:
//
//   Embed  activations of the auxiliary examples ───►  where granted: embed_auxiliary
//   Guess  GuessAttributes                       ───►
//          guesses at the test, and at the       ◄───
//          unmarked training examples
//
// and the figures of what came into the ledger. No attribute is sent. Guesses are used once the whole answer has come
// and is what was asked for. Memory: one byte for each example and attribute, and the scores of one attack. Not
// thread-safe.
class AttributeAuditRunner {
 public:
  struct Options {
    AttributeAuditPeer* peer = nullptr;  // Not owned; must outlive this, as all here.
    v1::RunAgreement agreement;          // Canonical.
    ActivationsSource source;
    Ledger* ledger = nullptr;
  };

  // That `data` have the agreed attributes. Error: InvalidArgument with field, expected and found.
  static absl::Status Check(const v1::RunAgreement& agreement, const Dataset& data);
  // `data`: passes Check; `rows`: its row for each aligned position; both are read here alone.
  AttributeAuditRunner(Options options, const Dataset& data, absl::Span<const uint32_t> rows,
                       const TrainTestSplit& split);

  // An event if the attacks keep a sample of the examples alone. Once, of a new run. Errors: the ledger's.
  absl::Status RecordSample() const;
  // Whether guesses are due after `epoch`, from 0; `last`: no other epoch follows.
  bool IsDue(uint32_t epoch, bool last) const;
  // Sends the activations of the auxiliary examples, if the agreement grants them. Errors: see EmbedExamples; the
  // ledger's.
  absl::Status Embed(uint32_t epoch);
  // Asks for the guesses, judges and records them. The whole may be repeated until it succeeds. Errors: the label
  // party's; a refusal if its answer is malformed, and nothing of it is recorded; the ledger's.
  absl::Status Guess(uint32_t epoch);

  // One row for each attribute: its strongest attack, by advantage, as the last due epoch has it; of attacks that read
  // the training the best of all epochs. In the agreed order; attributes without guesses are left out.
  std::vector<AttributeLeakRow> strongest() const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(figures_);
  }

  using Examples = v1::AttributeGuesses::Examples;
  // The scores of one attack at one attribute, as far as they have come.
  struct Series {
    v1::AttributeAttack attack = v1::ATTRIBUTE_ATTACK_UNSPECIFIED;
    int attribute = 0;  // Of those agreed.
    Examples examples = v1::AttributeGuesses::EXAMPLES_UNSPECIFIED;
    Matrix scores;     // [examples, values]
    int64_t rows = 0;  // That have come.

    bool complete() const { return rows == scores.rows(); }
  };

  // An answer, row by row; checks each message before it allocates or uses anything.
  absl::Status Take(const v1::AttributeGuesses& message, Series& series, std::vector<AttributeLeakRow>& rows) const;
  // Its place among all that may come; a refusal where it is none of them.
  absl::StatusOr<Series> SeriesOf(const v1::AttributeGuesses& message) const;
  // Attacks, then attributes, then examples, all in order.
  std::tuple<int, int, int> PlaceOf(const Series& series) const;
  // An event where agreed guesses have not come: a label party that keeps its own to itself does not say so.
  absl::Status RecordMissing(uint32_t epoch, const std::vector<AttributeLeakRow>& rows);
  AttributeLeakRow Judge(const Series& series) const;
  const std::vector<uint8_t>& TruthOf(int attribute, Examples examples) const;
  void Keep(const AttributeLeakRow& row);

  const Options options_;
  std::vector<uint32_t> auxiliary_;                             // Aligned positions.
  std::string sample_;                                          // DescribeSample.
  std::vector<int64_t> values_;                                 // Of each agreed attribute.
  std::vector<std::vector<uint8_t>> test_truth_, train_truth_;  // Of each: of the test, the unmarked training examples.
  std::vector<AttributeLeakRow> figures_;                       // One for each attack, attribute and examples.
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ATTRIBUTE_AUDIT_RUNNER_H_
