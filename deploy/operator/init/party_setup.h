// From a table and what the user has said to a party that can train.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_SETUP_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_SETUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/init/schema_proposal.h"
#include "deploy/operator/init/table_layout.h"

#include "splitveil/v1/agreement.pb.h"

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
  bool split_by_group = false;
  std::string test_after;      // Of a split by time.
  v1::TableSchema::Column id;  // Of the proposing party's schema.
  std::vector<std::string> id_shape;
};

// Each a text that parses as the message it is of, with comments.
std::string SchemaFileText(const SchemaProposal& proposal);
std::string PartyFileText(const PartyChoices& choices);
std::string AgreementFileText(const AgreementChoices& choices);

// What `splitveil init` was told; texts as given.
struct PartySetupOptions {
  std::string role;                 // "label_party" or "nonlabel_party".
  std::vector<std::string> tables;  // Its table, as TableFiles takes it: at least one.
  std::string out;
  LayoutFlags layout;
  std::vector<std::string> id_forms;  // Names of IdForm; none: by the table.
  SchemaFlags schema;
  bool skip_bad_rows = false;
  double min_usable_share = 1 - kOddLineShare;
  PartyChoices choices;          // All but what follows from the table.
  AgreementChoices proposed;     // run_name, test_fraction; the rest follows from model and table.
  std::string profile;           // File for the table's profile; empty: none.
  std::string proposal;          // File of the other party's; empty: this party proposes.
  bool makes_request = false;    // A request for an authority instead of a certificate for the peer to pin.
  std::string peer_certificate;  // To pin; empty: comes later.
  bool force = false;

  const std::string& table() const { return tables.front(); }  // What messages call it.
};

// Looks at the table, prepares it, makes the key and the certificate, and writes schema.textproto, party.textproto and,
// where this party proposes, run.textproto into `out`; prints what it found, what it wrote and what comes next. Nothing
// is replaced without `force`, and a key or a certificate never. Errors: InvalidArgument, NotFound, AlreadyExists as
// one line; what was inferred is then printed already if the table was readable.
absl::Status SetUpParty(const PartySetupOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_PARTY_SETUP_H_
