// Certificates and bare OpenSSL ends of a connection for the TLS tests.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_TRANSPORT_TLS_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_TRANSPORT_TLS_FIXTURE_H_

#include <future>
#include <string>

#include "deploy/operator/certificates/certificate_authority.h"

#include "common/transport/credentials.h"

namespace splitveil {

inline constexpr char kLabelName[] = "label.test";
inline constexpr char kNonLabelName[] = "nonlabel.test";

// A valid authority named `common_name`; ends the test program on failure.
CertifiedKey NewAuthority(const std::string& common_name = "test authority");
CertifiedKey NewCertificate(const CertifiedKey& authority, const std::string& dns_name);
// A certificate of `authority` that ended yesterday, and one that begins tomorrow.
CertifiedKey ExpiredCertificate(const CertifiedKey& authority, const std::string& dns_name);
CertifiedKey FutureCertificate(const CertifiedKey& authority, const std::string& dns_name);
// One that the key of `signer` has signed, whatever its certificate allows.
CertifiedKey SignedBy(const CertifiedKey& signer, const std::string& dns_name);
// One that nobody but its own key has signed.
CertifiedKey SelfSignedCertificate(const std::string& dns_name);

// Identity from PEM contents, unchecked.
TlsIdentity IdentityOf(const CertifiedKey& own, const std::string& own_name, const std::string& peer_name,
                       const CertifiedKey& trusted_authority);

// Outcome of a bare handshake.
struct Handshake {
  bool completed = false;
  std::string version;  // For example "TLSv1.3".
};

// Bare client: connects to 127.0.0.1:port, offering no version above `max_version` (TLS1_2_VERSION, TLS1_3_VERSION).
Handshake ConnectBare(int port, const TlsIdentity& identity, int max_version);

// Bare server on a free port of 127.0.0.1 that takes one connection, speaks no version above `max_version`, requires a
// client certificate of the identity's authority, and closes.
class BareServer {
 public:
  BareServer(const TlsIdentity& identity, int max_version);
  ~BareServer();

  int port() const { return port_; }
  // Waits for the connection, at most 5 s.
  Handshake Result() { return result_.get(); }

 private:
  int port_ = 0;
  int listener_;  // After port_, which its initialiser sets.
  std::future<Handshake> result_;
};

// A TCP listener on a free port of 127.0.0.1 that never accepts, or (after closing it) a port where nobody listens.
int ListenOnFreePort(int* port);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_TRANSPORT_TLS_FIXTURE_H_
