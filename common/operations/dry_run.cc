#include "common/operations/dry_run.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/alignment/buckets.h"
#include "common/alignment/masking_key.h"
#include "common/config/agreement.h"
#include "common/crypto/sha256.h"
#include "common/figures/figure_words.h"
#include "common/ledger/ledger.h"
#include "common/process/file.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/transport/certificate.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {
namespace {

// One line of printable text, even if a file name or an error holds control characters.
std::string OneLine(absl::string_view text) {
  std::string line(text);
  // A control character in a file's name could hide the lines above on a terminal.
  std::replace_if(
      line.begin(), line.end(), [](char c) { return absl::ascii_iscntrl(c); }, ' ');
  return line;
}

// Measured: OPERATIONS.md, "Sizing". 200,000 rows: 0.21 GiB, 1 million: 0.35, 10 million: 1.33, 45 million: 5.1.
constexpr double kProgramBytes = 0.2 * (1 << 30);
constexpr double kBytesPerAlignedId = 61;  // Of either party, in one bucket.
// In several (AlignmentAgreement.bucket_ids).
constexpr double kBytesPerBucketId = 130, kBytesPerSharedId = 8;
constexpr absl::Duration kMeasured = absl::Seconds(1);  // Of each speed.
constexpr double kEvaluationShare = 0.3;                // Cost of a test example relative to a training example.
// Four floats of an embedding and two moments of each: 12 * 4 bytes.
constexpr double kBytesPerEmbeddingRow = 48;

std::string DurationText(double seconds) {
  if (seconds < 1) {
    return "under 1 s";
  }
  if (seconds < 120) {
    return absl::StrFormat("about %.0f s", seconds);
  }
  return seconds < 7200 ? absl::StrFormat("about %.0f min", seconds / 60)
                        : absl::StrFormat("about %.1f h", seconds / 3600);
}

std::string BytesText(double bytes) {
  return bytes < 1e9 ? absl::StrFormat("%.0f MB", std::ceil(bytes / 1e6)) : absl::StrFormat("%.1f GB", bytes / 1e9);
}

// One line for people.
std::string RunExpectationText(const RunExpectation& expected) {
  return absl::StrCat("memory at the peak about ", BytesText(static_cast<double>(expected.peak_memory_bytes)),
                      "; alignment ", DurationText(expected.alignment_seconds),
                      " with a peer like this party; training ", DurationText(expected.training_seconds),
                      " for this half without attacks, to which the peer's dry run adds its own, and ",
                      BytesText(expected.bytes_each_way), " each way (measured on this machine for two seconds)");
}

constexpr char kCertificates[] = "certificates";
constexpr char kAlignments[] = "alignments";

// Describes the certificates of one file, which LoadTlsIdentity has accepted.
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
    // Only a warning: LoadTlsIdentity has found one certificate of the file that holds today.
    if (each.expired || !each.begun) {
      dry_run.Warn(kCertificates, absl::StrCat(text, ": not valid today; others of the file are"));
    } else if (each.expires_soon()) {
      dry_run.Warn(kCertificates, absl::StrCat(text, ": ends soon"));
    } else {
      dry_run.Check(kCertificates, absl::OkStatus(), text);
    }
  }
}

void CheckAlignments(const v1::PartyCommon& party, DryRun& dry_run) {
  const absl::StatusOr<int64_t> begun = CountAlignments(party.ledger_path());
  if (!begun.ok()) {
    dry_run.Check(kAlignments, begun.status());
    return;
  }
  const std::string text =
      absl::StrCat(*begun, " of at most ", party.max_alignments(), " begun with this ledger (party.max_alignments)");
  const std::string& checkpoint = party.checkpoint_path();
  std::error_code ignored;
  if (*begun < party.max_alignments()) {
    dry_run.Check(kAlignments, absl::OkStatus(), text);
  } else if (!checkpoint.empty() && std::filesystem::exists(checkpoint, ignored)) {
    dry_run.Warn(kAlignments, absl::StrCat(text, ": only a run that resumes from the checkpoint is left"));
  } else {
    dry_run.Problem(kAlignments, absl::StrCat(text, ": one more is refused"));
  }
}

}  // namespace

bool DryRun::Check(absl::string_view what, const absl::Status& status, absl::string_view detail) {
  items_.push_back({status.ok() ? Outcome::kOk : Outcome::kProblem, std::string(what),
                    OneLine(status.ok() ? detail : status.message())});
  return status.ok();
}

