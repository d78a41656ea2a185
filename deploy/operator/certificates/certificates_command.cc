#include "deploy/operator/certificates/certificate_authority.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/command.h"

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

absl::Status Certificates(const Flags& flags) {
  const std::string folder = flags.Get("out");
  const std::string label = flags.Get("label");
  const std::string nonlabel = flags.Get("nonlabel");
  if (absl::EqualsIgnoreCase(label, nonlabel)) {
    return absl::InvalidArgumentError(
        absl::StrCat("command line: --nonlabel: expected a name other than --label's, found \"", nonlabel, "\""));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t days, flags.GetInt("days", 1, kMaxCertificateDays));
  SPLITVEIL_ASSIGN_OR_RETURN(const CertifiedKey authority, CreateAuthority(kAuthorityName, days));
  std::vector<NewFile> files;
  AppendPair(folder, "authority", authority, files);
  for (const auto& [flag, name] : {std::pair{"label", "label_party"}, std::pair{"nonlabel", "nonlabel_party"}}) {
    const absl::StatusOr<CertifiedKey> party = IssueCertificate(authority, flags.Get(flag), days);
    if (!party.ok()) {
      return absl::Status(party.status().code(), absl::StrCat("command line: --", flag, ": ", party.status().message(),
                                                              ", found \"", flags.Get(flag), "\""));
    }
    AppendPair(folder, name, *party, files);
  }
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": cannot be made: ", error.message()));
  }
  SPLITVEIL_RETURN_IF_ERROR(CreateAll(files));
  std::printf("%s: authority, label_party (%s) and nonlabel_party (%s), valid %lld days\n", folder.c_str(),
              label.c_str(), nonlabel.c_str(), static_cast<long long>(days));
  std::printf("Give each party authority.pem and its own .pem and .key; keep authority.key to yourself.\n");
  return absl::OkStatus();
}

}  // namespace

Command CertificatesCommand() {
  return {"certificates",
          "Make a certificate authority and one certificate a party. Replaces nothing.",
          {{"out", "", "Folder for authority, label_party and nonlabel_party, each .pem and .key.", /*required=*/true},
           {"label", "", "DNS name of the label party.", /*required=*/true},
           {"nonlabel", "", "DNS name of the non-label party.", /*required=*/true},
           {"days", "365", "Validity."}},
          Certificates};
}

}  // namespace splitveil
