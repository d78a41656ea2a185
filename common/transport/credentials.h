// Mutual TLS 1.3, the check of who the peer is, and certificates that are renewed while a program runs.
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
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/process/runtime.h"
#include "common/transport/certificate.h"

namespace splitveil {

// Call before the first use of gRPC in a process: leaves TLS 1.2 no cipher suite, so that only TLS 1.3 connects.
void RequireTls13();

// Server side: requires a client certificate of the authority. Calls of training, alignment and audit must come from
// peer_name. Calls of Operations must come from own_name, because status shows a batch's exact loss, which would reveal
// labels to the peer, and so must those of WorkerRendezvous, whose caller gets this party's features. Health answers
// both. All other callers get PermissionDenied. `requests` (see IdentityReloader): once it has grown, the next
// handshake reads the identity's files again; open connections are not affected.
std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsIdentity& identity,
                                                              int (*requests)() = &ReloadRequests);

// Message limits both ways, no compression, and keepalive, which must suit TlsChannel's: call on the builder of every
// server.
void LimitServer(grpc::ServerBuilder& builder, int64_t max_message_bytes);

// Channel to the server that must prove to be `server_name` (peer_name, or own_name to ask one's own party for status).
std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const TlsIdentity& identity,
                                          const std::string& server_name, int64_t max_message_bytes);

// Reads an identity's files again when asked to. Thread-safe.
class IdentityReloader {
 public:
  // `requests`: returns how often a reload was asked for so far (ReloadRequests); called from any thread. An identity
  // that does not come from files never changes.
  IdentityReloader(const TlsIdentity& identity, int (*requests)());

  // The identity at the first call and whenever its files were read again since the last one; nullopt if it has not
  // changed. Files that are no valid identity of the same name change nothing; the log has a warning.
  std::optional<TlsIdentity> Next() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  int (*const requests_)();
  absl::Mutex mutex_;
  TlsIdentity identity_ ABSL_GUARDED_BY(mutex_);
  int seen_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // Of the identity as it was given.
};

// A channel to the peer that follows a renewed identity. gRPC cannot change the credentials of a channel, so a new
// identity gets a new channel; calls under way stay on theirs. Thread-safe.
class ReloadedChannel {
 public:
  // See TlsChannel; the server must prove to be identity.peer_name. `requests`: see IdentityReloader.
  ReloadedChannel(std::string address, const TlsIdentity& identity, int64_t max_message_bytes,
                  int (*requests)() = &ReloadRequests);

  // The channel for a call that begins now.
  std::shared_ptr<grpc::Channel> Get() ABSL_LOCKS_EXCLUDED(mutex_);
  // What that channel shows, for code that reaches the peer by other means.
  TlsIdentity identity() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Renew() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string address_;
  const int64_t max_message_bytes_;
  IdentityReloader reloader_;
  absl::Mutex mutex_;
  TlsIdentity identity_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<grpc::Channel> channel_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_CREDENTIALS_H_
