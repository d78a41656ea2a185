#include "common/operations/dry_run_checks.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/spoken_fingerprint.h"
#include "common/ledger/ledger_reader.h"
#include "common/operations/party_program.h"
#include "common/operations/run_expectation.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "common/transport/certificate_facts.h"

namespace splitveil {
namespace {

constexpr char kCertificates[] = "certificates";
constexpr char kAlignments[] = "alignments";

// Of one file, which LoadTlsIdentity has found in order.
void DescribeCertificates(const std::string& path, const std::string& pem, DryRun& dry_run) {
  const absl::StatusOr<std::vector<CertificateFacts>> facts = ReadCertificateFacts(pem);
  if (!facts.ok()) {
    dry_run.Check(kCertificates, facts.status());
    return;
  }
  for (const CertificateFacts& each : *facts) {
    const std::string text = absl::StrCat(
        path, ": ", each.is_authority ? absl::StrCat("authority ", each.subject) : each.dns_names, ", until ",
        each.not_after, " (", each.days_left, " days), ", each.is_authority || !each.self_signed ? "" : "self-signed, ",
        "fingerprint ", SpokenFingerprint(each.sha256));
    if (each.expired || !each.begun) {
      dry_run.Warn(kCertificates, absl::StrCat(text, ": not valid today; others of the file are"));
    } else if (each.expires_soon()) {
      dry_run.Warn(kCertificates, absl::StrCat(text, ": ends soon"));
    } else {
      dry_run.Check(kCertificates, absl::OkStatus(), text);
    }
  }
}

// As a run counts them: events "aligning". A ledger that is still to be made has none.
absl::StatusOr<int64_t> CountAlignments(const std::string& ledger_path) {
  std::error_code ignored;
  if (!std::filesystem::exists(ledger_path, ignored)) {
    return 0;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<LedgerReader> reader, LedgerReader::Open(ledger_path));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<RunRecord> runs, reader->Runs());
  int64_t begun = 0;
  for (const RunRecord& run : runs) {
    SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRecord> events, reader->Events(run.run.run_id));
    begun +=
        std::count_if(events.begin(), events.end(), [](const EventRecord& event) { return event.kind == "aligning"; });
  }
  return begun;
}

}  // namespace

std::optional<v1::RunAgreement> DryRunAgreement(const std::string& path, DryRun& dry_run) {
  absl::StatusOr<v1::RunAgreement> agreement = LoadAgreement(path);
  if (!dry_run.Check("agreement", agreement.status(),
                     agreement.ok() ? absl::StrCat(path, ": ", agreement->run_name(), ", fingerprint ",
                                                   AgreementFingerprint(*agreement))
                                    : "")) {
    return std::nullopt;
  }
  return *std::move(agreement);
}

void DryRunCertificates(const v1::Identity& identity, const std::string& config_path, DryRun& dry_run) {
  const absl::StatusOr<TlsIdentity> loaded = LoadPartyIdentity(identity, config_path);
  if (!loaded.ok()) {
    dry_run.Check(kCertificates, loaded.status());
    return;
  }
  DescribeCertificates(loaded->certificate_path, loaded->certificate_pem, dry_run);
  DescribeCertificates(loaded->authority_path, loaded->authority_pem, dry_run);
}

std::shared_ptr<const Dataset> DryRunData(const v1::PartyCommon& party, const std::string& config_path,
                                          const v1::RunAgreement& agreement, PreparedFor owner, DryRun& dry_run) {
  absl::StatusOr<std::shared_ptr<const Dataset>> data = OpenPreparedData(party, config_path, agreement, owner);
  std::string detail;
  if (data.ok()) {
    const v1::Preprocessing& prepared = (*data)->preprocessing();
    detail =
        absl::StrCat((*data)->path(), ": ", (*data)->rows(), " rows, ", prepared.numeric_size(), " numeric and ",
                     prepared.categorical_size(), " categorical columns, test_fraction ", prepared.test_fraction());
  }
  return dry_run.Check("data", data.status(), detail) ? *std::move(data) : nullptr;
}

void DryRunAlignments(const v1::PartyCommon& party, const std::string& config_path, DryRun& dry_run) {
  if (party.max_alignments() == 0) {
    return;
  }
  const absl::StatusOr<int64_t> begun = CountAlignments(ResolvePath(config_path, party.ledger_path()));
  if (!begun.ok()) {
    dry_run.Check(kAlignments, begun.status());
    return;
  }
  const std::string text =
      absl::StrCat(*begun, " of at most ", party.max_alignments(), " begun with this ledger (party.max_alignments)");
  const std::string checkpoint = ResolvePath(config_path, party.checkpoint_path());
  std::error_code ignored;
  if (*begun < party.max_alignments()) {
    dry_run.Check(kAlignments, absl::OkStatus(), text);
  } else if (!checkpoint.empty() && std::filesystem::exists(checkpoint, ignored)) {
    dry_run.Warn(kAlignments, absl::StrCat(text, ": only a run that goes on from the checkpoint is left"));
  } else {
    dry_run.Problem(kAlignments, absl::StrCat(text, ": one more is refused"));
  }
}

void DryRunExpectation(const v1::RunAgreement& agreement, const Dataset& data, DryRun& dry_run) {
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const RunExpectation expected = ExpectRun(agreement, data.rows(), data.preprocessing().embedding_rows(), processors);
  const std::string text = RunExpectationText(expected);
  const int64_t available = AvailableMemoryBytes();
  if (available > 0 && expected.peak_memory_bytes > available) {
    dry_run.Warn("expected", absl::StrCat(text, "; this machine has ", available / 1'000'000, " MB free"));
  } else {
    dry_run.Check("expected", absl::OkStatus(), text);
  }
}

}  // namespace splitveil
