// The canonical run agreement and its digest.
#ifndef SPLITVEIL_COMMON_CONFIG_AGREEMENT_H_
#define SPLITVEIL_COMMON_CONFIG_AGREEMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"
#include "common/leakage/attack_traits.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

namespace v1 {
class LabelPartyConfig;
class NonLabelPartyConfig;
}  // namespace v1

// Loads, validates (fields, and between fields) and canonicalises an agreement: every field set to its value or
// default.
absl::StatusOr<v1::RunAgreement> LoadAgreement(const std::string& path);

// As LoadAgreement, from memory; `name` stands for the file in errors.
absl::StatusOr<v1::RunAgreement> ParseAgreement(absl::string_view text, const std::string& name);

// Sets every unset field to its default, submessages included, and audit.hint_counts if it is empty. With mode PREDICT
// the fields that only training uses stay unset: such an agreement says nothing about splits, epochs and audits.
void Canonicalize(v1::RunAgreement& agreement);

// Whether any example is held out for testing, by its id, its group or its time.
bool HasTestPart(const v1::RunAgreement& agreement);

// Most of the examples that may be held out: in one part (the ranges in agreement.proto), and in all parts together.
inline constexpr double kMaxPartFraction = 0.9;
inline constexpr double kMaxHeldOutFraction = 0.95;

// Checks the schema's options (ValidateMessage), then between fields: minimum_batch_size <= batch_size, attacks
// that need an oracle and auxiliary labels only under ORACLE, layers, attacks and hint counts unique, names of one
// short line, messages within gRPC's 2 GiB, progressive_validation without a test set, attacks
// on attributes with what they need, no field of training with mode PREDICT. Applied to the peer's agreement
// too: safe on hostile input, and to be called before any other function of this header on it. Errors: InvalidArgument
// with field, expected, found.
absl::Status ValidateAgreement(const v1::RunAgreement& agreement);

// Checks that a party's configuration sets what the agreement's mode needs, and nothing that the mode has no use for.
// Errors: InvalidArgument that names the field and says what to do.
absl::Status CheckFitsMode(const v1::RunAgreement& agreement, const v1::LabelPartyConfig& config);
absl::Status CheckFitsMode(const v1::RunAgreement& agreement, const v1::NonLabelPartyConfig& config);

// The most batches that a run of this agreement may have in flight.
inline int64_t MostInFlight(const v1::RunAgreement& agreement) {
  return agreement.in_flight_batches() == 0 ? agreement.max_in_flight_batches() : agreement.in_flight_batches();
}

// One score vector of a ScoreBatch request.
struct AgreedScore {
  std::string layer;
  AttackVariant attack;
};

// Rows in one message of guesses at attributes, at most: all but the last of an attack's have as many.
inline constexpr int64_t kGuessRows = 1024;
// Values of an attribute, at most.
inline constexpr int64_t kMaxAttributeValues = 254;

// What the attack module submits for every audited batch, in this order: each agreed attack at each agreed layer,
// once for each agreed hint count where it takes hints, except that ACTIVATION_CLUSTERS is scored at "cut" only.
std::vector<AgreedScore> AgreedScores(const v1::AuditAgreement& audit);

// SHA-256 of the deterministic serialisation of a canonical agreement.
Digest AgreementSha256(const v1::RunAgreement& canonical);

// That digest as people compare it by voice (sha256.h, which states its strength).
std::string AgreementFingerprint(const v1::RunAgreement& canonical);

// Largest message of any call under this valid agreement, in bytes: a batch of batch_size + minimum_batch_size - 1 rows
// (a small rest joins the last batch) with the hint, the scores of such a batch, guesses at attributes, or an alignment
// chunk; plus headers.
int64_t MaxMessageBytes(const v1::RunAgreement& agreement);
// The same of a live request for `rows` examples, and of its answer (live.proto).
int64_t MaxLiveBytes(const v1::RunAgreement& agreement, int64_t rows);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_AGREEMENT_H_
