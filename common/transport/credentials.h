// Mutual TLS 1.3 and the check of who the peer is.
//
// Who is checked where: the handshake verifies the chain of both certificates against the authority, the caller
// verifies the server's name in the handshake, and the server verifies the caller's name before any handler of a call
// runs.
#ifndef SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_
#define SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_

#include <cstdint>
#include <grpcpp/channel.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <memory>
#include <string>

#include "common/process/runtime.h"
#include "common/transport/tls_identity.h"

namespace splitveil {

// Call before the first use of gRPC in a process: leaves TLS 1.2 no cipher suite, so that only TLS 1.3 connects.
void RequireTls13();

// Server side: a client certificate of the authority is required. Calls of training, alignment and audit must come from
// peer_name, those of Operations from own_name (a batch's exact loss, which status shows, would tell the peer of its
// labels), health from either. Others get PermissionDenied. `requests` (as IdentityReloader's): once it has grown, the
// next handshake reads the identity's files again; connections that stand are left alone.
std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsIdentity& identity,
                                                              int (*requests)() = &ReloadRequests);

// Message limits both ways and keepalive, which must suit TlsChannel's: call on the builder of every server.
void LimitServer(grpc::ServerBuilder& builder, int64_t max_message_bytes);

// Channel to the server that must prove to be `server_name` (peer_name, or own_name to ask one's own party for status).
std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const TlsIdentity& identity,
                                          const std::string& server_name, int64_t max_message_bytes);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_
