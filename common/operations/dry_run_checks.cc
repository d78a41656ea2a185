#include "common/operations/dry_run_checks.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/text_config.h"
#include "common/crypto/spoken_fingerprint.h"
#include "common/operations/party_program.h"
#include "common/operations/run_expectation.h"
#include "common/process/file.h"
#include "common/transport/certificate_facts.h"

namespace splitveil {
namespace {

constexpr char kCertificates[] = "certificates";

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
      dry_run.Problem(kCertificates, absl::StrCat(text, ": not valid today"));
    } else if (each.expires_soon()) {
      dry_run.Warn(kCertificates, absl::StrCat(text, ": ends soon"));
    } else {
      dry_run.Check(kCertificates, absl::OkStatus(), text);
    }
  }
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
