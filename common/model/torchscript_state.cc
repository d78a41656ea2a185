#include "common/model/torchscript_state.h"

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"

#include "common/status/status_macros.h"

namespace splitveil {

using Part = TorchScriptModule::Part;

TorchScriptState::TorchScriptState(InputLayer* embedding, std::string prefix, TorchScriptModule* module)
    : embedding_(embedding), prefix_(std::move(prefix)), module_(module) {}

std::vector<ParameterView> TorchScriptState::Views(Part part, NamedParameters& module) const {
  if (embedding_ == nullptr) {
    return ViewsOf(module);
  }
  const ParameterUse use = part == Part::kPrediction ? ParameterUse::kPrediction : ParameterUse::kTraining;
  return Joined({embedding_->parameters(prefix_, use),
                 part == Part::kTraining ? embedding_->optimizer_state(prefix_) : std::vector<ParameterView>(),
                 ViewsOf(module)});
}

NamedParameters TorchScriptState::Parameters() const {
  NamedParameters module = module_->Values(Part::kPrediction);
  return CopyParameters(Views(Part::kPrediction, module));
}

absl::Status TorchScriptState::SetParameters(const NamedParameters& parameters) {
  NamedParameters module = module_->Values(Part::kModel);
  SPLITVEIL_RETURN_IF_ERROR(AssignParameters(parameters, Views(Part::kModel, module)));
  if (embedding_ != nullptr) {
    embedding_->RestartAverage();
  }
  absl::Status status = module_->SetValues(Part::kModel, module);
  status.Update(module_->SetValues(Part::kPrediction, module));  // The averages start anew.
  return status;
}

NamedParameters TorchScriptState::TrainingState() const {
  NamedParameters module = module_->Values(Part::kTraining);
  return CopyTrainingState(Views(Part::kTraining, module), module_->steps());
}

absl::Status TorchScriptState::SetTrainingState(const NamedParameters& state) {
  NamedParameters module = module_->Values(Part::kTraining);
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, AssignTrainingState(state, Views(Part::kTraining, module)));
  module_->set_steps(steps);
  if (embedding_ != nullptr) {
    embedding_->set_steps(steps);
  }
  return module_->SetValues(Part::kTraining, module);
}

}  // namespace splitveil
