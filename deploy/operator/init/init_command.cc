#include <unistd.h>

#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/init/dialogue.h"
#include "deploy/operator/init/party_setup.h"

#include "common/status/status_macros.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

constexpr char kLabelParty[] = "label_party";

struct InitFlags {
  PartySetupOptions options;
  std::string certificate = "self_signed";
};

// What every party must say, asked for where a person can answer.
absl::Status FillMissing(PartySetupOptions& options) {
  // A script must get an error, not a question that waits for ever.
  Dialogue dialogue(&std::cin, &std::cout, isatty(STDIN_FILENO) == 1);
  PartyChoices& choices = options.choices;
  SPLITVEIL_RETURN_IF_ERROR(
      dialogue.Fill({"--role", "Which party is this", "", {kLabelParty, "nonlabel_party"}}, options.role));
  choices.is_label_party = options.role == kLabelParty;
  options.tables.resize(std::max<size_t>(options.tables.size(), 1));
  SPLITVEIL_RETURN_IF_ERROR(dialogue.Fill({"--table", "Its table (a CSV file)", ""}, options.tables.front()));
  if (choices.is_label_party) {
    SPLITVEIL_RETURN_IF_ERROR(dialogue.Fill({"--label", "Column to be predicted", "", {}}, options.schema.label));
  }
  SPLITVEIL_RETURN_IF_ERROR(
      dialogue.Fill({"--own_name", "DNS name of this party, such as bank.example", ""}, choices.own_name));
  SPLITVEIL_RETURN_IF_ERROR(dialogue.Fill({"--peer_name", "DNS name of the other party", ""}, choices.peer_name));
  if (choices.is_label_party) {
    SPLITVEIL_RETURN_IF_ERROR(
        dialogue.Fill({"--listen_address", "Where to listen", "0.0.0.0:7443"}, choices.listen_address));
    SPLITVEIL_RETURN_IF_ERROR(dialogue.Fill(
        {"--protection", "Protection of the labels", "gaussian_label_dp", {"gaussian_label_dp", "marvell", "none"}},
        choices.protection));
  } else {
    SPLITVEIL_RETURN_IF_ERROR(
        dialogue.Fill({"--peer_address", "Where the label party listens", absl::StrCat(choices.peer_name, ":7443")},
                      choices.peer_address));
    // The peer does not connect to the non-label party: the port serves health checks on this machine.
    choices.listen_address = choices.listen_address.empty() ? "127.0.0.1:0" : choices.listen_address;
  }
  if (choices.is_label_party && choices.protection != "none") {
    SPLITVEIL_RETURN_IF_ERROR(
        dialogue.Fill({"--max_run_auc_bound", "Largest AUC that an adversary may reach over the whole run", "0.7"},
                      choices.max_run_auc_bound));
  }
  if (!options.schema.time.empty() && options.proposal.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(
        dialogue.Fill({"--test_after", "Time from which on rows are for testing, written as in that column", ""},
                      options.proposed.test_after));
  }
  return dialogue.Fill({"--out", "Folder to write to", options.role}, options.out);
}

absl::Status CheckBound(const std::string& bound) {
  double value = 0;
  return bound.empty() || (absl::SimpleAtod(bound, &value) && value > 0.5 && value < 1)
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrCat("command line: --max_run_auc_bound: expected a number above 0.5 and below 1, found \"",
                                bound, "\""));
}

absl::Status Unused(const char* flag, const char* why) {
  return absl::InvalidArgumentError(absl::StrCat("command line: ", flag, ": has no effect ", why, ": remove it"));
}

// What would be silently without effect.
absl::Status CheckUnused(const PartySetupOptions& options) {
  const PartyChoices& choices = options.choices;
  if (options.role == kLabelParty && !choices.peer_address.empty()) {
    return Unused("--peer_address", "at the label party, because the non-label party connects to it");
  }
  if (options.role == "nonlabel_party" && (!choices.protection.empty() || !choices.max_run_auc_bound.empty())) {
    return Unused(choices.protection.empty() ? "--max_run_auc_bound" : "--protection",
                  "at the non-label party, because the label party protects its labels");
  }
  if (choices.protection == "none" && !choices.max_run_auc_bound.empty()) {
    return Unused("--max_run_auc_bound", "beside --protection=none, which bounds nothing");
  }
  if (!options.proposal.empty() && !options.id_forms.empty()) {
    return Unused("--id_form", "beside --proposal, which has its own");
  }
  if (!options.proposal.empty() && !options.schema.id_pattern.empty()) {
    return Unused("--id_pattern", "beside --proposal, which has its own");
  }
  if (!options.proposal.empty() && (options.proposed.epochs > 0 || options.proposed.batch_size > 0)) {
    return Unused(options.proposed.epochs > 0 ? "--epochs" : "--batch_size", "beside --proposal, which has its own");
  }
  if (!options.proposal.empty() && !options.proposed.test_after.empty()) {
    return Unused("--test_after", "beside --proposal, which has its own");
  }
  const bool splits_by_time = !options.schema.time.empty() || !options.proposed.test_after.empty();
  if (!options.schema.group.empty() && splits_by_time) {
    return absl::InvalidArgumentError(
        "command line: --group: expected one split, found --time or --test_after beside it: remove either");
  }
  return absl::OkStatus();
}

