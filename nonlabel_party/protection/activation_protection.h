// Whether a protection of the activations fits the data, the model and the agreement, and what it is called.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "splitveil/v1/activation_protection.pb.h"
#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/model.pb.h"
#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// A column of FeatureBatch::attributes that is protected.
struct ProtectedAttribute {
  std::string name;
  size_t column = 0;
  int64_t values = 0;
};

// The attributes of `protection` in `data`. Errors: InvalidArgument with field, expected and found: an attribute that
// the data do not have, a method that needs attributes or noise without them, pareto with more than six attributes or
// several batches in flight, noise_sigma below 0.001 where L_p needs it, `gaussian` without clipping, a TorchScript
// model beside a method whose steps have several gradients.
absl::StatusOr<std::vector<ProtectedAttribute>> CheckActivationProtection(const v1::ActivationProtection& protection,
                                                                          const v1::Preprocessing& data,
                                                                          const v1::RunAgreement& agreement,
                                                                          const v1::ModelSpec& model);

// "pareto(threshold=0.005, slack=0.5, noise_sigma=1)", for ledgers and reports; "none".
std::string ActivationProtectionName(const v1::ActivationProtection& protection);

// How often an example's activations leave in a run, at most: each training example once in an epoch and, under
// progressive_validation, once before the first. Test examples are evaluated once an epoch, auxiliary ones embedded at
// most once an epoch. What is sent again in a run that goes on is the same bytes (ActivationNoise).
int64_t ActivationReleases(const v1::RunAgreement& agreement);

// Whether it adds to the bottom model's objective.
bool HasObjective(const v1::ActivationProtection& protection);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_PROTECTION_H_
