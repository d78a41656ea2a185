#include "tests/bench/training/bench_folder.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/operator/local_run/party_process.h"
#include "deploy/operator/preparation/table_schema.h"

#include "common/config/agreement.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "tests/bench/training/bench_data.h"

namespace splitveil {
namespace {

namespace fs = std::filesystem;

constexpr char kTable[] = "/table.csv";
constexpr char kLabelName[] = "label-party.splitveil.example";
constexpr char kNonLabelName[] = "nonlabel-party.splitveil.example";
constexpr absl::Duration kPollInterval = absl::Milliseconds(20);

// Where a party's certificate, data and ledger are.
void PlaceFiles(const std::string& folder, const std::string& data, const std::string& party, v1::PartyCommon& common) {
  v1::Identity& identity = *common.mutable_identity();
  identity.set_certificate_path(absl::StrCat(folder, "/certificates/", party, ".pem"));
  identity.set_private_key_path(absl::StrCat(folder, "/certificates/", party, ".key"));
  identity.set_authority_path(absl::StrCat(folder, "/certificates/authority.pem"));
  common.mutable_dataset()->set_path(absl::StrCat(data, "/", party, ".data"));
  common.set_ledger_path(absl::StrCat(party, ".db"));
}

void Describe(const std::string& own_name, const std::string& peer_name, uint64_t seed, v1::PartyCommon& common) {
  common.mutable_identity()->set_own_name(own_name);
  common.mutable_identity()->set_peer_name(peer_name);
  common.mutable_optimizer()->mutable_adam();
  common.set_reproducible_seed(seed);
}

}  // namespace

absl::Status RunProgram(const std::string& program, std::vector<std::string> arguments, const std::string& log,
                        const std::function<bool()>& stop_requested) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<PartyProcess> process,
                             PartyProcess::Start({program, std::move(arguments), log + ".out", log + ".log"}));
  while (!process->exit_code()) {
    if (stop_requested()) {
      return absl::CancelledError("stopped on request");
    }
    absl::SleepFor(kPollInterval);
  }
  if (const int code = *process->exit_code(); code != 0) {
    const absl::StatusOr<std::string> text = ReadFile(log + ".log");
    const std::vector<std::string> lines = absl::StrSplit(text.ok() ? *text : "", '\n', absl::SkipEmpty());
    return absl::InternalError(
        absl::StrCat(program, " ended with exit code ", code, ": ", lines.empty() ? "no log" : lines.back()));
  }
  return absl::OkStatus();
}

absl::StatusOr<BenchFolder> BenchFolder::Create(const std::string& path, const std::string& programs,
                                                std::function<bool()> stop_requested) {
  if (fs::exists(path)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected no such folder yet, found one"));
  }
  BenchFolder folder(path, programs, std::move(stop_requested));
  SPLITVEIL_RETURN_IF_ERROR(folder.MakeFolder(path + "/certificates"));
  SPLITVEIL_RETURN_IF_ERROR(
      folder.Splitveil({"certificates", absl::StrCat("--out=", path, "/certificates"),
                        absl::StrCat("--label=", kLabelName), absl::StrCat("--nonlabel=", kNonLabelName)}));
  return folder;
}

BenchFolder::BenchFolder(std::string path, std::string programs, std::function<bool()> stop_requested)
    : path_(std::move(path)), programs_(std::move(programs)), stop_requested_(std::move(stop_requested)) {}

BenchFolder::BenchFolder(BenchFolder&& other) noexcept
    : path_(std::exchange(other.path_, "")),
      programs_(std::move(other.programs_)),
      stop_requested_(std::move(other.stop_requested_)),
      runs_(other.runs_) {}

BenchFolder::~BenchFolder() {
  if (!path_.empty()) {
    std::error_code ignored;  // What cannot be removed stays.
    fs::remove_all(path_, ignored);
  }
}

absl::Status BenchFolder::Splitveil(std::vector<std::string> arguments) const {
  return RunProgram(programs_ + "/splitveil", std::move(arguments), path_ + "/splitveil", stop_requested_);
}

absl::Status BenchFolder::MakeFolder(const std::string& path) const {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? absl::InvalidArgumentError(absl::StrCat(path, ": cannot be made: ", error.message()))
               : absl::OkStatus();
}

absl::StatusOr<std::string> BenchFolder::NewRunFolder() {
  std::string folder = absl::StrCat(path_, "/run", ++runs_);
  SPLITVEIL_RETURN_IF_ERROR(MakeFolder(folder));
  return folder;
}

