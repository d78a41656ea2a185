#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/operator/align/alignment_host.h"
#include "deploy/operator/align/id_table.h"
#include "deploy/operator/commands.h"
#include "deploy/operator/party_config/party_config.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/line_reader.h"

#include "common/config/agreement.h"
#include "common/dataset/prepared_data.h"
#include "common/ledger/ledger.h"
#include "common/operations/party_program.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/transport/client_call.h"
#include "common/transport/peer_probe.h"

#include "splitveil/v1/alignment.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {
namespace {

// A watchdog for each direction, as both may wait at the same time.
class CallChannel final : public AlignmentChannel {
 public:
  CallChannel(v1::Alignment::Stub* stub, absl::Duration limit)
      : limit_(limit),
        sending_(limit, [this] { context_.TryCancel(); }),
        receiving_(limit, [this] { context_.TryCancel(); }),
        stream_(stub->Align(&context_)) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    sending_.Arm();
    const bool sent = stream_->Write(message);
    sending_.Disarm();
    return sent ? absl::OkStatus() : Gone();
  }

  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    receiving_.Arm();
    const bool received = stream_->Read(&message);
    receiving_.Disarm();
    if (!received) {
      return Gone();
    }
    return message;
  }

  // The label party's verdict.
  absl::Status Finish() {
    stream_->WritesDone();
    receiving_.Arm();
    const grpc::Status status = stream_->Finish();
    receiving_.Disarm();
    return sending_.expired() || receiving_.expired() ? Gone() : FromGrpcStatus(status);
  }

 private:
  absl::Status Gone() const {
    return sending_.expired() || receiving_.expired()
               ? absl::DeadlineExceededError(absl::StrCat("alignment: expected the label party's next message within ",
                                                          absl::FormatDuration(limit_), ", found none"))
               : absl::UnavailableError("alignment: the label party has ended the stream");
  }

  const absl::Duration limit_;
  grpc::ClientContext context_;
  StreamWatchdog sending_, receiving_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>> stream_;
};

// The run id that the label party gives the alignment.
absl::StatusOr<std::string> Open(const AlignmentSide& side, const std::shared_ptr<grpc::Channel>& channel) {
  v1::OpenRequest request;  // Without a commitment to a seed: there is nothing to train.
  *request.mutable_agreement() = side.agreement;
  request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(side.agreement))));
  request.set_version(Version());
  const SteadyTime deadline = SteadyAfter(absl::Seconds(side.agreement.deadlines().step_seconds()));
  const absl::StatusOr<v1::OpenResponse> response =
      CallUnary(v1::SplitTraining::NewStub(channel), &v1::SplitTraining::Stub::Open, request, deadline);
  if (absl::IsInvalidArgument(response.status())) {
    return AsRefusal(absl::FailedPreconditionError(absl::StrCat(
        "expected a label party that aligns only (`splitveil align`), found: ", response.status().message())));
  }
  SPLITVEIL_RETURN_IF_ERROR(response.status());
  if (!IsRunIdOf(side.agreement.run_name(), response->run_id())) {
    return AsRefusal(absl::InvalidArgumentError(
        "Open: the peer's run id is not the run name with 8 hexadecimal digits: the peer runs a different program"));
  }
  return response->run_id();
}

