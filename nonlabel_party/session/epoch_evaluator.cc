#include "nonlabel_party/session/epoch_evaluator.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/session/activations_message.h"

namespace splitveil {

absl::StatusOr<bool> EpochEvaluator::Evaluate(uint32_t epoch) {
  const absl::Span<const uint32_t> test = options_.test;
  if (test.empty()) {
    return false;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationStream> stream, options_.peer->Evaluate());
  const size_t batch_size = static_cast<size_t>(options_.batch_size);
  uint32_t batch = 0;
  for (size_t first = 0; first < test.size(); first += batch_size, ++batch) {
    // The stream is cut off then: an evaluation of a part would say nothing.
    SPLITVEIL_RETURN_IF_ERROR(options_.stop->Check());
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                               options_.model->Predict(options_.features->Gather(test.subspan(first, batch_size))));
    SPLITVEIL_ASSIGN_OR_RETURN(const v1::CutActivations message,
                               ActivationsMessage(options_.run_id, epoch, batch, activations, options_.wire_dtype));
    if (!stream->Send(message).ok()) {
      break;  // Finish says why.
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::EvaluateResponse response, stream->Finish());
  if (response.examples() != test.size()) {
    return AsRefusal(absl::InvalidArgumentError(
        absl::StrCat("evaluation: expected ", test.size(), " examples, found ", response.examples())));
  }
  return response.stop_training();
}

}  // namespace splitveil
