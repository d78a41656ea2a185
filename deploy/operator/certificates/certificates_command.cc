#include <cstdio>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "deploy/operator/commands.h"

#include "common/crypto/digest.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/transport/certificate.h"

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
    return absl::InvalidArgumentError(absl::StrCat("command line: --label, --nonlabel: both are \"", flags.nonlabel,
                                                   "\": give each party a name of its own"));
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

const char* KindOf(const CertificateFacts& facts) {
  if (facts.is_authority) {
    return "an authority";
  }
  return facts.self_signed ? "self-signed, to be pinned by the peer" : "signed by an authority";
}

std::string WarningOf(const CertificateFacts& facts) {
  if (facts.expired) {
    return "  warning      it has expired: both parties refuse it\n";
  }
  if (!facts.begun) {
    return "  warning      it is not valid yet: both parties refuse it\n";
  }
  return facts.expires_soon() ? absl::StrCat("  warning      it ends in ", facts.days_left, " days\n") : "";
}

// Several lines, one a fact: what it is, subject, DNS names, issuer, dates, SHA-256 and the same as people compare it
// by voice (common/crypto/spoken_fingerprint.h); a line "warning" where it has ended, ends soon or has not begun.
std::string CertificateText(const std::string& path, const CertificateFacts& facts) {
  return absl::StrCat(path, ": ", KindOf(facts), "\n  subject      ", facts.subject, "\n  DNS names    ",
                      facts.dns_names, "\n  issuer       ", facts.issuer, "\n  valid        ", facts.not_before, " to ",
                      facts.not_after, "\n  SHA-256      ", absl::BytesToHexString(AsBytes(facts.sha256)),
                      "\n  fingerprint  ", SpokenFingerprint(facts.sha256), "\n", WarningOf(facts));
}

constexpr char kDefaultAuthority[] = "Splitveil authority";
constexpr char kGroup[] = "Before a run";

struct OwnCertificateFlags {
  std::string name;
  std::string out;
  int days = 365;
  std::string request;
  std::string authority;
  std::string authority_key;
  std::string certificate;
};

// Of the flag that names a party.
absl::Status OfName(const OwnCertificateFlags& flags, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat("command line: --name: ", status.message(),
                                                                ", found \"", flags.name, "\""));
}

absl::StatusOr<ExitCode> Authority(const OwnCertificateFlags& flags) {
  const absl::StatusOr<CertifiedKey> authority = CreateAuthority(flags.name, flags.days);
  SPLITVEIL_RETURN_IF_ERROR(OfName(flags, authority.status()));
  SPLITVEIL_RETURN_IF_ERROR(
      CreateFiles(flags.out, {{absl::StrCat(flags.out, "/authority.pem"), authority->certificate_pem, kPublicMode},
                              {absl::StrCat(flags.out, "/authority.key"), authority->private_key_pem}}));
  std::printf("%s/authority.pem: for both parties, their authority_path\n", flags.out.c_str());
  std::printf("%s/authority.key: keep it on this machine; with it anyone can act as either party\n", flags.out.c_str());
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> RequestOne(const OwnCertificateFlags& flags) {
  const absl::StatusOr<RequestAndKey> made = CreateRequest(flags.name);
  SPLITVEIL_RETURN_IF_ERROR(OfName(flags, made.status()));
  SPLITVEIL_RETURN_IF_ERROR(
      CreateFiles(flags.out, {{absl::StrCat(flags.out, "/own.key"), made->private_key_pem},
                              {absl::StrCat(flags.out, "/own.csr"), made->request_pem, kPublicMode}}));
  std::printf("%s/own.csr: for the authority, which signs it as\n", flags.out.c_str());
  std::printf(
      "  splitveil certificates sign --request=own.csr --name=%s --authority=authority.pem "
      "--authority_key=authority.key --out=own.pem\n",
      flags.name.c_str());
  std::printf("%s/own.key: stays here\n", flags.out.c_str());
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> SignOne(const OwnCertificateFlags& flags) {
  CertifiedKey authority;
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string request, ReadFile(flags.request));
  SPLITVEIL_ASSIGN_OR_RETURN(authority.certificate_pem, ReadFile(flags.authority));
  SPLITVEIL_ASSIGN_OR_RETURN(authority.private_key_pem, ReadFile(flags.authority_key));
  SPLITVEIL_RETURN_IF_ERROR(CheckKeyIsOwners(flags.authority_key));
  SPLITVEIL_RETURN_IF_ERROR(Within(flags.request, KeyOfRequest(request, flags.name).status()));
  const absl::StatusOr<std::string> certificate = SignRequest(authority, request, flags.name, flags.days);
  SPLITVEIL_RETURN_IF_ERROR(Within(flags.authority, certificate.status()));
  SPLITVEIL_RETURN_IF_ERROR(CreateFile(flags.out, *certificate, kPublicMode));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<CertificateFacts> facts, ReadCertificateFacts(*certificate));
  std::printf("%s", CertificateText(flags.out, facts.front()).c_str());
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> SelfSigned(const OwnCertificateFlags& flags) {
  const absl::StatusOr<CertifiedKey> made = CreateSelfSigned(flags.name, flags.days);
  SPLITVEIL_RETURN_IF_ERROR(OfName(flags, made.status()));
  const std::string certificate = absl::StrCat(flags.out, "/own.pem");
  SPLITVEIL_RETURN_IF_ERROR(CreateFiles(flags.out, {{certificate, made->certificate_pem, kPublicMode},
                                                    {absl::StrCat(flags.out, "/own.key"), made->private_key_pem}}));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<CertificateFacts> facts, ReadCertificateFacts(made->certificate_pem));
  std::printf("%s", CertificateText(certificate, facts.front()).c_str());
  std::printf("%s: for the peer, which names it as its authority_path; compare the fingerprint by voice\n",
              certificate.c_str());
  std::printf("%s/own.key: stays here\n", flags.out.c_str());
  return ExitCode::kDone;
}

