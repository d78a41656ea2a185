#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/init/party_setup.h"

namespace splitveil {
namespace {

using Schema = v1::TableSchema;

std::string Quoted(absl::string_view text) { return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\""); }

std::string Texts(const char* field, const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) {
    absl::StrAppend(&lines, field, ": ", Quoted(text), "\n");
  }
  return lines;
}

std::string IdFormText(const google::protobuf::RepeatedField<int>& forms) {
  std::string text;
  for (const int form : forms) {
    absl::StrAppend(&text, " id_form: ", v1::IdForm_Name(static_cast<v1::IdForm>(form)));
  }
  return text;
}

std::string ProtectionText(const PartyChoices& choices) {
  if (choices.protection == "gaussian_label_dp") {
    return absl::StrCat(
        "# What is sent is computed from labels with Gaussian noise. Whatever the other party does, it can rank two\n"
        "# customers that it could not tell apart before with an AUC of at most this, over the whole run: proved.\n"
        "protection { gaussian_label_dp { max_run_auc_bound: ",
        choices.max_run_auc_bound,
        " } }\n"
        "# Counts all runs on these labels together. Keep it as long as the labels; give other labels another name.\n"
        "privacy_account { path: \"labels.account.db\" label_set: ",
        Quoted(choices.label_set), " }\n");
  }
  if (choices.protection == "marvell") {
    return absl::StrCat(
        "# Noise on the gradients that keeps the AUC of an adversary below this over the whole run, if gradients are\n"
        "# Gaussian in each class and it uses nothing but the classes' moments: conditional, not proved.\n"
        "protection { marvell { run_budget { max_run_auc_bound: ",
        choices.max_run_auc_bound, " } orthogonal_noise_ratio: 16 } }\n");
  }
  return "# No protection: the other party can read the labels of the training examples off what it receives.\n"
         "protection { none {} }\n";
}

std::string ModelText(const PartyChoices& choices) {
  std::string own;
  // Wide & Deep has a part for them.
  const bool is_wide = absl::StartsWith(choices.preset, "WIDE");
  if (choices.is_label_party && choices.has_features && !is_wide) {
    own = choices.has_categories ? " own_features { embedding { dimension: 4 } }" : " own_features {}";
  }
  return absl::StrCat("# The whole model by name; the agreement says where it is cut.",
                      own.empty() ? "" : " Own columns", own.empty() ? "" : " enter behind the cut.",
                      "\nmodel { preset: ", choices.preset, own, " }\n");
}

std::string SplitText(const AgreementChoices& choices) {
  if (choices.split_by_group) {
    return "# By a hash of the group instead: all rows of one are on the same side. Both tables need the column.\n"
           "split_by_group: true\n";
  }
  return choices.test_after.empty()
             ? ""
             : absl::StrCat(
                   "# Instead, rows from this time on. Both tables need the column with the times.\ntest_after: ",
                   Quoted(choices.test_after), "\n");
}

std::string AddressText(const PartyChoices& choices) {
  if (choices.is_label_party) {
    return absl::StrCat("# The other party connects here; nothing else has to be open.\nlisten_address: ",
                        Quoted(choices.listen_address), "\n");
  }
  return absl::StrCat("# Where the label party listens.\npeer_address: ", Quoted(choices.peer_address),
                      "\n# Health checks only.\nlisten_address: ", Quoted(choices.listen_address), "\n");
}

}  // namespace

std::string SchemaFileText(const SchemaProposal& proposal) {
  const Schema& schema = proposal.schema;
  std::string text =
      "# What the columns of the table mean, as `splitveil init` proposes it. Every field: table_schema.proto.\n";
  for (int i = 0; i < schema.columns_size(); ++i) {
    const Schema::Column& column = schema.columns(i);
    absl::StrAppend(&text, "columns { name: ", Quoted(column.name()), " kind: ", Schema::Kind_Name(column.kind()),
                    column.has_scaling() ? absl::StrCat(" scaling: ", Schema::Scaling_Name(column.scaling())) : "",
                    IdFormText(column.id_form()),
                    column.has_time_zone() ? absl::StrCat(" time_zone: ", Quoted(column.time_zone())) : "",
                    column.has_id_pattern() ? absl::StrCat(" id_pattern: ", Quoted(column.id_pattern())) : "",
                    column.has_decimal() ? absl::StrCat(" decimal: ", Schema::Decimal_Name(column.decimal())) : "",
                    column.has_thousands() ? absl::StrCat(" thousands: ", Quoted(column.thousands())) : "");
    for (const auto& [field, texts] :
         {std::pair(" strip: ", &column.strip()), std::pair(" missing: ", &column.missing())}) {
      for (const std::string& one : *texts) {
        absl::StrAppend(&text, field, Quoted(one));
      }
    }
    absl::StrAppend(&text, " }  # ", proposal.why[i], "\n");
  }
  absl::StrAppend(&text, "separator: ", Quoted(schema.separator()), "\nheader: ", schema.header() ? "true" : "false",
                  "\nquotes: ", schema.quotes() ? "true" : "false", "\ntrim: ", schema.trim() ? "true" : "false", "\n");
  if (!schema.missing().empty()) {
    absl::StrAppend(&text, "# Cells that mean \"missing\", besides the empty one.\n",
                    Texts("missing", schema.missing()));
  }
  if (schema.has_rare_below()) {
    absl::StrAppend(
        &text,
        "# Codes in fewer training rows share one embedding: learned alone, they would be learned by heart.\n"
        "rare_below: ",
        schema.rare_below(), "\n");
  }
  absl::StrAppend(&text, Texts("positive", schema.positive()), Texts("negative", schema.negative()),
                  Texts("classes", schema.classes()));
  if (schema.has_target_minimum()) {
    absl::StrAppend(&text, "# Larger and smaller numbers count as these.\ntarget_minimum: ", schema.target_minimum(),
                    "\ntarget_maximum: ", schema.target_maximum(), "\n");
  }
  return text;
}

