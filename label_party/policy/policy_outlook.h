// Whether a run can keep its release policy to its end, as far as that is known before it.
#ifndef SPLITVEIL_LABEL_PARTY_POLICY_POLICY_OUTLOOK_H_
#define SPLITVEIL_LABEL_PARTY_POLICY_POLICY_OUTLOOK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {

struct PolicyOutlook {
  v1::GateAction action = v1::RELEASE;  // The most severe that the gate will take.
  int32_t first_epoch = 0;              // In which it first does, from 1; 0: in none.
  bool known = true;                    // Whether the divergence of a release follows from the configuration.
  std::string text;                     // For people, one line.
};

// Puts the releases that the protection plans, one of each example in every epoch, through the release gate itself
// (release_gate.h). What depends on gradients (the divergence of `iso` and of a power `s`, the measured leak, the worst
// case) is not known before the run. `label_dp_sum_kl`: mu^2 of each epoch's draw of gaussian_label_dp; empty for other
// methods. `protection`: with planned epochs filled in (FillPlannedEpochs). Errors: as ReleaseGate::Create.
// Thread-safe.
absl::StatusOr<PolicyOutlook> ForeseePolicy(const v1::ReleasePolicy& policy, const v1::GradientProtection& protection,
                                            int32_t epochs, const std::vector<double>& label_dp_sum_kl);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_POLICY_POLICY_OUTLOOK_H_