void DryRun::Warn(absl::string_view what, absl::string_view text) {
  items_.push_back({Outcome::kWarning, std::string(what), OneLine(text)});
}

void DryRun::Problem(absl::string_view what, absl::string_view text) {
  items_.push_back({Outcome::kProblem, std::string(what), OneLine(text)});
}

std::string DryRun::Text() const {
  std::string text;
  for (const Item& item : items_) {
    const char* const outcome = item.outcome == Outcome::kOk        ? "ok"
                                : item.outcome == Outcome::kWarning ? "warning"
                                                                    : "problem";
    absl::StrAppendFormat(&text, "%-7s  %-15s  %s\n", outcome, item.what, item.text);
  }
  return text;
}

absl::Status DryRun::status() const {
  const auto is_problem = [](const Item& item) { return item.outcome == Outcome::kProblem; };
  const auto problems = std::count_if(items_.begin(), items_.end(), is_problem);
  if (problems == 0) {
    return absl::OkStatus();
  }
  // The first problem often causes the others, so it is the one to name.
  const Item& first = *std::find_if(items_.begin(), items_.end(), is_problem);
  return absl::InvalidArgumentError(absl::StrCat("dry run: ", problems, " of ", items_.size(),
                                                 " checks failed, the first: ", first.what, ": ", first.text));
}

absl::StatusOr<TlsIdentity> LoadPartyIdentity(const v1::Identity& identity) {
  return LoadTlsIdentity(identity.own_name(), identity.peer_name(), identity.certificate_path(),
                         identity.private_key_path(), identity.authority_path());
}

namespace {

// Mean time of as many calls as fit into `measured`. The first call warms up and does not count.
absl::StatusOr<double> MeanSeconds(absl::FunctionRef<absl::Status()> call, absl::Duration measured) {
  SPLITVEIL_RETURN_IF_ERROR(call());
  const SteadyTime start = SteadyNow();
  const SteadyTime end = SteadyAfter(measured, start);
  int64_t calls = 0;
  do {
    SPLITVEIL_RETURN_IF_ERROR(call());
    ++calls;
  } while (SteadyNow() < end);
  return SecondsSince(start) / static_cast<double>(calls);
}

}  // namespace

absl::StatusOr<MaskingSpeed> MeasureMasking() {
  const MaskingKey key = MaskingKey::Generate();
  const IdHasher hasher("dry run");
  // Many at a time, as an alignment does it.
  std::array<Point, 64> own, both;
  const auto result = [](bool masked) {
    return masked ? absl::OkStatus() : absl::InternalError("an id could not be masked");
  };
  const auto mask_own = [&] {
    return result(key.MaskHashes([&](size_t i) { return hasher.Hash(absl::StrCat(i)); }, 1, absl::MakeSpan(own)));
  };
  const auto mask_peer = [&] { return result(key.Mask(own, 1, absl::MakeSpan(both))); };
  MaskingSpeed speed;
  SPLITVEIL_ASSIGN_OR_RETURN(speed.own_seconds, MeanSeconds(mask_own, kMeasured / 2));
  SPLITVEIL_ASSIGN_OR_RETURN(speed.peer_seconds, MeanSeconds(mask_peer, kMeasured / 2));
  speed.own_seconds /= static_cast<double>(own.size());
  speed.peer_seconds /= static_cast<double>(own.size());
  return speed;
}

absl::StatusOr<MachineSpeed> MeasureMachine(absl::FunctionRef<absl::Status()> step) {
  MachineSpeed speed;
  SPLITVEIL_ASSIGN_OR_RETURN(const MaskingSpeed masking, MeasureMasking());
  speed.id_seconds = masking.own_seconds + masking.peer_seconds;
  SPLITVEIL_ASSIGN_OR_RETURN(speed.step_seconds, MeanSeconds(step, kMeasured));
  return speed;
}

double AlignmentMemoryBytes(uint64_t ids, uint64_t peer_ids, uint64_t bucket_ids) {
  const Buckets buckets = SplitIntoBuckets(ids, peer_ids, bucket_ids);
  if (buckets.count == 1) {
    return kProgramBytes + kBytesPerAlignedId * static_cast<double>(ids + peer_ids);
  }
  // Of a bucket, and of each id that may be shared.
  return kProgramBytes +
         kBytesPerBucketId * static_cast<double>(std::max(buckets.own_capacity, buckets.peer_capacity)) +
         kBytesPerSharedId * static_cast<double>(std::min(ids, peer_ids));
}