absl::StatusOr<ExitCode> Show(const OwnCertificateFlags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string pem, ReadFile(flags.certificate));
  const absl::StatusOr<std::vector<CertificateFacts>> facts = ReadCertificateFacts(pem);
  SPLITVEIL_RETURN_IF_ERROR(Within(flags.certificate, facts.status()));
  for (const CertificateFacts& each : *facts) {
    std::printf("%s", CertificateText(flags.certificate, each).c_str());
  }
  return ExitCode::kDone;
}

void AddName(OwnCertificateFlags& flags, CLI::App& command) {
  AddValue(command, "--name=NAME", flags.name, "DNS name of the party: its own_name, and the other party's peer_name.")
      ->required();
}

void AddDays(OwnCertificateFlags& flags, CLI::App& command) {
  AddValue(command, "--days=N", flags.days, "How long the certificate is valid.")
      ->check(IntegerIn(1, kMaxCertificateDays));
}

void AddFolder(OwnCertificateFlags& flags, CLI::App& command, const std::string& what) {
  AddValue(command, "--out=DIR", flags.out, absl::StrCat("Folder for ", what, "."))->required();
}

void AddSign(CommandLine& line) {
  const auto flags = std::make_shared<OwnCertificateFlags>();
  CLI::App& command =
      line.AddCommand({"certificates sign", "Sign a party's request as the authority, for the given name only.",
                       "splitveil certificates sign --request=own.csr --name=bank.example --authority=authority.pem "
                       "--authority_key=authority.key --out=own.pem",
                       kGroup},
                      [flags] { return SignOne(*flags); });
  AddName(*flags, command);
  AddValue(command, "--request=FILE", flags->request, "Request of the party, own.csr.")->required();
  AddValue(command, "--authority=FILE", flags->authority, "Certificate of the authority.")->required();
  AddValue(command, "--authority_key=FILE", flags->authority_key, "Private key of the authority.")->required();
  AddValue(command, "--out=FILE", flags->out, "File for the certificate.")->required();
  AddDays(*flags, command);
}

}  // namespace

void AddCertificatesCommand(CommandLine& line) {
  const auto flags = std::make_shared<CertificatesFlags>();
  CLI::App& command = line.AddCommand(
      {"certificates",
       "Make keys and certificates. Without a subcommand: an authority and both parties' keys, for trials on one "
       "machine.",
       "splitveil certificates --label=label.example.com --nonlabel=nonlabel.example.com --out=certificates",
       "Before a run"},
      [flags] { return Certificates(*flags); });
  AddValue(command, "--out=DIR", flags->out,
           "Folder for the keys and certificates: authority, label_party and nonlabel_party, .pem and .key of each.");
  AddValue(command, "--label=NAME", flags->label, "DNS name of the label party.");
  AddValue(command, "--nonlabel=NAME", flags->nonlabel, "DNS name of the non-label party.");
  AddValue(command, "--days=N", flags->days, "How long the certificates are valid.")
      ->check(IntegerIn(1, kMaxCertificateDays));
}

void AddOwnCertificateCommands(CommandLine& line) {
  const auto authority = std::make_shared<OwnCertificateFlags>();
  authority->name = kDefaultAuthority;
  CLI::App& authority_command =
      line.AddCommand({"certificates authority", "Make an authority that signs the requests of both parties.",
                       "splitveil certificates authority --out=authority", kGroup},
                      [authority] { return Authority(*authority); });
  AddValue(authority_command, "--name=TEXT", authority->name, "Common name of the authority.");
  AddFolder(*authority, authority_command, "authority.pem and authority.key");
  AddDays(*authority, authority_command);

  const auto request = std::make_shared<OwnCertificateFlags>();
  CLI::App& request_command =
      line.AddCommand({"certificates request", "Make this party's key and a request for an authority to sign.",
                       "splitveil certificates request --name=bank.example --out=bank", kGroup},
                      [request] { return RequestOne(*request); });
  AddName(*request, request_command);
  AddFolder(*request, request_command, "own.key and own.csr");

  AddSign(line);

  const auto self_signed = std::make_shared<OwnCertificateFlags>();
  CLI::App& self_signed_command =
      line.AddCommand({"certificates self_signed",
                       "Make this party's key and a self-signed certificate. The peer accepts only this certificate.",
                       "splitveil certificates self_signed --name=bank.example --out=bank", kGroup},
                      [self_signed] { return SelfSigned(*self_signed); });
  AddName(*self_signed, self_signed_command);
  AddFolder(*self_signed, self_signed_command, "own.key and own.pem");
  AddDays(*self_signed, self_signed_command);

  const auto show = std::make_shared<OwnCertificateFlags>();
  CLI::App& show_command = line.AddCommand(
      {"certificates show",
       "Print names, issuer, dates and fingerprint of certificates, and warn of those that expire soon.",
       "splitveil certificates show --certificate=own.pem", kGroup},
      [show] { return Show(*show); });
  AddValue(show_command, "--certificate=FILE", show->certificate, "PEM file with one or more certificates.")
      ->required();
}

}  // namespace splitveil
