#include "nonlabel_party/protection/activation_protection.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

constexpr char kField[] = "protection";
// Below, covariances of activations of common sizes are singular to the precision of doubles.
constexpr double kLeastSigma = 1e-3;
constexpr int kMostParetoAttributes = 6;  // FindParetoDirection looks at 3^7 faces then.

absl::Status Expected(absl::string_view field, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(kField, ".", field, ": expected ", expected, ", found ", found));
}

bool NeedsNoise(const ActivationProtection& protection) {
  return protection.has_linear() || protection.has_infocensor() || protection.has_pareto() || protection.has_gaussian();
}

absl::StatusOr<ProtectedAttribute> Find(const std::string& name, const v1::Preprocessing& data) {
  const auto& columns = data.attributes();
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const v1::AttributeValues& column) { return column.name() == name; });
  if (found == columns.end()) {
    const std::string known = absl::StrJoin(
        columns, ", ", [](std::string* out, const v1::AttributeValues& column) { out->append(column.name()); });
    return Expected("attributes", columns.empty() ? "none, as the data have no column of kind ATTRIBUTE" : known, name);
  }
  return ProtectedAttribute{name, static_cast<size_t>(found - columns.begin()), found->values_size()};
}

absl::Status CheckMethod(const ActivationProtection& protection, const v1::RunAgreement& agreement,
                         const v1::ModelSpec& model) {
  // There would be nothing to lower.
  if (HasObjective(protection) && protection.attributes().empty()) {
    return Expected("attributes", "at least one column of kind ATTRIBUTE", "none");
  }
  if (!HasObjective(protection) && !protection.attributes().empty()) {
    return Expected("attributes", "none, as the method is the same for every attribute", protection.attributes(0));
  }
  // L_p is the divergence of noised activations: without noise it is infinite or a matter of rounding.
  if (NeedsNoise(protection) && protection.noise_sigma() < kLeastSigma) {
    return Expected("noise_sigma", absl::StrCat("at least ", kLeastSigma), absl::StrCat(protection.noise_sigma()));
  }
  if (protection.has_gaussian() && protection.clip_norm() == 0) {
    return Expected("clip_norm", "above 0: noise on activations of any length has no bound", "0");
  }
  // Refused rather than ignored: the user expects what the file sets to be applied.
  if (protection.has_none() && (protection.noise_sigma() > 0 || protection.clip_norm() > 0)) {
    return Expected("none", "no noise and no clipping, or gaussian in its place", "some");
  }
  if (HasObjective(protection) && !model.torchscript_path().empty()) {
    return Expected("method", "none beside a TorchScript model, whose steps have one gradient",
                    ActivationProtectionName(protection));
  }
  if (protection.has_pareto() && agreement.in_flight_batches() != 1) {
    return Expected("pareto", "in_flight_batches: 1, as each step must be taken before the next batch is looked at",
                    absl::StrCat(agreement.in_flight_batches()));
  }
  if (protection.has_pareto() && protection.attributes_size() > kMostParetoAttributes) {
    return Expected("attributes", absl::StrCat("at most ", kMostParetoAttributes, " for pareto"),
                    absl::StrCat(protection.attributes_size()));
  }
  return absl::OkStatus();
}

// The method's name and its own parameter.
std::string MethodName(const ActivationProtection& protection) {
  switch (protection.method_case()) {
    case ActivationProtection::kGaussian:
      return absl::StrCat("gaussian(clip_norm=", protection.clip_norm());
    case ActivationProtection::kLinear:
      return absl::StrCat("linear(lambda=", protection.linear().lambda());
    case ActivationProtection::kAdversarial:
      return absl::StrCat("adversarial(omega=", protection.adversarial().omega());
    case ActivationProtection::kAdversarialLabelFlip:
      return absl::StrCat("adversarial_label_flip(omega=", protection.adversarial_label_flip().omega());
    case ActivationProtection::kInfocensor:
      return absl::StrCat("infocensor(lambda=", protection.infocensor().lambda());
    case ActivationProtection::kPareto:
      return absl::StrCat("pareto(threshold=", protection.pareto().threshold(),
                          ", slack=", protection.pareto().slack());
    case ActivationProtection::kNone:
    case ActivationProtection::METHOD_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

absl::StatusOr<std::vector<ProtectedAttribute>> CheckActivationProtection(const ActivationProtection& protection,
                                                                          const v1::Preprocessing& data,
                                                                          const v1::RunAgreement& agreement,
                                                                          const v1::ModelSpec& model) {
  if (absl::Status status = CheckMethod(protection, agreement, model); !status.ok()) {
    return status;
  }
  // The data must know every attribute: one that is misspelt would stay unprotected.
  std::vector<ProtectedAttribute> attributes;
  for (const std::string& name : protection.attributes()) {
    absl::StatusOr<ProtectedAttribute> attribute = Find(name, data);
    if (!attribute.ok()) {
      return attribute.status();
    }
    attributes.push_back(*std::move(attribute));
  }
  return attributes;
}

std::string ActivationProtectionName(const ActivationProtection& protection) {
  const std::string method = MethodName(protection);
  return method.empty() ? "none" : absl::StrCat(method, ", noise_sigma=", protection.noise_sigma(), ")");
}

int64_t ActivationReleases(const v1::RunAgreement& agreement) {
  // At most: early stopping makes it fewer, and a repeated step sends the same bytes.
  return int64_t{agreement.epochs()} + (agreement.progressive_validation() ? 1 : 0);
}

bool HasObjective(const ActivationProtection& protection) {
  return protection.method_case() != ActivationProtection::METHOD_NOT_SET && !protection.has_none() &&
         !protection.has_gaussian();
}

}  // namespace splitveil