RunExpectation ExpectRun(const v1::RunAgreement& agreement, int64_t rows, int64_t embedding_rows, int processors,
                         const MachineSpeed& speed) {
  const auto examples = static_cast<double>(rows);
  const double test = examples * agreement.test_fraction();
  const double epochs = agreement.epochs();
  const double number_bytes = agreement.wire_dtype() == v1::FLOAT32 ? 4 : 2;
  RunExpectation expected;
  expected.peak_memory_bytes = static_cast<int64_t>(kProgramBytes + 2 * kBytesPerAlignedId * examples +
                                                    kBytesPerEmbeddingRow * static_cast<double>(embedding_rows));
  expected.alignment_seconds = examples * speed.id_seconds / processors;
  expected.training_seconds =
      speed.step_seconds * epochs * (examples - test + kEvaluationShare * test) / agreement.batch_size();
  expected.bytes_each_way = epochs * (examples - test) * agreement.cut_width() * number_bytes;
  return expected;
}

int64_t AvailableMemoryBytes() {
  std::ifstream stream("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  std::string unit;
  while (stream >> name >> kibibytes) {
    std::getline(stream, unit);
    if (name == "MemAvailable:") {
      return kibibytes * 1024;
    }
  }
  return 0;
}

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

void DryRunConfiguration(const v1::PartyCommon& party, DryRun& dry_run) {
  const absl::StatusOr<TlsIdentity> identity = LoadPartyIdentity(party.identity());
  if (identity.ok()) {
    DescribeCertificates(identity->certificate_path, identity->certificate_pem, dry_run);
    DescribeCertificates(identity->authority_path, identity->authority_pem, dry_run);
  } else {
    dry_run.Check(kCertificates, identity.status());
  }
  // Each alignment lets the peer try a list of ids against ours, which is why they are counted.
  if (party.max_alignments() > 0) {
    CheckAlignments(party, dry_run);
  }
}

std::shared_ptr<const Dataset> DryRunData(const v1::PartyCommon& party, const v1::RunAgreement& agreement,
                                          PreparedFor owner, DryRun& dry_run) {
  absl::StatusOr<std::shared_ptr<const Dataset>> data = OpenPreparedData(party, agreement, owner);
  std::string detail;
  if (data.ok()) {
    const v1::Preprocessing& prepared = (*data)->preprocessing();
    detail =
        absl::StrCat((*data)->path(), ": ", (*data)->rows(), " rows, ", prepared.numeric_size(), " numeric and ",
                     prepared.categorical_size(), " categorical columns, test_fraction ", prepared.test_fraction());
  }
  return dry_run.Check("data", data.status(), detail) ? *std::move(data) : nullptr;
}

void DryRunAccount(const absl::StatusOr<ForeseenDebit>& foreseen, double max_lifetime_auc_bound, DryRun& dry_run) {
  constexpr char kAccount[] = "privacy account";
  if (!foreseen.ok()) {
    dry_run.Check(kAccount, foreseen.status());
    return;
  }
  const double with_run = foreseen->lifetime.AucBound();
  const std::string text =
      absl::StrFormat("AUC bound of all runs together: %s now, %s with this one, limit %g",
                      BoundText(foreseen->so_far.AucBound()), BoundText(with_run), max_lifetime_auc_bound);
  // Reported here, as the run itself would find it only after both parties have aligned.
  if (with_run > max_lifetime_auc_bound) {
    dry_run.Problem(kAccount, absl::StrCat(text, ": exhausted, the run would be halted before anything is released"));
  } else {
    dry_run.Check(kAccount, absl::OkStatus(), text);
  }
}

void DryRunExpectation(const v1::RunAgreement& agreement, const Dataset& data, absl::FunctionRef<absl::Status()> step,
                       DryRun& dry_run) {
  const absl::StatusOr<MachineSpeed> speed = MeasureMachine(step);
  if (!speed.ok()) {
    dry_run.Check("expected", speed.status());
    return;
  }
  const int processors = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const RunExpectation expected =
      ExpectRun(agreement, data.rows(), data.preprocessing().embedding_rows(), processors, *speed);
  const std::string text = RunExpectationText(expected);
  const int64_t available = AvailableMemoryBytes();
  // A warning and no problem: the estimate may be off by a factor of two.
  if (available > 0 && expected.peak_memory_bytes > available) {
    dry_run.Warn("expected", absl::StrCat(text, "; this machine has ", available / 1'000'000, " MB free"));
  } else {
    dry_run.Check("expected", absl::OkStatus(), text);
  }
}

}  // namespace splitveil
