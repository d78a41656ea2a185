// The files of a new party, commented for the people who read them.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_TEXTS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_TEXTS_H_

#include <cstdint>
#include <string>

#include "deploy/operator/init/schema_proposal.h"

namespace splitveil {

// What a private configuration says; names and addresses as the user gave them.
struct PartyChoices {
  bool is_label_party = false;
  std::string own_name, peer_name;
  std::string listen_address;
  std::string peer_address;  // Of the non-label party.
  std::string authority;     // "peer.pem", a pinned certificate, or "authority.pem".
  std::string preset;        // ModelSpec.Preset.
  bool has_features = false;
  bool has_categories = false;
  std::string protection;         // "gaussian_label_dp", "marvell" or "none", of the label party.
  std::string max_run_auc_bound;  // A number, of the first two.
  std::string label_set;          // Of gaussian_label_dp.
};

// What an agreement proposes.
struct AgreementChoices {
  std::string run_name;
  std::string cut_layer;
  int32_t cut_width = 0;
  int32_t batch_size = 0;
  int32_t epochs = 0;
  int32_t in_flight_batches = 1;  // 0: as many as the link asks for, at most a sixteenth of an epoch.
  std::string test_fraction;
};

// Each a text that parses as the message it is of, with comments.
std::string SchemaFileText(const SchemaProposal& proposal);
std::string PartyFileText(const PartyChoices& choices);
std::string AgreementFileText(const AgreementChoices& choices);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_TEXTS_H_
