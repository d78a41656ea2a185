// The way to the peer, with certificates that are renewed while a run goes on.
#ifndef SPLITVEIL_COMMON_TRANSPORT_RELOADED_CHANNEL_H_
#define SPLITVEIL_COMMON_TRANSPORT_RELOADED_CHANNEL_H_

#include <cstdint>
#include <grpcpp/channel.h>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/process/runtime.h"
#include "common/transport/identity_reloader.h"
#include "common/transport/tls_identity.h"

namespace splitveil {

// gRPC's credentials of a channel are what they were when it was made, so another identity is another channel: calls
// under way go on over the one they began on. Thread-safe.
class ReloadedChannel {
 public:
  // As TlsChannel, to a server of the name identity.peer_name. `requests`: how often the identity's files were asked to
  // be read again.
  ReloadedChannel(std::string address, const TlsIdentity& identity, int64_t max_message_bytes,
                  int (*requests)() = &ReloadRequests);

  // The channel for a call that begins now.
  std::shared_ptr<grpc::Channel> Get() ABSL_LOCKS_EXCLUDED(mutex_);
  // What that channel shows, for whoever reaches the peer by other means.
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

#endif  // SPLITVEIL_COMMON_TRANSPORT_RELOADED_CHANNEL_H_
