#include "common/operations/run_facts.h"

#include <algorithm>
#include <array>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "common/config/agreement.h"
#include "common/crypto/secure_random.h"
#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Enough to keep the runs of a ledger apart; it is no secret.
constexpr size_t kRunNumberBytes = 4;

}  // namespace

std::string NewRunId(const std::string& run_name) {
  // Random: nothing has to be agreed with the other runs of either party's ledger.
  std::array<uint8_t, kRunNumberBytes> bytes;
  FillSecureRandom(absl::MakeSpan(bytes));
  return absl::StrCat(run_name, "-",
                      absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

bool IsRunIdOf(const std::string& run_name, absl::string_view run_id) {
  // The peer chooses this text, and it becomes part of file names and pages: only the exact form is accepted.
  return absl::ConsumePrefix(&run_id, run_name) && absl::ConsumePrefix(&run_id, "-") &&
         run_id.size() == 2 * kRunNumberBytes && std::all_of(run_id.begin(), run_id.end(), [](char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

RunRow DescribeRun(const std::string& run_id, const std::string& role, const std::string& protection,
                   const v1::RunAgreement& agreement, const std::string& peer_version) {
  RunRow run;
  run.run_id = run_id;
  run.role = role;
  run.protection = protection;
  run.agreement_sha256 = absl::BytesToHexString(AsBytes(AgreementSha256(agreement)));
  std::string agreement_json;
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(agreement, &agreement_json, print);
  nlohmann::ordered_json facts;
  facts["version"] = Version();
  // The peer chooses this text: it is cut, and escaped as JSON below.
  facts["peer_version"] = peer_version.substr(0, 32);
  facts["agreement"] = nlohmann::ordered_json::parse(agreement_json, nullptr, /*allow_exceptions=*/false);
  run.config_json = facts.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  return run;
}

absl::StatusOr<std::unique_ptr<Ledger>> BeginLedger(const std::string& path, const RunRow& run,
                                                    v1::DisclosureLevel disclosure, int64_t retained_steps) {
  absl::StatusOr<std::unique_ptr<Ledger>> ledger = Ledger::Create(path, run, retained_steps);
  if (!ledger.ok()) {
    return ledger.status();
  }
  absl::Status status =
      (*ledger)->RecordEvent("disclosure", absl::StrCat("attack module reads: ", v1::DisclosureLevel_Name(disclosure)));
  return status.ok() ? std::move(ledger) : status;
}

absl::Status CountTakeUp(Ledger& ledger, const std::string& checkpoint) {
  const std::string detail = absl::StrCat("from checkpoint ", checkpoint);
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t before, ledger.CountEventsOfRun("continued", detail));
  // A peer can interrupt a run on purpose: a limit keeps it from trying without end (architecture rule 2).
  if (before >= kMaxTakeUps) {
    return absl::ResourceExhaustedError(
        absl::StrCat("unfinished: the run was resumed from ", checkpoint, " ", before, " times, at most ", kMaxTakeUps,
                     " are allowed: find out what interrupts it, or set restart to begin a new run"));
  }
  SPLITVEIL_RETURN_IF_ERROR(ledger.RecordEvent("continued", detail));
  return ledger.Commit();
}

absl::Status CountAlignment(const Ledger& ledger, int64_t ids, int64_t limit, int& left) {
  // A lost connection lets the peer start over with a different list of ids. Few attempts keep that useless.
  if (left <= 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("alignment: none of ", kMostAlignments,
                     " attempts succeeded: find out what breaks the connection, then start both parties again"));
  }
  AlignmentRow row;
  row.ids = ids;
  SPLITVEIL_RETURN_IF_ERROR(RecordAlignment(ledger.path(), ledger.run_id(), std::move(row), limit));
  --left;
  return absl::OkStatus();
}

}  // namespace splitveil
