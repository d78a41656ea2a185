#include "common/transport/tls_identity.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/sha256.h"
#include "common/status/status_macros.h"
#include "common/transport/certificate.h"

namespace splitveil {
namespace {

using StoreContextPtr = std::unique_ptr<X509_STORE_CTX, OpenSslDeleter<X509_STORE_CTX, X509_STORE_CTX_free>>;

struct StackDeleter {
  void operator()(STACK_OF(X509) * stack) const { sk_X509_free(stack); }  // The certificates have other owners.
};

// Of a file that `errno` says cannot be opened.
absl::Status NoPem(const std::string& path) {
  const int error = errno;
  return absl::NotFoundError(absl::StrCat(path, ": expected a PEM file, found ",
                                          error == ENOENT ? "no file of this name" : "one that cannot be opened", ": ",
                                          std::strerror(error)));
}

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return NoPem(path);
  }
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (stream.bad() || text.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected a PEM file, found an empty or unreadable one"));
  }
  return text;
}

// What was read from the file `path`; an error names it.
template <typename Value>
absl::StatusOr<Value> In(const std::string& path, absl::StatusOr<Value> value) {
  return value.ok() ? std::move(value)
                    : absl::Status(value.status().code(), absl::StrCat(path, ": ", value.status().message()));
}

absl::Status Invalid(const std::string& path, absl::string_view expected, absl::string_view found) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", expected, ", found ", found));
}

// Both roles of a connection: the label party serves training, and both serve their status.
// `expected`: what the certificate is not, where it fails.
absl::Status CheckChain(const std::vector<X509Ptr>& chain, X509_STORE* store, const std::string& path,
                        absl::string_view expected) {
  const std::unique_ptr<STACK_OF(X509), StackDeleter> untrusted(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) {
    sk_X509_push(untrusted.get(), chain[i].get());
  }
  // A certificate for one role alone would fail only once the other party calls.
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
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

// That the first of `chain` holds today for both ends of TLS, no matter who signed it.
absl::Status CheckAlone(const std::vector<X509Ptr>& chain, const std::string& path) {
  const X509StorePtr store(X509_STORE_new());
  if (store == nullptr || X509_STORE_add_cert(store.get(), chain[0].get()) != 1 ||
      X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN) != 1) {
    return absl::InternalError(absl::StrCat("OpenSSL cannot hold a certificate: ", TakeOpenSslError()));
  }
  return CheckChain(chain, store.get(), path, "a valid certificate for TLS clients and servers");
}

// A certificate that may not sign others can be trusted for itself alone.
bool IsPinned(const X509Ptr& certificate) { return X509_check_ca(certificate.get()) == 0; }

// Of the peer's own certificates, in place of an authority's.
absl::Status CheckPinned(const TlsIdentity& identity, std::vector<X509Ptr> pinned) {
  const std::string& path = identity.authority_path;
  for (X509Ptr& certificate : pinned) {
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

// The party's certificate and what it trusts, against each other.
absl::Status CheckTrust(const TlsIdentity& identity, const std::vector<X509Ptr>& chain,
                        std::vector<X509Ptr> authorities) {
  if (std::any_of(authorities.begin(), authorities.end(), IsPinned)) {
    SPLITVEIL_RETURN_IF_ERROR(CheckPinned(identity, std::move(authorities)));
    return CheckAlone(chain, identity.certificate_path);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const X509StorePtr store, TrustStore(authorities));
  return CheckChain(chain, store.get(), identity.certificate_path,
                    "a valid certificate of the authority for TLS clients and servers");
}

}  // namespace

// As PostgreSQL has it: a key of this user's is nobody else's to read, and one of root's at most its group's. A key
// that others can read is theirs, too: a program that took it would hide that.
absl::Status CheckKeyIsOwners(const std::string& path) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    return NoPem(path);
  }
  const bool group_of_root = facts.st_uid == 0 && geteuid() != 0;
  const mode_t others = S_IRWXO | (group_of_root ? S_IWGRP | S_IXGRP : S_IRWXG);
  return (facts.st_mode & others) == 0
             ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   absl::StrFormat("%s: expected a private key that nobody but its owner may read, found mode %04o; "
                                   "chmod 600, and a new key where others may have read this one",
                                   path, facts.st_mode & 07777));
}

absl::StatusOr<TlsIdentity> LoadTlsIdentity(const std::string& own_name, const std::string& peer_name,
                                            const std::string& certificate_path, const std::string& private_key_path,
                                            const std::string& authority_path) {
  if (own_name.empty() || peer_name.empty() || absl::EqualsIgnoreCase(own_name, peer_name)) {
    return absl::InvalidArgumentError(absl::StrCat("identity: expected two different names, found own_name \"",
                                                   own_name, "\" and peer_name \"", peer_name, "\""));
  }
  TlsIdentity identity{own_name, peer_name, "", "", "", certificate_path, private_key_path, authority_path};
  const std::pair<const std::string*, std::string*> files[] = {{&certificate_path, &identity.certificate_pem},
                                                               {&private_key_path, &identity.private_key_pem},
                                                               {&authority_path, &identity.authority_pem}};
  // Before it is read: a key that others can read is refused, not used.
  SPLITVEIL_RETURN_IF_ERROR(CheckKeyIsOwners(private_key_path));
  for (const auto& [path, pem] : files) {
    SPLITVEIL_ASSIGN_OR_RETURN(*pem, ReadPem(*path));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain,
                             In(certificate_path, ParseCertificates(identity.certificate_pem)));
  SPLITVEIL_ASSIGN_OR_RETURN(const PrivateKeyPtr key, In(private_key_path, ParsePrivateKey(identity.private_key_pem)));
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<X509Ptr> authorities,
                             In(authority_path, ParseCertificates(identity.authority_pem)));
  X509* certificate = chain[0].get();
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
  // Each by its digest, so that no text can pass for two others.
  std::string all;
  for (const std::string* part : {&identity.certificate_pem, &identity.peer_name, &identity.authority_pem}) {
    absl::StrAppend(&all, AsBytes(Sha256(*part)));
  }
  return Sha256(all);
}

}  // namespace splitveil
