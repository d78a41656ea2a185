#include "deploy/operator/certificates/own_certificate_commands.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "deploy/operator/certificates/certificate_request.h"
#include "deploy/operator/certificates/new_files.h"

#include "common/crypto/digest.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "common/status/status_macros.h"
#include "common/transport/certificate.h"
#include "common/transport/tls_identity.h"

namespace splitveil {
namespace {

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
// by voice (common/crypto/sha256.h); a line "warning" where it has ended, ends soon or has not begun.
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

absl::Status In(const std::string& file, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

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
  std::printf("%s/authority.key: stays here; whoever has it can be either party\n", flags.out.c_str());
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
  SPLITVEIL_RETURN_IF_ERROR(In(flags.request, KeyOfRequest(request, flags.name).status()));
  const absl::StatusOr<std::string> certificate = SignRequest(authority, request, flags.name, flags.days);
  SPLITVEIL_RETURN_IF_ERROR(In(flags.authority, certificate.status()));
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
  SPLITVEIL_RETURN_IF_ERROR(In(flags.certificate, facts.status()));
  for (const CertificateFacts& each : *facts) {
    std::printf("%s", CertificateText(flags.certificate, each).c_str());
  }
  return ExitCode::kDone;
}

void AddName(OwnCertificateFlags& flags, CLI::App& command) {
  command.add_option("--name", flags.name, "DNS name of the party: its own_name, and the peer_name of the other.")
      ->type_name("NAME")
      ->required();
}

void AddDays(OwnCertificateFlags& flags, CLI::App& command) {
  command.add_option("--days", flags.days, "How long the certificate is valid.")
      ->type_name("N")
      ->check(IntegerIn(1, kMaxCertificateDays));
}

void AddFolder(OwnCertificateFlags& flags, CLI::App& command, const std::string& what) {
  command.add_option("--out", flags.out, absl::StrCat("Folder for ", what, "."))->type_name("DIR")->required();
}

void AddSign(CommandLine& line) {
  const auto flags = std::make_shared<OwnCertificateFlags>();
  CLI::App& command =
      line.AddCommand({"certificates sign", "As the authority: sign a party's request, for the one name that is given.",
                       "splitveil certificates sign --request=own.csr --name=bank.example --authority=authority.pem "
                       "--authority_key=authority.key --out=own.pem",
                       kGroup},
                      [flags] { return SignOne(*flags); });
  AddName(*flags, command);
  command.add_option("--request", flags->request, "The party's request.")->type_name("FILE")->required();
  command.add_option("--authority", flags->authority, "The authority's certificate.")->type_name("FILE")->required();
  command.add_option("--authority_key", flags->authority_key, "Its private key.")->type_name("FILE")->required();
  command.add_option("--out", flags->out, "The certificate to write.")->type_name("FILE")->required();
  AddDays(*flags, command);
}

}  // namespace

void AddOwnCertificateCommands(CommandLine& line) {
  const auto authority = std::make_shared<OwnCertificateFlags>();
  authority->name = kDefaultAuthority;
  CLI::App& authority_command =
      line.AddCommand({"certificates authority", "Make an authority that signs the requests of both parties.",
                       "splitveil certificates authority --out=authority", kGroup},
                      [authority] { return Authority(*authority); });
  authority_command.add_option("--name", authority->name, "Its common name.")->type_name("TEXT");
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
  CLI::App& self_signed_command = line.AddCommand(
      {"certificates self_signed",
       "Make this party's key and a certificate that the peer pins: no authority is needed, and no other is accepted.",
       "splitveil certificates self_signed --name=bank.example --out=bank", kGroup},
      [self_signed] { return SelfSigned(*self_signed); });
  AddName(*self_signed, self_signed_command);
  AddFolder(*self_signed, self_signed_command, "own.key and own.pem");
  AddDays(*self_signed, self_signed_command);

  const auto show = std::make_shared<OwnCertificateFlags>();
  CLI::App& show_command = line.AddCommand(
      {"certificates show", "Names, issuer, dates and fingerprint of certificates; warns of those that end soon.",
       "splitveil certificates show --certificate=own.pem", kGroup},
      [show] { return Show(*show); });
  show_command.add_option("--certificate", show->certificate, "PEM file with one certificate or several.")
      ->type_name("FILE")
      ->required();
}

}  // namespace splitveil
