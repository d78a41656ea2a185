#include "common/transport/certificate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/sha256.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using BioPtr = std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_vfree>>;

// Without this callback OpenSSL would ask for a passphrase on the terminal.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* /*data*/) { return -1; }

// A name from a stranger's certificate is printed on a terminal: control characters could steer it.
std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
  return text;
}

}  // namespace

// Only the first error says what went wrong; the rest of the queue would be blamed on the next call of this thread.
std::string TakeOpenSslError() {
  const unsigned long code = ERR_get_error();  // NOLINT(google-runtime-int): OpenSSL's type.
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

absl::StatusOr<std::vector<X509Ptr>> ParseCertificates(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<X509Ptr> certificates;
  while (X509Ptr certificate{PEM_read_bio_X509(bio.get(), nullptr, NoPassphrase, nullptr)}) {
    certificates.push_back(std::move(certificate));
  }
  // The end of the text reads as "no start line"; anything else is a broken certificate.
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = TakeOpenSslError();
  if (certificates.empty() || !at_end) {
    return absl::InvalidArgumentError(absl::StrCat("expected certificates in PEM, found: ", reason));
  }
  return certificates;
}

absl::StatusOr<PrivateKeyPtr> ParsePrivateKey(const std::string& pem) {
  const BioPtr bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  PrivateKeyPtr key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("expected a private key in PEM without passphrase, found: ", TakeOpenSslError()));
  }
  return key;
}

absl::StatusOr<X509StorePtr> TrustStore(const std::vector<X509Ptr>& authorities) {
  // Only the agreed authorities, never the system's: any public authority could otherwise vouch for a stranger.
  X509StorePtr store(X509_STORE_new());
  for (const X509Ptr& authority : authorities) {
    if (store == nullptr || X509_STORE_add_cert(store.get(), authority.get()) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL cannot hold an authority: ", TakeOpenSslError()));
    }
  }
  return store;
}

std::string DnsNames(X509* certificate) {
  std::string text;
  auto* names =
      certificate == nullptr
          ? nullptr
          : static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    // Other kinds of names (addresses, e-mail) do not name a party and are not compared.
    if (name->type == GEN_DNS) {
      const ASN1_IA5STRING* dns = name->d.dNSName;
      absl::StrAppend(&text, text.empty() ? "" : ", ",
                      absl::string_view(reinterpret_cast<const char*>(ASN1_STRING_get0_data(dns)),
                                        static_cast<size_t>(ASN1_STRING_length(dns))));
    }
  }
  GENERAL_NAMES_free(names);
  return text.empty() ? "none" : Printable(std::move(text));
}

bool CarriesDnsName(X509* certificate, const std::string& name) {
  // A party is one name. A wildcard would let any host of a domain be the peer.
  constexpr unsigned kFlags = X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT;
  return X509_check_host(certificate, name.data(), name.size(), kFlags, nullptr) == 1;
}

namespace {

std::string NameText(const X509_NAME* name) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  char* data = nullptr;
  if (bio == nullptr || X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253) < 0) {
    return "unreadable";
  }
  // The text belongs to `bio`: copied before that is freed.
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return Printable(std::string(data, static_cast<size_t>(size)));
}

std::string DateText(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1
             ? absl::StrFormat("%04d-%02d-%02d", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday)
             : "unreadable";
}

int64_t UnixTime(const ASN1_TIME* time) {
  std::tm parts = {};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<int64_t>(timegm(&parts)) : 0;
}

CertificateFacts FactsOf(X509* certificate) {
  CertificateFacts facts;
  facts.subject = NameText(X509_get_subject_name(certificate));
  facts.issuer = NameText(X509_get_issuer_name(certificate));
  facts.dns_names = DnsNames(certificate);
  facts.not_before = DateText(X509_get0_notBefore(certificate));
  facts.not_after = DateText(X509_get0_notAfter(certificate));
  facts.not_after_unix = UnixTime(X509_get0_notAfter(certificate));
  // A date that cannot be read compares as 0: the certificate then counts as not begun, or as expired.
  facts.begun = X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0;
  facts.expired = X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;
  int days = 0, seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) == 1) {
    // A certificate that ends within the day has 0 days left, one that ended has -1.
    facts.days_left = days - (seconds < 0 ? 1 : 0);
  }
  facts.is_authority = X509_check_ca(certificate) != 0;
  facts.self_signed = X509_self_signed(certificate, /*verify_signature=*/1) == 1;
  unsigned int size = 0;
  X509_digest(certificate, EVP_sha256(), facts.sha256.data(), &size);
  // gRPC reads the same error queue, and would take old errors in it for a failure of its own.
  ERR_clear_error();
  return facts;
}

}  // namespace