std::string PartyFileText(const PartyChoices& choices) {
  const char* const role = choices.is_label_party ? "label_party" : "nonlabel_party";
  return absl::StrCat(
      "# Private configuration of the ", choices.is_label_party ? "label party" : "non-label party",
      ", never sent to anybody. Paths are relative to this file. Every field\n"
      "# with default, unit and trade-off: party.proto.\n"
      "party {\n"
      "  # Names as in the certificates. ",
      choices.authority == "peer.pem" ? "peer.pem is the other party's own certificate: no other is accepted."
                                      : "authority.pem has signed both certificates.",
      "\n  identity {\n    own_name: ", Quoted(choices.own_name), "\n    peer_name: ", Quoted(choices.peer_name),
      "\n    certificate_path: \"own.pem\"\n    private_key_path: \"own.key\"\n    authority_path: ",
      Quoted(choices.authority), "\n  }\n  dataset { path: \"", role,
      ".data\" }\n"
      "  # Steps shrink with what a weight has learned, so that rare codes are not learned by heart.\n"
      "  optimizer { learning_rate: 0.02 adagrad {} average_decay: 0.99 }\n"
      "  # Everything that is recorded of the run; reports and audits read it.\n"
      "  ledger_path: \"ledger.db\"\n"
      "  # The next run on the same data with the same peer within a day needs no new alignment. It reveals who is\n"
      "  # shared; only its owner can read it.\n"
      "  alignment_cache_path: \"alignment\"\n"
      "  # An interrupted run resumes from here.\n"
      "  checkpoint_path: \"checkpoint\"\n"
      "  # This party's half of the trained model.\n"
      "  export_dir: \"model\"\n"
      "}\n",
      AddressText(choices), ModelText(choices), choices.is_label_party ? ProtectionText(choices) : "");
}

std::string AgreementFileText(const AgreementChoices& choices) {
  return absl::StrCat(
      "# Proposal of the agreement, the same file at both parties. It holds no secret. `splitveil agreement show` "
      "says\n"
      "# what each value means; the other party takes it with `splitveil agreement accept`. Every field with default\n"
      "# and trade-off: agreement.proto.\n"
      "run_name: ",
      Quoted(choices.run_name),
      "\n"
      "# The non-label party trains the layers up to this one and sends its outputs; the label party trains the rest.\n"
      "cut_layer: ",
      Quoted(choices.cut_layer), "\ncut_width: ", choices.cut_width, "\nbatch_size: ", choices.batch_size,
      "\n"
      "# The gradient of every example is sent once per epoch.\n"
      "epochs: ",
      choices.epochs,
      "\n"
      "# 0: as many as the link needs, at most a sixteenth of an epoch. With more than 1 the parties compute while\n"
      "# batches are on the network, but on slightly older weights, which can cost model quality where an epoch has\n"
      "# few batches.\n"
      "in_flight_batches: ",
      choices.in_flight_batches,
      "\n"
      "# Held out for testing, by a hash of the id: both tables were prepared with it.\n"
      "test_fraction: ",
      choices.test_fraction, "\n", SplitText(choices),
      "# Both parties give their ids these forms before they compare them. The other party's init compares its id "
      "column\n"
      "# with the pattern of these ids: 9 digits, A a letters, in braces how many.\n"
      "alignment {",
      IdFormText(choices.id.id_form()),
      choices.id.has_id_pattern() ? absl::StrCat("\n  id_pattern: ", Quoted(choices.id.id_pattern())) : "",
      "\n  id_column: ", Quoted(choices.id.name()), "\n",
      Texts("  id_shape", {choices.id_shape.begin(), choices.id_shape.end()}),
      "}\n"
      "# The non-label party attacks what it receives; the results stay with the label party.\n"
      "audit {\n  layers: \"cut\"\n  layers: \"first\"\n  attacks: NORM\n  attacks: RESIDUAL_NORM\n"
      "  attacks: SPECTRAL\n  disclosure: LABEL_SIDE_ONLY\n}\n"
      "# Either party may start first.\n"
      "deadlines { connect_seconds: 600 }\n");
}

}  // namespace splitveil