// Waits for the label party at `peer_address`, which runs `splitveil align` too, and aligns with it. Every message has
// the agreement's deadline. Errors: Unavailable, DeadlineExceeded; refusals of the label party; those of
// CountAttempt and AlignIds.
absl::StatusOr<FinishedAlignment> CallAlignment(const AlignmentSide& side, const std::string& peer_address) {
  const v1::Deadlines& deadlines = side.agreement.deadlines();
  const std::string& peer_name = side.identity.peer_name;
  SPLITVEIL_RETURN_IF_ERROR(
      WaitForPeer(peer_address, side.identity, peer_name, SteadyAfter(absl::Seconds(deadlines.connect_seconds()))));
  const std::shared_ptr<grpc::Channel> channel =
      TlsChannel(peer_address, side.identity, peer_name, MaxMessageBytes(side.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string run_id, Open(side, channel));
  SPLITVEIL_RETURN_IF_ERROR(CountAttempt(side, run_id));
  const auto stub = v1::Alignment::NewStub(channel);
  CallChannel stream(stub.get(), absl::Seconds(deadlines.alignment_chunk_seconds()));
  RunStatus status("nonlabel_party");
  absl::StatusOr<FinishedAlignment> finished = AlignCounted(
      side, run_id, &status, [] {}, stream);
  SPLITVEIL_RETURN_IF_ERROR(stream.Finish());  // What AlignIds says is only the consequence of its verdict.
  return finished;
}

struct AlignFlags {
  std::string agreement;
  std::string config;
  std::string role;
  std::string out;
  std::string ids;
  std::vector<std::string> key;
  std::string repeated = "refuse";
};

// Where a party's ids are: prepared data, or a table of its own.
struct OwnIds {
  std::shared_ptr<const Dataset> data;
  std::optional<IdTable> table;

  IdList ids() const { return table.has_value() ? table->ids() : data->ids(); }
};

absl::StatusOr<OwnIds> ReadIds(const AlignFlags& flags, const v1::RunAgreement& agreement, const v1::PartyCommon& party,
                               PreparedFor owner) {
  OwnIds own;
  if (flags.ids.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(own.data, OpenPreparedData(party, agreement, owner));
    return own;
  }
  IdTable::Options options = {flags.ids, flags.key, {}};
  for (const v1::AlignmentAgreement::KeyColumn& column : agreement.alignment().key_column()) {
    options.forms.push_back(FormsIn(column.id_form()));
  }
  if (options.forms.empty()) {
    options.forms.assign(flags.key.size(), FormsIn(agreement.alignment().id_form()));
  }
  const auto& patterns = agreement.alignment().id_pattern();
  options.patterns.assign(patterns.begin(), patterns.end());
  options.repeated = flags.repeated == "first"  ? RepeatedKeys::kFirst
                     : flags.repeated == "last" ? RepeatedKeys::kLast
                                                : RepeatedKeys::kRefuse;
  options.spill_path = SpillPath(party);
  SPLITVEIL_ASSIGN_OR_RETURN(own.table, IdTable::Read(options));
  return own;
}

// That what is shared replaces nothing but what an earlier alignment wrote: own ids, or numbers of rows of an own
// table. Error: AlreadyExists.
absl::Status CheckSharedPath(const std::string& path, const OwnIds& own) {
  absl::StatusOr<std::unique_ptr<LineReader>> reader = LineReader::Open(path);
  if (absl::IsNotFound(reader.status())) {
    return absl::OkStatus();
  }
  // Hashes, as a set of the lines would take several times the memory.
  std::vector<uint64_t> lines;
  bool readable = reader.ok(), more = readable;
  for (absl::string_view line; more;) {
    const absl::StatusOr<bool> next = (*reader)->Next(&line);
    readable = next.ok();
    if (more = next.ok() && *next; more) {
      lines.push_back(absl::HashOf(line));
    }
  }
  std::sort(lines.begin(), lines.end());
  // Each once: a list of customer numbers is no list of rows.
  const bool distinct = std::adjacent_find(lines.begin(), lines.end()) == lines.end();
  const uint64_t rows = own.ids().size() + (own.table.has_value() ? static_cast<uint64_t>(own.table->left_out()) : 0);
  size_t found = 0;
  for (uint64_t row = 0; row < rows && distinct && found < lines.size(); ++row) {
    const absl::AlphaNum number(row);
    const uint64_t hash = absl::HashOf(own.table.has_value() ? number.Piece() : own.ids()[row]);
    found += std::binary_search(lines.begin(), lines.end(), hash) ? 1 : 0;
  }
  return readable && distinct && found == lines.size()
             ? absl::OkStatus()
             : absl::AlreadyExistsError(absl::StrCat(path,
                                                     ": --out: this file holds no earlier shared ids of this party, "
                                                     "so it is not overwritten: set a different file"));
}

// One id per line, in the order of the own data; of an own table its row numbers, in the order both parties share.
absl::Status WriteShared(const std::string& path, std::vector<uint32_t> rows, const OwnIds& own) {
  if (!own.table.has_value()) {
    // The alignment's order is random and says nothing; the table's order is easier to compare.
    std::sort(rows.begin(), rows.end());
  }
  // Who is a customer of both is neither's to publish.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PendingFile> file, PendingFile::Create(path, kOwnerOnly));
  for (const uint32_t row : rows) {
    SPLITVEIL_RETURN_IF_ERROR(file->Append(own.table.has_value() ? absl::StrCat(own.table->row_number(row), "\n")
                                                                 : absl::StrCat(own.ids()[row], "\n")));
  }
  return PendingFile::Publish({file.get()});
}

void PrintSummary(const char* role, const FinishedAlignment& finished, const OwnIds& own,
                  const v1::AlignmentAgreement& agreement) {
  const size_t rows = own.ids().size();
  std::printf("%s: %zu own rows, %zu shared, %llu rows of the peer, %.1f s, %lld bytes sent, %lld received\n", role,
              rows, finished.aligned.rows.size(), static_cast<unsigned long long>(finished.aligned.peer_ids),
              finished.seconds, static_cast<long long>(finished.aligned.bytes_sent),
              static_cast<long long>(finished.aligned.bytes_received));
  if (own.table.has_value() && own.table->left_out() > 0) {
    std::printf("left out: %lld more own rows, whose key repeats\n", static_cast<long long>(own.table->left_out()));
  }
  const std::string low =
      DescribeLowShare({static_cast<int64_t>(finished.aligned.rows.size()), static_cast<int64_t>(rows),
                        static_cast<int64_t>(finished.aligned.peer_ids)},
                       agreement.low_shared_share());
  std::printf("%s%s%s", low.empty() ? "" : "WARNING: ", low.c_str(), low.empty() ? "" : "\n");
}

absl::StatusOr<ExitCode> Align(const AlignFlags& flags) {
  AlignmentSide side;
  SPLITVEIL_ASSIGN_OR_RETURN(side.agreement, LoadAgreement(flags.agreement));
  SPLITVEIL_ASSIGN_OR_RETURN(const PartyConfig config, LoadPartyConfig(flags.config, flags.role));
  const auto* const label = std::get_if<v1::LabelPartyConfig>(&config);
  const auto* const nonlabel = std::get_if<v1::NonLabelPartyConfig>(&config);
  const v1::PartyCommon& party = label != nullptr ? label->party() : nonlabel->party();
  SPLITVEIL_ASSIGN_OR_RETURN(side.identity, LoadPartyIdentity(party.identity()));
  SPLITVEIL_ASSIGN_OR_RETURN(
      const OwnIds own,
      ReadIds(flags, side.agreement, party, label != nullptr ? PreparedFor::kLabelParty : PreparedFor::kNonLabelParty));
  side.ids = own.ids();
  side.party = party;
  side.attempt = {"", "align", static_cast<int64_t>(side.ids.size()), flags.repeated,
                  own.table.has_value() ? own.table->left_out() : 0};
  // Known before the peer waits for this party. What counts is CountAttempt.
  SPLITVEIL_RETURN_IF_ERROR(CheckLedgerOf(party, flags.config));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t begun, CountAlignments(party.ledger_path()));
  if (const absl::Status left = CheckAlignmentLimit(begun, party.max_alignments()); !left.ok()) {
    return AsRefusal(left);
  }
  SPLITVEIL_RETURN_IF_ERROR(flags.out.empty() ? absl::OkStatus() : CheckSharedPath(flags.out, own));
  // Before any connection: ids cross it only masked, but set sizes do in the clear.
  RequireTls13();
  SPLITVEIL_ASSIGN_OR_RETURN(const FinishedAlignment finished, label != nullptr
                                                                   ? HostAlignment(side, label->listen_address())
                                                                   : CallAlignment(side, nonlabel->peer_address()));
  if (!flags.out.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(WriteShared(flags.out, finished.aligned.rows, own));
  }
  PrintSummary(label != nullptr ? kLabelPartyRole : kNonLabelPartyRole, finished, own, side.agreement.alignment());
  return ExitCode::kDone;
}

}  // namespace

