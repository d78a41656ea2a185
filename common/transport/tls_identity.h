// Who a party is to its peer: its certificate, its private key and the authority that both trust.
#ifndef SPLITVEIL_COMMON_TRANSPORT_TLS_IDENTITY_H_
#define SPLITVEIL_COMMON_TRANSPORT_TLS_IDENTITY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/digest.h"

namespace splitveil {

// PEM contents and names, checked where LoadTlsIdentity made it: the key belongs to the certificate, which carries
// own_name and is unexpired, for TLS clients and servers. What is trusted is either of two. An authority: then it has
// signed this certificate, too, and the peer's. Or the peer's own certificate, self-signed and no authority, so that it
// has signed nothing else: it is pinned, no other is accepted from the peer, and who this party's own is of is the
// peer's business. Holds a private key: never log it.
struct TlsIdentity {
  std::string own_name, peer_name;
  std::string certificate_pem, private_key_pem, authority_pem;
  std::string certificate_path = "", private_key_path = "", authority_path = "";  // Empty: not of files.
};

// Reads and checks the files. `authority_path`: one or several authorities, or one or several certificates of the peer
// (the one in use and the next). Errors: NotFound, InvalidArgument naming the file and what is wrong with it; a private
// key that others than its owner may read is refused (its group may, where root owns it and this process is not
// root's).
absl::StatusOr<TlsIdentity> LoadTlsIdentity(const std::string& own_name, const std::string& peer_name,
                                            const std::string& certificate_path, const std::string& private_key_path,
                                            const std::string& authority_path);

// That nobody but its owner may read the file of a private key (its group may, where root owns it and this process is
// not root's): NotFound, or InvalidArgument with the file and its mode.
absl::Status CheckKeyIsOwners(const std::string& path);

// Names who talks to whom: SHA-256 of the own certificate, the peer's name and the authority that vouches for it.
Digest IdentitySha256(const TlsIdentity& identity);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_TLS_IDENTITY_H_