absl::StatusOr<std::vector<CertificateFacts>> ReadCertificateFacts(const std::string& pem) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<X509Ptr> certificates, ParseCertificates(pem));
  std::vector<CertificateFacts> facts;
  facts.reserve(certificates.size());
  for (const X509Ptr& certificate : certificates) {
    facts.push_back(FactsOf(certificate.get()));
  }
  return facts;
}

namespace {

using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslDeleter<X509_STORE_CTX, X509_STORE_CTX_free>>;

struct StackDeleter {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }  // The certificates have other owners.
};

// What belongs in the files of an identity. A party that has just been set up lacks the last.
constexpr char kOwnCertificate[] = "this party's certificate", kOwnKey[] = "this party's private key",
               kPeersTrust[] = "the peer's certificate (the own.pem that it sends) or its authority's";

// The error of a file that could not be opened, by errno. `what`: what belongs there.
absl::Status NoPem(const std::string& path, const char* what) {
  const int error = errno;
  return absl::NotFoundError(absl::StrCat(
      path, ": expected a PEM file, ", what, ", found ",
      error == ENOENT ? "no file of this name" : absl::StrCat("one that cannot be opened: ", std::strerror(error))));
}

absl::StatusOr<std::string> ReadPem(const std::string& path, const char* what) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return NoPem(path, what);
  }
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad() || text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a PEM file, found an empty or unreadable one"));
  }
  return text;
}

// `value`, read from the file `path`, which an error names.
template <typename Value>
absl::StatusOr<Value> In(const std::string& path, absl::StatusOr<Value> value) {
  return value.ok() ? std::move(value) : Within(path, value.status());
}

absl::Status Invalid(const std::string& path, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", expected, ", found ", found));
}

// Both roles of a connection: the label party serves training, and both serve their status.
// `expected`: what the certificate is not, if it fails.
absl::Status CheckChain(const std::vector<X509Ptr>& chain, X509_STORE* store, const std::string& path,
                        absl::string_view expected) {
  const std::unique_ptr<STACK_OF(X509), StackDeleter> untrusted(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(untrusted.get(), chain[i].get());
  }
  // A certificate for one role alone would fail only once the other party calls.
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
    // A context verifies once, so each role has a new one.
    const StoreContextPtr context(X509_STORE_CTX_new());
    if (context == nullptr || X509_STORE_CTX_init(context.get(), store, chain[0].get(), untrusted.get()) != 1 ||
        X509_STORE_CTX_set_purpose(context.get(), purpose) != 1) {
      return absl::InternalError(absl::StrCat("OpenSSL cannot verify a certificate: ", TakeOpenSslError()));
    }
    const int verified = X509_verify_cert(context.get());
    ERR_clear_error();
    if (verified != 1) {
      return Invalid(path, expected, X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
    }
  }
  return absl::OkStatus();
}

// Checks that the first of `chain` is valid today for both ends of TLS, no matter who signed it.
absl::Status CheckAlone(const std::vector<X509Ptr>& chain, const std::string& path) {
  // With PARTIAL_CHAIN a certificate counts as its own anchor: what remains to be checked is its dates and purposes.
  const X509StorePtr store(X509_STORE_new());
  if (store == nullptr || X509_STORE_add_cert(store.get(), chain[0].get()) != 1 ||
      X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN) != 1) {
    return absl::InternalError(absl::StrCat("OpenSSL cannot hold a certificate: ", TakeOpenSslError()));
  }
  return CheckChain(chain, store.get(), path, "a valid certificate for TLS clients and servers");
}

// A certificate that may not sign others can be trusted for itself alone.
bool IsPinned(const X509Ptr& certificate) { return X509_check_ca(certificate.get()) == 0; }

// Checks certificates of the peer that stand in place of an authority.
absl::Status CheckPinned(const TlsIdentity& identity, std::vector<X509Ptr> pinned) {
  const std::string& path = identity.authority_path;
  for (X509Ptr& certificate : pinned) {
    // Mixed, the authority would let in any certificate that it signs, and pinning would promise nothing.
    if (!IsPinned(certificate)) {
      return Invalid(path, "authorities, or the peer's own certificates", "both");
    }
    if (X509_self_signed(certificate.get(), /*verify_signature=*/1) != 1) {
      ERR_clear_error();
      return Invalid(path, "an authority, or the peer's self-signed certificate", "one that another has signed");
    }
    if (!CarriesDnsName(certificate.get(), identity.peer_name)) {
      return Invalid(path, absl::StrCat("the peer's certificate, with the DNS name ", identity.peer_name),
                     DnsNames(certificate.get()));
    }
    std::vector<X509Ptr> alone;
    alone.push_back(std::move(certificate));
    SPLITVEIL_RETURN_IF_ERROR(CheckAlone(alone, path));
  }
  return absl::OkStatus();
}