// What every start would refuse, after files have gone to the other party and back.
absl::Status CheckNamesAndAddresses(const PartyChoices& choices) {
  if (choices.own_name == choices.peer_name) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --peer_name: expected a different name from --own_name, found \"",
                     choices.peer_name, "\" twice"));
  }
  for (const auto& [flag, address] : {std::pair("command line: --peer_address", &choices.peer_address),
                                      std::pair("command line: --listen_address", &choices.listen_address)}) {
    if (!address->empty()) {
      SPLITVEIL_RETURN_IF_ERROR(ParseHostPort(flag, *address).status());
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ExitCode> Init(const InitFlags& flags) {
  PartySetupOptions options = flags.options;
  SPLITVEIL_RETURN_IF_ERROR(CheckUnused(options));
  SPLITVEIL_RETURN_IF_ERROR(FillMissing(options));
  SPLITVEIL_RETURN_IF_ERROR(CheckBound(options.choices.max_run_auc_bound));
  SPLITVEIL_RETURN_IF_ERROR(CheckNamesAndAddresses(options.choices));
  options.makes_request = flags.certificate == "request";
  if (options.makes_request && !options.peer_certificate.empty()) {
    return absl::InvalidArgumentError(
        "command line: --peer_certificate: has no effect beside --certificate=request, because an authority vouches "
        "for "
        "the peer: remove it");
  }
  SPLITVEIL_RETURN_IF_ERROR(SetUpParty(options));
  return ExitCode::kDone;
}

void AddTableFlags(PartySetupOptions& options, CLI::App& command) {
  AddValue(command, "--role=ROLE", options.role, "Which party this is.")
      ->default_str("asked for")
      ->check(OneOf({kLabelParty, "nonlabel_party"}));
  AddValue(command, "--table=FILE", options.tables,
           "This party's table: CSV with any separator, plain or .gz, .zst or .xz; a folder or a pattern (parts/*.csv) "
           "of files with one header line each; or -, standard input. Repeat it for several.")
      ->default_str("asked for");
  AddValue(command, "--id=COLUMN", options.schema.id, "Column with the id that both parties' tables share.")
      ->default_str("the one whose cells all differ");
  AddValue(command, "--id_form=FORM", options.id_forms,
           "Form that both parties give their ids: UNICODE_NFC, CASE_FOLD (capitals are small letters), INTEGER "
           "(100000.0 and 0100000 are 100000), DIGITS (nothing but digits) or AS_WRITTEN; repeat it for several. It "
           "is part of the proposal.")
      ->default_str("UNICODE_NFC, with INTEGER if all are whole numbers, and CASE_FOLD if none has capitals")
      ->check(OneOf({"UNICODE_NFC", "CASE_FOLD", "INTEGER", "DIGITS", "AS_WRITTEN"}));
  AddValue(
      command, "--id_pattern=REGEX", options.schema.id_pattern,
      "Regular expression (RE2) that every id of both parties must fit as a whole, such as [0-9]{10}. It is part of "
      "the proposal; an id that does not fit is an error, with its line.")
      ->default_str("none: any id");
  AddValue(command, "--label=COLUMN", options.schema.label, "Column to be predicted, of the label party.")
      ->default_str("asked for");
  AddValue(command, "--positive=TEXT", options.schema.positive, "Which of the label's two values is the positive one.")
      ->default_str("1, yes, true, ...");
  AddValue(command, "--class=TEXT", options.schema.classes,
           "One value of a label with several classes; repeat it for each.");
  AddValue(command, "--target_minimum=NUMBER", options.schema.target_minimum,
           "Smallest value of a number to be predicted.");
  AddValue(command, "--target_maximum=NUMBER", options.schema.target_maximum,
           "Largest value of a number to be predicted.");
  AddValue(command, "--categorical=COLUMN", options.schema.categorical, "Column that holds codes or texts.");
  AddValue(command, "--numeric=COLUMN", options.schema.numeric, "Column that holds numbers.");
  AddValue(command, "--ignore=COLUMN", options.schema.ignore, "Column to leave out.");
  AddValue(command, "--group=COLUMN", options.schema.group,
           "Column with a person's or patient's number, which repeats: all rows of one are on the same side of the "
           "split, and it is no feature. The other table needs the same column.")
      ->default_str("no groups; if --proposal splits by groups, the one column that looks like a group");
  AddValue(command, "--time=COLUMN", options.schema.time,
           "Column with each row's time, for a split by --test_after. The other table needs the same column.")
      ->default_str("the one column of dates");
  AddValue(command, "--time_zone=ZONE", options.schema.time_zone,
           "Zone of that column's times of day, if they have no offset from UTC: UTC, Europe/Berlin, ....")
      ->default_str("none: they need an offset");
}

void AddReadingFlags(PartySetupOptions& options, CLI::App& command) {
  AddValue(command, "--missing=TEXT", options.schema.missing,
           "Text that stands for a missing value, besides NA, null, ....");
  AddValue(command, "--decimal=SIGN", options.schema.decimal,
           "What 1,234 and 1.234 mean where the column leaves it open: point reads 1234 and 1.234, comma the reverse.")
      ->default_str("detected")
      ->check(OneOf({"point", "comma"}));
  AddValue(command, "--separator=BYTE", options.layout.separator, "Between cells.")->default_str("detected");
  AddValue(command, "--header=YES", options.layout.header, "Whether the first line names the columns.")
      ->default_str("detected")
      ->check(OneOf({"yes", "no"}));
  AddValue(command, "--profile=FILE", options.profile,
           "File for the profile of the table's columns: a page if its name ends with .html, else JSON.");
  command.add_flag("--skip_bad_rows", options.skip_bad_rows,
                   "Leave out rows that cannot be used, as long as --min_usable_share of them can.");
  AddValue(command, "--min_usable_share=SHARE", options.min_usable_share,
           "With --skip_bad_rows: minimum share of usable rows.")
      ->check(NumberIn(0, 1));
}

void AddPeerFlags(InitFlags& flags, CLI::App& command) {
  PartySetupOptions& options = flags.options;
  PartyChoices& choices = options.choices;
  AddValue(command, "--own_name=NAME", choices.own_name, "DNS name of this party, which its certificate carries.")
      ->default_str("asked for");
  AddValue(command, "--peer_name=NAME", choices.peer_name, "DNS name of the other party.")->default_str("asked for");
  AddValue(command, "--peer_address=HOST:PORT", choices.peer_address,
           "Address of the label party; for the non-label party only.")
      ->default_str("port 7443 of --peer_name");
  AddValue(command, "--listen_address=HOST:PORT", choices.listen_address, "Address on which the label party listens.")
      ->default_str("0.0.0.0:7443 of the label party");
  AddValue(command, "--certificate=KIND", flags.certificate,
           "self_signed: one that the peer pins; request: one for an authority to sign.")
      ->check(OneOf({"self_signed", "request"}));
  AddValue(command, "--peer_certificate=FILE", options.peer_certificate, "The other party's own.pem, if you have it.");
  AddValue(command, "--proposal=FILE", options.proposal,
           "The other party's run.textproto, if it sent one. The table is prepared for it; that does not accept it.");
}

void AddRunFlags(PartySetupOptions& options, CLI::App& command) {
  options.proposed.run_name = "first-run";
  options.proposed.test_fraction = "0.1";
  AddValue(command, "--model=PRESET", options.choices.preset, "Model preset, with its cut layer from the papers.")
      ->default_str("TABULAR, or the one of the proposal")
      ->check(OneOf({"TABULAR", "MULTILAYER_PERCEPTRON", "WIDE_AND_DEEP", "WIDE_AND_DEEP_8"}));
  AddValue(command, "--protection=NAME", options.choices.protection, "Protection of the gradients.")
      ->default_str("gaussian_label_dp")
      ->check(OneOf({"gaussian_label_dp", "marvell", "none"}));
  AddValue(command, "--max_run_auc_bound=AUC", options.choices.max_run_auc_bound,
           "What an adversary may reach over the whole run: 0.5 is guessing.")
      ->default_str("0.7");
  AddValue(command, "--run_name=TEXT", options.proposed.run_name, "Proposed name of the run.");
  AddValue(command, "--epochs=N", options.proposed.epochs, "Proposed passes over the examples; 0: by the table's size.")
      ->check(IntegerIn(0, 100000));
  AddValue(command, "--batch_size=N", options.proposed.batch_size, "Proposed; 0: by the table's size.")
      ->check(IntegerIn(0, 1048576));
  AddValue(command, "--test_fraction=SHARE", options.proposed.test_fraction, "Proposed share held out for testing.")
      ->check(NumberIn(0, 0.9));
  AddValue(command, "--test_after=TIME", options.proposed.test_after,
           "Proposed: rows from this time on are for testing, instead of --test_fraction.");
  AddValue(command, "--out=DIR", options.out, "Folder to write to.")->default_str("the role's name");
  command.add_flag("--force", options.force, "Replace what an earlier init wrote, except the key and certificate.");
}

}  // namespace

void AddInitCommand(CommandLine& line) {
  const auto flags = std::make_shared<InitFlags>();
  CLI::App& command =
      line.AddCommand({"init",
                       "Prepare a party for training from its table: propose a schema, encode the data, make a key and "
                       "certificate, and "
                       "write the configuration and a proposed agreement. Asks for what is missing.",
                       "splitveil init --role=label_party --table=bank.csv --label=defaulted --own_name=bank.example "
                       "--peer_name=shop.example --out=bank",
                       "Before a run"},
                      [flags] { return Init(*flags); });
  AddTableFlags(flags->options, command);
  AddReadingFlags(flags->options, command);
  AddPeerFlags(*flags, command);
  AddRunFlags(flags->options, command);
}

}  // namespace splitveil
