#include "deploy/operator/certificates/certificates_command.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/certificates/certificate_authority.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kAuthorityName[] = "Splitveil run authority";
constexpr mode_t kPublic = 0666;  // Less the umask.
constexpr mode_t kPrivate = 0600;

struct NewFile {
  std::string path;
  std::string contents;
  mode_t mode;
};

void AppendPair(const std::string& folder, const std::string& name, const CertifiedKey& pair,
                std::vector<NewFile>& files) {
  files.push_back({absl::StrCat(folder, "/", name, ".pem"), pair.certificate_pem, kPublic});
  files.push_back({absl::StrCat(folder, "/", name, ".key"), pair.private_key_pem, kPrivate});
}

// Writes all or none.
absl::Status CreateAll(const std::vector<NewFile>& files) {
  for (size_t i = 0; i < files.size(); ++i) {
    absl::Status created = CreateFile(files[i].path, files[i].contents, files[i].mode);
    if (!created.ok()) {
      for (size_t earlier = 0; earlier < i; ++earlier) {
        unlink(files[earlier].path.c_str());
      }
      return created;
    }
  }
  return absl::OkStatus();
}

struct CertificatesFlags {
  std::string out;
  std::string label;
  std::string nonlabel;
  int days = 365;
};

absl::StatusOr<ExitCode> Certificates(const CertificatesFlags& flags) {
  if (absl::EqualsIgnoreCase(flags.label, flags.nonlabel)) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --nonlabel: expected a name other than --label's, found \"", flags.nonlabel, "\""));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const CertifiedKey authority, CreateAuthority(kAuthorityName, flags.days));
  std::vector<NewFile> files;
  AppendPair(flags.out, "authority", authority, files);
  for (const auto& [flag, role, dns_name] : {std::tuple("--label", "label_party", flags.label),
                                             std::tuple("--nonlabel", "nonlabel_party", flags.nonlabel)}) {
    const absl::StatusOr<CertifiedKey> party = IssueCertificate(authority, dns_name, flags.days);
    if (!party.ok()) {
      return absl::Status(party.status().code(), absl::StrCat("command line: ", flag, ": ", party.status().message(),
                                                              ", found \"", dns_name, "\""));
    }
    AppendPair(flags.out, role, *party, files);
  }
  std::error_code error;
  std::filesystem::create_directories(flags.out, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(flags.out, ": cannot be made: ", error.message()));
  }
  SPLITVEIL_RETURN_IF_ERROR(CreateAll(files));
  std::printf("%s: authority, label_party (%s) and nonlabel_party (%s), valid %d days\n", flags.out.c_str(),
              flags.label.c_str(), flags.nonlabel.c_str(), flags.days);
  std::printf("Give each party authority.pem and its own .pem and .key; keep authority.key to yourself.\n");
  return ExitCode::kDone;
}

}  // namespace

void AddCertificatesCommand(CommandLine& line) {
  const auto flags = std::make_shared<CertificatesFlags>();
  CLI::App& command = line.AddCommand(
      {"certificates", "Make a certificate authority and one certificate per party. Overwrites nothing.",
       "splitveil certificates --label=label.example.com --nonlabel=nonlabel.example.com --out=certificates",
       "Before a run"},
      [flags] { return Certificates(*flags); });
  command
      .add_option("--out", flags->out, "Folder for authority, label_party and nonlabel_party, a .pem and a .key each.")
      ->type_name("DIR")
      ->required();
  command.add_option("--label", flags->label, "DNS name of the label party.")->type_name("NAME")->required();
  command.add_option("--nonlabel", flags->nonlabel, "DNS name of the non-label party.")->type_name("NAME")->required();
  command.add_option("--days", flags->days, "How long the certificates are valid.")
      ->type_name("N")
      ->check(IntegerIn(1, kMaxCertificateDays));
}

}  // namespace splitveil
