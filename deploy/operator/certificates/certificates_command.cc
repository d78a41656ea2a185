#include "deploy/operator/certificates/certificates_command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "deploy/operator/certificates/new_files.h"

#include "common/process/file.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kAuthorityName[] = "Splitveil run authority";

void AppendPair(const std::string& folder, const std::string& name, const CertifiedKey& pair,
                std::vector<NewFile>& files) {
  files.push_back({absl::StrCat(folder, "/", name, ".pem"), pair.certificate_pem, kPublicMode});
  files.push_back({absl::StrCat(folder, "/", name, ".key"), pair.private_key_pem, kOwnerOnly});
}

struct CertificatesFlags {
  std::string out;
  std::string label;
  std::string nonlabel;
  int days = 365;
};

absl::StatusOr<ExitCode> Certificates(const CertificatesFlags& flags) {
  // Not CLI11's business: it would ask for them beside the commands below this one, too.
  for (const auto& [flag, value] :
       {std::pair("--out", &flags.out), std::pair("--label", &flags.label), std::pair("--nonlabel", &flags.nonlabel)}) {
    if (value->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "command line: expected ", flag, ", found none; splitveil certificates --help explains every flag"));
    }
  }
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
  SPLITVEIL_RETURN_IF_ERROR(CreateFiles(flags.out, files));
  std::printf("%s: authority, label_party (%s) and nonlabel_party (%s), valid %d days\n", flags.out.c_str(),
              flags.label.c_str(), flags.nonlabel.c_str(), flags.days);
  std::printf("Give each party authority.pem and its own .pem and .key; keep authority.key to yourself.\n");
  return ExitCode::kDone;
}

}  // namespace

void AddCertificatesCommand(CommandLine& line) {
  const auto flags = std::make_shared<CertificatesFlags>();
  CLI::App& command = line.AddCommand(
      {"certificates", "For trials on one machine: an authority and both parties' keys at once. Overwrites nothing.",
       "splitveil certificates --label=label.example.com --nonlabel=nonlabel.example.com --out=certificates",
       "Before a run"},
      [flags] { return Certificates(*flags); });
  command
      .add_option("--out", flags->out, "Folder for authority, label_party and nonlabel_party, a .pem and a .key each.")
      ->type_name("DIR");
  command.add_option("--label", flags->label, "DNS name of the label party.")->type_name("NAME");
  command.add_option("--nonlabel", flags->nonlabel, "DNS name of the non-label party.")->type_name("NAME");
  command.add_option("--days", flags->days, "How long the certificates are valid.")
      ->type_name("N")
      ->check(IntegerIn(1, kMaxCertificateDays));
}

}  // namespace splitveil