void AddAlignCommand(CommandLine& line) {
  const auto flags = std::make_shared<AlignFlags>();
  CLI::App& command = line.AddCommand(
      {"align",
       "Find the rows that both parties share, without training; both parties run it. It counts as one alignment in "
       "the "
       "ledger of the configuration (party.max_alignments).",
       "splitveil align --agreement=run.textproto --config=label_party.textproto --out=shared_ids", "Before a run"},
      [flags] { return Align(*flags); });
  AddValue(command, "--agreement=FILE", flags->agreement, "The run agreement, the same file at both parties.")
      ->required();
  AddValue(command, "--config=FILE", flags->config, "This party's private configuration.")->required();
  AddValue(command, "--role=PARTY", flags->role, "Whose configuration it is.")
      ->default_str("inferred from its fields")
      ->check(OneOf({kLabelPartyRole, kNonLabelPartyRole}));
  AddValue(command, "--out=FILE", flags->out,
           "Write this party's shared ids to this file, one per line, readable only by its owner. With --ids: the "
           "numbers of its shared rows, from 0 for the one below the header line, in an order that is the same at both "
           "parties. Overwrites only what an earlier alignment wrote.");
  CLI::Option* const ids = AddValue(
      command, "--ids=FILE", flags->ids,
      "Take the ids from this table instead of prepared data. It has a header line, cells between tabs, commas or "
      "semicolons, and may be packed. Only the cells of the key are kept.");
  CLI::Option* const key =
      AddValue(
          command, "--key=COLUMN,COLUMN", flags->key,
          "The column of the table that holds the ids, or several that together make one, in the same order at both "
          "parties.")
          ->delimiter(',');
  ids->needs(key);
  key->needs(ids);
  AddValue(command, "--repeated=RULE", flags->repeated,
           "What to do with rows that have the same key: refuse them, or keep the first or the last.")
      ->default_str("refuse")
      ->check(OneOf({"refuse", "first", "last"}))
      ->needs(ids);
}

}  // namespace splitveil
