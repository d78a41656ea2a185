// Rules of the label party's configuration that the ranges in the schema cannot express.
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_LABEL_CONFIG_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_LABEL_CONFIG_H_

#include <cstdint>

#include "absl/status/status.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// The largest agreed batch_size with protection.distance_correlation. That passes over all pairs of a batch while the
// run's other batches wait: some ten seconds at this size and 64 components.
inline constexpr int64_t kMaxDistanceCorrelationBatch = 16'384;

// By what LabelPartyConfig.keep chooses the model.
enum class KeepBy { kLast, kTest, kValidation };
// "last", "test", "validation": as the ledger and RESULT name it.
const char* KeepName(KeepBy by);
// As configured, or what follows from the protection and from what is held out. ValidateLabelConfig decides whether it
// may be configured.
KeepBy KeepByOf(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement);

// Refuses before the run what would stop or stall it after gradients were sent: a label_side_audit with an attack that
// is unknown, runs once per run or is listed twice; a distance correlation over batches above
// kMaxDistanceCorrelationBatch; early stopping without test examples; the best epoch if KeepByOf is the last; a
// privacy account without gaussian_label_dp or label_dp, or gaussian_label_dp without an account. With
// gaussian_label_dp: any other setting by which true labels would change what the peer receives. With label_dp: any by
// which they would change which messages it receives, and disclosure ROUNDED. An attribute_attack if the agreement has
// no attacks on attributes, a missing one if it has, or one without its inputs; a model that holds no top half for the
// agreement's cut (CheckTopSpec). Errors: InvalidArgument with field, expected, found. Thread-safe.
absl::Status ValidateLabelConfig(const v1::LabelPartyConfig& config, const v1::RunAgreement& agreement);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_LABEL_CONFIG_H_
