#include "nonlabel_party/session/nonlabel_prediction.h"

#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/dataset/feature_table.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/session/epoch_evaluator.h"

namespace splitveil {

absl::Status NonLabelPrediction::Run(const BottomModelOptions& bottom, std::vector<ProtectedAttribute> attributes) {
  NonLabelRunLifecycle& lifecycle = *parts_.lifecycle;
  const NonLabelSessionOptions& options = *parts_.options;
  const FeatureTable features(options.data, lifecycle.aligned().rows);
  options.data->ReleaseMemory();  // Of the ids,
  ReturnFreeMemory();             // of the alignment.
  SPLITVEIL_RETURN_IF_ERROR(lifecycle.Start(/*split_sha256=*/"", /*batches_per_epoch=*/1).status());
  SPLITVEIL_RETURN_IF_ERROR(LoadModel(bottom, std::move(attributes)));
  options.status->Update([](v1::GetStatusResponse& status) { status.set_phase("predicting"); });

  EpochEvaluator::Options embedding;
  embedding.peer = options.peer;
  embedding.run_id = lifecycle.run_id();
  embedding.batch_size = options.agreement.batch_size();
  embedding.wire_dtype = options.agreement.wire_dtype();
  embedding.model = protected_model_.get();
  embedding.features = &features;
  embedding.test.resize(lifecycle.aligned().rows.size());
  std::iota(embedding.test.begin(), embedding.test.end(), 0);
  embedding.stop = parts_.stop;
  EpochEvaluator evaluator(std::move(embedding));
  SPLITVEIL_RETURN_IF_ERROR(parts_.reconnector->Persist([&] { return evaluator.Evaluate(0); }).status());
  SPLITVEIL_RETURN_IF_ERROR(
      RecordPrivacyLosses(*protected_model_, "predicted", "in one prediction", *lifecycle.ledger()));
  SPLITVEIL_RETURN_IF_ERROR(parts_.protocol->Take(AnswerProtocol::Answer::kEvaluated));
  return lifecycle.Close(*model_);
}

absl::Status NonLabelPrediction::LoadModel(const BottomModelOptions& bottom,
                                           std::vector<ProtectedAttribute> attributes) {
  const v1::ActivationProtection& protection = parts_.options->config.protection();
  SPLITVEIL_ASSIGN_OR_RETURN(model_, BottomModel::Create(bottom));
  SPLITVEIL_ASSIGN_OR_RETURN(
      protected_model_,
      ProtectedBottomModel::Create(model_.get(), protection, std::move(attributes), bottom.cut_width, bottom.seed));
  SPLITVEIL_RETURN_IF_ERROR(parts_.lifecycle->Resume(*model_).status());
  return RecordActivationProtection(protection, *protected_model_, /*steps=*/0, /*releases=*/1,
                                    *parts_.lifecycle->ledger());
}

absl::Status RecordActivationProtection(const v1::ActivationProtection& protection, const ProtectedBottomModel& model,
                                        int64_t steps, int64_t releases, Ledger& ledger) {
  const std::string name = ActivationProtectionName(protection);
  if (name == "none") {
    return absl::OkStatus();
  }
  LogInfo("activations are protected by ", name, steps > 0 ? absl::StrCat(", after ", steps, " steps alone") : "");
  const double mu = model.Mu(releases);
  const std::string promise =
      std::isfinite(mu) ? absl::StrCat("; mu ", mu, " of this run alone: further runs on the same rows add up") : "";
  SPLITVEIL_RETURN_IF_ERROR(ledger.RecordEvent(
      "activation_protection", absl::StrCat(name, "; ", steps, " steps before anything was sent", promise)));
  return std::isfinite(mu) ? ledger.Record(ActivationBoundRow{releases, mu, GaussianPrivacy::FromMu(mu)->AucBound()})
                           : absl::OkStatus();
}

absl::Status RecordPrivacyLosses(ProtectedBottomModel& model, const char* examples, const std::string& when,
                                 Ledger& ledger) {
  const std::vector<AttributeStep> largest = model.TakePredicted();
  if (largest.empty()) {
    return absl::OkStatus();
  }
  const std::string figures = absl::StrJoin(largest, ", ", [](std::string* out, const AttributeStep& of) {
    absl::StrAppend(out, of.attribute, " ", of.privacy_loss);
  });
  return ledger.RecordEvent("privacy_loss",
                            absl::StrCat("largest of a batch of ", examples, " examples ", when, ", nats: ", figures));
}

}  // namespace splitveil
