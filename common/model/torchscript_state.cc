#include "common/model/torchscript_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {

using Part = TorchScriptModule::Part;
using Draws = TorchScriptModule::Draws;

namespace {

constexpr char kDraws[] = "draws";
constexpr size_t kDigits = 4;  // Of a number of 64 bits,
constexpr int kBits = 16;      // each exactly a float.

std::vector<float> ToFloats(const Draws& draws) {
  std::vector<float> digits;
  for (const uint64_t number : {draws.seed, draws.passes}) {
    for (size_t digit = 0; digit < kDigits; ++digit) {
      digits.push_back(static_cast<float>((number >> (kBits * digit)) & ((1 << kBits) - 1)));
    }
  }
  return digits;
}

absl::StatusOr<Draws> ReadDraws(const std::vector<float>& digits) {
  const auto is_digit = [](float number) {
    return number >= 0 && number < (1 << kBits) && number == static_cast<float>(static_cast<int>(number));
  };
  if (digits.size() != 2 * kDigits || !std::all_of(digits.begin(), digits.end(), is_digit)) {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter ", kDraws, ": must be ", 2 * kDigits, " whole numbers below ", 1 << kBits));
  }
  std::array<uint64_t, 2> numbers = {};
  for (size_t i = 0; i < digits.size(); ++i) {
    numbers[i / kDigits] |= static_cast<uint64_t>(digits[i]) << (kBits * (i % kDigits));
  }
  return Draws{numbers[0], numbers[1]};
}

}  // namespace

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
  status.Update(module_->SetValues(Part::kPrediction, module));  // The averages restart.
  return status;
}

NamedParameters TorchScriptState::TrainingState() const {
  NamedParameters module = module_->Values(Part::kTraining);
  NamedParameters state = CopyTrainingState(Views(Part::kTraining, module), module_->steps());
  state.emplace_back(kDraws, ToFloats(module_->draws()));
  return state;
}

absl::Status TorchScriptState::SetTrainingState(const NamedParameters& state) {
  NamedParameters learnt = state;
  const auto kept = std::find_if(learnt.begin(), learnt.end(), [](const auto& named) { return named.first == kDraws; });
  if (kept == learnt.end()) {
    return absl::InvalidArgumentError(absl::StrCat("parameter ", kDraws, " is missing"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Draws draws, ReadDraws(kept->second));
  // The module compares names: what is not its own must not be among them.
  learnt.erase(kept);
  NamedParameters module = module_->Values(Part::kTraining);
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t steps, AssignTrainingState(learnt, Views(Part::kTraining, module)));
  SPLITVEIL_RETURN_IF_ERROR(module_->SetValues(Part::kTraining, module));
  module_->set_steps(steps);
  module_->set_draws(draws);
  if (embedding_ != nullptr) {
    embedding_->set_steps(steps);
  }
  return absl::OkStatus();
}

}  // namespace splitveil
