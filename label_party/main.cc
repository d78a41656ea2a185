// The label party's program.
#include <string>

#include "common/operations/party_program.h"
#include "label_party/service/label_party.h"
#include "label_party/serving/serve.h"

int main(int argc, char** argv) {
  const splitveil::PartyProgram program = {
      "label_party",
      "The label party's service: trains the top model and protects the gradients that it sends. With a trained model, "
      "label_party serve answers requests (label_party serve --help).",
      [](const std::string& agreement_path, const std::string& config_path, const splitveil::PartyFlags& flags) {
        absl::StatusOr<splitveil::LabelPartyPlan> plan = splitveil::PlanLabelParty(agreement_path, config_path);
        if (!plan.ok()) {
          return plan.status();
        }
        plan->verbose_summary = flags.verbose_summary;
        return flags.check_only ? splitveil::CheckLabelParty(*plan) : splitveil::RunLabelParty(*plan);
      },
      &splitveil::DryRunLabelParty,
      "Answer requests with a trained model, by the Open Inference Protocol, until SIGTERM.",
      "serving.textproto",
      &splitveil::Serve};
  return splitveil::RunPartyProgram(program, argc, argv);
}
