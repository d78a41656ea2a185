#include "nonlabel_party/session/activations_upload.h"

#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

template <typename Response>
absl::StatusOr<Response> Upload(ActivationAccount::Stream kind, const ActivationsSource& source,
                                absl::Span<const uint32_t> positions, uint32_t epoch, UploadStream<Response>& stream) {
  const auto batch_size = static_cast<size_t>(source.batch_size);
  uint32_t batch = 0;
  for (size_t first = 0; first < positions.size(); first += batch_size, ++batch) {
    // Returning closes the stream without Finish: figures of a part of the examples would say nothing.
    SPLITVEIL_RETURN_IF_ERROR(source.stop->Check());
    source.model->SetPosition(ActivationAccount::PositionOf(kind, epoch, batch));
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix activations,
                               source.model->Predict(source.features->Gather(positions.subspan(first, batch_size))));
    if (source.account != nullptr) {
      SPLITVEIL_RETURN_IF_ERROR(source.account->Send(kind, epoch, batch, activations));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const v1::CutActivations message,
                               ActivationsMessage(source.run_id, epoch, batch, activations, source.wire_dtype));
    if (!stream.Send(message).ok()) {
      break;  // Finish says why.
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(Response response, stream.Finish());
  if (response.examples() != positions.size()) {
    return AsRefusal(absl::InvalidArgumentError(
        absl::StrCat(kind == ActivationAccount::Stream::kEvaluation ? "evaluation" : "auxiliary activations",
                     ": expected ", positions.size(), " examples, found ", response.examples())));
  }
  return response;
}

}  // namespace

absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype) {
  v1::CutActivations message;
  message.set_run_id(run_id);
  message.set_epoch(epoch);
  message.set_batch(batch);
  if (absl::Status status = EncodeMatrix(activations, wire_dtype, *message.mutable_activations()); !status.ok()) {
    return absl::InternalError(absl::StrCat("activations: ", status.message()));
  }
  return message;
}

absl::StatusOr<v1::EvaluateResponse> EvaluateExamples(TrainingPeer& peer, const ActivationsSource& source,
                                                      absl::Span<const uint32_t> positions, uint32_t epoch) {
  if (positions.empty()) {
    return v1::EvaluateResponse();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<EvaluationStream> stream, peer.Evaluate());
  return Upload(ActivationAccount::Stream::kEvaluation, source, positions, epoch, *stream);
}

absl::Status EmbedExamples(AttributeAuditPeer& peer, const ActivationsSource& source,
                           absl::Span<const uint32_t> positions, uint32_t epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<EmbeddingStream> stream, peer.EmbedAuxiliary());
  return Upload(ActivationAccount::Stream::kAuxiliary, source, positions, epoch, *stream).status();
}

}  // namespace splitveil