// Checks the party's certificate against what it trusts.
absl::Status CheckTrust(const TlsIdentity& identity, const std::vector<X509Ptr>& chain,
                        std::vector<X509Ptr> authorities) {
  // With a pinned peer this party's own certificate has no common authority either; the peer pins it in turn.
  if (std::any_of(authorities.begin(), authorities.end(), IsPinned)) {
    SPLITVEIL_RETURN_IF_ERROR(CheckPinned(identity, std::move(authorities)));
    return CheckAlone(chain, identity.certificate_path);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const X509StorePtr store, TrustStore(authorities));
  return CheckChain(chain, store.get(), identity.certificate_path,
                    "a valid certificate of the authority for TLS clients and servers");
}

}  // namespace

// The rule of PostgreSQL: a key of this user may be readable by no one else, a key of root also by its group. A key
// that others can read is theirs, too; accepting it would hide that.
absl::Status CheckKeyIsOwners(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    return NoPem(path, kOwnKey);
  }
  const bool group_of_root = facts.st_uid == 0 && geteuid() != 0;
  const mode_t others = S_IRWXO | (group_of_root ? S_IWGRP | S_IXGRP : S_IRWXG);
  return (facts.st_mode & others) == 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrFormat("%s: users other than its owner may read this private key (mode %04o): chmod 600, "
                                   "or make a new one if any of them has",
                                   path, facts.st_mode & 07777));
}

absl::StatusOr<TlsIdentity> LoadTlsIdentity(const std::string& own_name, const std::string& peer_name,
                                            const std::string& certificate_path, const std::string& private_key_path,
                                            const std::string& authority_path) {
  // Equal names would let each party call the other's operator service as its own operator.
  if (own_name.empty() || peer_name.empty() || absl::EqualsIgnoreCase(own_name, peer_name)) {
    return absl::InvalidArgumentError(absl::StrCat("identity: expected two different names, found own_name \"",
                                                   own_name, "\" and peer_name \"", peer_name, "\""));
  }
  TlsIdentity identity{own_name, peer_name, "", "", "", certificate_path, private_key_path, authority_path};
  const std::tuple<const std::string&, const char*, std::string&> files[] = {
      {certificate_path, kOwnCertificate, identity.certificate_pem},
      {private_key_path, kOwnKey, identity.private_key_pem},
      {authority_path, kPeersTrust, identity.authority_pem}};
  // Before it is read: a key that others can read is refused, not used.
  SPLITVEIL_RETURN_IF_ERROR(CheckKeyIsOwners(private_key_path));
  for (const auto& [path, what, pem] : files) {
    SPLITVEIL_ASSIGN_OR_RETURN(pem, ReadPem(path, what));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain,
                             In(certificate_path, ParseCertificates(identity.certificate_pem)));
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivateKeyPtr key, In(private_key_path, ParsePrivateKey(identity.private_key_pem)));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<X509Ptr> authorities,
                             In(authority_path, ParseCertificates(identity.authority_pem)));
  X509* certificate = chain[0].get();
  // Found here, a mix-up of files is named; found in the handshake, it would be an unexplained failure.
  if (X509_check_private_key(certificate, key.get()) != 1) {
    ERR_clear_error();
    return Invalid(private_key_path, absl::StrCat("the private key of ", certificate_path),
                   "the key of a different certificate");
  }
  if (!CarriesDnsName(certificate, own_name)) {
    return Invalid(certificate_path, absl::StrCat("a certificate with the DNS name ", own_name), DnsNames(certificate));
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckTrust(identity, chain, std::move(authorities)));
  return identity;
}

Digest IdentitySha256(const TlsIdentity& identity) {
  // Digests of fixed length, so that two different triples cannot give the same text.
  std::string all;
  for (const std::string* part : {&identity.certificate_pem, &identity.peer_name, &identity.authority_pem}) {
    absl::StrAppend(&all, AsBytes(Sha256(*part)));
  }
  return Sha256(all);
}

}  // namespace splitveil
