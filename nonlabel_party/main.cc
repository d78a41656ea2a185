// The non-label party's program.
#include "common/operations/party_program.h"
#include "nonlabel_party/service/nonlabel_party.h"
#include "nonlabel_party/serving/serve.h"

int main(int argc, char** argv) {
  const splitveil::PartyProgram program = {
      "nonlabel_party",
      "The non-label party's service: trains the bottom model on the label party's gradients. With a trained model, "
      "nonlabel_party serve answers label_party serve live (nonlabel_party serve --help).",
      [](const std::string& agreement_path, const std::string& config_path, const splitveil::PartyFlags& flags) {
        absl::StatusOr<splitveil::NonLabelPartyPlan> plan = splitveil::PlanNonLabelParty(agreement_path, config_path);
        if (!plan.ok()) {
          return plan.status();
        }
        plan->verbose_summary = flags.verbose_summary;
        return flags.check_only ? splitveil::CheckNonLabelParty(*plan) : splitveil::RunNonLabelParty(*plan);
      },
      &splitveil::DryRunNonLabelParty,
      "Answer the label party's live requests with activations of this party's data as they are now, until SIGTERM.",
      "live.textproto",
      &splitveil::ServeLive};
  return splitveil::RunPartyProgram(program, argc, argv);
}
