#include "common/transport/reloaded_channel.h"

#include <optional>
#include <utility>

#include "common/transport/credentials.h"

namespace splitveil {

ReloadedChannel::ReloadedChannel(std::string address, const TlsIdentity& identity, int64_t max_message_bytes,
                                 int (*requests)())
    : address_(std::move(address)), max_message_bytes_(max_message_bytes), reloader_(identity, requests) {}

std::shared_ptr<grpc::Channel> ReloadedChannel::Get() {
  const absl::MutexLock lock(&mutex_);
  Renew();
  return channel_;
}

TlsIdentity ReloadedChannel::identity() {
  const absl::MutexLock lock(&mutex_);
  Renew();
  return identity_;
}

void ReloadedChannel::Renew() {
  if (std::optional<TlsIdentity> identity = reloader_.Next(); identity.has_value()) {
    identity_ = *std::move(identity);
    channel_ = TlsChannel(address_, identity_, identity_.peer_name, max_message_bytes_);
  }
}

}  // namespace splitveil
