// Mutual TLS 1.3 and the check of who the peer is.
//
// Who is checked where: the handshake verifies the chain of both certificates against the authority, the caller
// verifies the server's name in the handshake, and the server verifies the caller's name before any handler of a call
// runs.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_
#define SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_

#include <cstdint>
#include <functional>
#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace splitveil {

// PEM contents and names, checked where LoadTlsIdentity made it: the key belongs to the certificate, the certificate
// carries own_name and is of the authority, unexpired, for TLS clients and servers. Holds a private key: never log it.
struct TlsIdentity {
  std::string own_name, peer_name;
  std::string certificate_pem, private_key_pem, authority_pem;
};

// Reads and checks the files. Errors: NotFound, InvalidArgument naming the file and what is wrong with it.
absl::StatusOr<TlsIdentity> LoadTlsIdentity(const std::string& own_name, const std::string& peer_name,
                                            const std::string& certificate_path, const std::string& private_key_path,
                                            const std::string& authority_path);

// Call before the first use of gRPC in a process: leaves TLS 1.2 no cipher suite, so that only TLS 1.3 connects.
void RequireTls13();

// Server side: a client certificate of the authority is required. Calls of training, alignment and audit must come from
// peer_name, those of Operations from own_name (a batch's exact loss, which status shows, would tell the peer of its
// labels), health from either. Others get PermissionDenied.
std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsIdentity& identity);

// Message limits both ways and keepalive, which must suit TlsChannel's: call on the builder of every server.
void LimitServer(grpc::ServerBuilder& builder, int64_t max_message_bytes);

// Channel to the server that must prove to be `server_name` (peer_name, or own_name to ask one's own party for status).
std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const TlsIdentity& identity,
                                          const std::string& server_name, int64_t max_message_bytes);

// Waits until the peer at `address` ("host:port" or "[v6]:port") has accepted a TLS handshake and our certificate;
// tries again while it is not there. Errors: Unavailable when nobody listens before `deadline`; PermissionDenied, at
// once, with the cause and marked as a refusal, when either side refuses the other's certificate or TLS version;
// InvalidArgument for a malformed address; Cancelled soon after `stop`, asked every 100 ms, first says true (a name
// look-up under way is waited for). Thread-safe; nothing but the handshake is sent.
absl::Status WaitForPeer(const std::string& address, const TlsIdentity& identity, const std::string& server_name,
                         absl::Time deadline, const std::function<bool()>& stop = {});

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_