absl::StatusOr<std::string> BenchFolder::Prepared(const std::string& name,
                                                  const std::function<absl::Status(const std::string&)>& write,
                                                  std::vector<std::string> prepare) const {
  const std::string data = absl::StrCat(path_, "/", name);
  if (!fs::exists(data)) {
    SPLITVEIL_RETURN_IF_ERROR(MakeFolder(data));
    SPLITVEIL_RETURN_IF_ERROR(write(data));
    prepare.insert(prepare.begin(), {"prepare", absl::StrCat("--out=", data), absl::StrCat("--input=", data, kTable)});
    SPLITVEIL_RETURN_IF_ERROR(Splitveil(std::move(prepare)));
  }
  return fs::absolute(data).string();
}

LocalRun BenchFolder::RunOn(const std::string& data) const {
  LocalRun run;
  run.agreement.set_run_name("bench");
  run.agreement.set_epochs(1);
  Canonicalize(run.agreement);
  const std::string folder = fs::absolute(path_).string();
  v1::PartyCommon& label = *run.label_config.mutable_party();
  v1::PartyCommon& nonlabel = *run.nonlabel_config.mutable_party();
  PlaceFiles(folder, data, "label_party", label);
  PlaceFiles(folder, data, "nonlabel_party", nonlabel);
  Describe(kLabelName, kNonLabelName, /*seed=*/1, label);
  Describe(kNonLabelName, kLabelName, /*seed=*/2, nonlabel);
  run.label_config.mutable_protection()->mutable_none();
  // One attack that costs next to nothing, on the first batch: no audit cannot be asked for.
  run.label_config.mutable_label_side_audit()->add_attacks(v1::NORM);
  run.label_config.mutable_label_side_audit()->set_every_batches(1'000'000);
  run.label_config.set_listen_address("127.0.0.1:0");
  run.label_config.set_result_path("label_party.result.json");
  run.nonlabel_config.set_peer_address("127.0.0.1:0");
  run.nonlabel_config.set_listen_address("127.0.0.1:0");
  return run;
}

LocalRun BenchFolder::WideAndDeepOn(const std::string& data) const {
  LocalRun run = RunOn(data);
  run.agreement.set_cut_layer("third");
  run.agreement.set_cut_width(128);
  run.label_config.mutable_model()->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  run.nonlabel_config.mutable_model()->set_preset(v1::ModelSpec::WIDE_AND_DEEP);
  return run;
}

absl::StatusOr<LocalRun> BenchFolder::WideAndDeep(int64_t rows) const {
  const auto generate = [&](const std::string& data) {
    return Splitveil({"generate", "--force", absl::StrCat("--rows=", rows), absl::StrCat("--out=", data, kTable)});
  };
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string data,
                             Prepared(absl::StrCat("clicks", rows), generate, {"--format=criteo"}));
  return WideAndDeepOn(data);
}

absl::StatusOr<LocalRun> BenchFolder::WideAndDeepOfVocabulary(int64_t rows, int64_t embedding_rows) const {
  const auto write = [&](const std::string& folder) { return WriteRandomClicks(folder + kTable, rows); };
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::string data,
      Prepared(absl::StrCat("vocabulary", embedding_rows), write,
               {"--format=criteo", absl::StrCat("--hash_buckets=", embedding_rows / kCriteoCategorical)}));
  return WideAndDeepOn(data);
}

absl::StatusOr<LocalRun> BenchFolder::Isic(int64_t rows, int64_t side) const {
  const auto write = [&](const std::string& folder) { return WriteRandomImages(folder, rows, side); };
  const std::string name = absl::StrCat("images", rows, "x", side);
  SPLITVEIL_ASSIGN_OR_RETURN(
      const std::string data,
      Prepared(name, write,
               {"--format=table", absl::StrCat("--schema=", path_, "/", name, "/schema.textproto"),
                absl::StrCat("--images=", path_, "/", name, "/table.images")}));
  LocalRun run = RunOn(data);
  const int64_t pooled = side / 16;  // Four times by 2, rounding down each time.
  run.agreement.set_cut_layer("fourth");
  run.agreement.set_cut_width(static_cast<int>(64 * pooled * pooled));
  run.agreement.set_batch_size(128);
  run.label_config.mutable_model()->set_preset(v1::ModelSpec::ISIC_CONVOLUTIONAL);
  run.nonlabel_config.mutable_model()->set_preset(v1::ModelSpec::ISIC_CONVOLUTIONAL);
  return run;
}

}  // namespace splitveil
