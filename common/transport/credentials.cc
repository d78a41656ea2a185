#include "common/transport/credentials.h"

#include <algorithm>
#include <cstdlib>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

// A connection that carries a call and is silent this long is asked for a sign of life, and given up without one.
constexpr int kKeepaliveMillis = 30'000;
constexpr int kKeepaliveTimeoutMillis = 20'000;
constexpr int kMinPingIntervalMillis = 10'000;  // What a server tolerates; below kKeepaliveMillis.
constexpr int kMaxReconnectBackoffMillis = 5'000;

// Status shows losses, and a batch's exact loss tells of its labels: it is for the party's own operator alone.
constexpr absl::string_view kOperations = "/splitveil.v1.Operations/";
constexpr absl::string_view kHealth = "/grpc.health.v1.Health/";

int ClampToInt(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(bytes, 0, std::numeric_limits<int>::max()));
}

// Decides each call by the DNS name in the caller's certificate, before any handler runs. The handshake has verified
// the certificate itself.
class IdentityCheck : public grpc::AuthMetadataProcessor {
 public:
  IdentityCheck(std::string own_name, std::string peer_name)
      : own_name_(std::move(own_name)), peer_name_(std::move(peer_name)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata* /*consumed*/,
                       OutputMetadata* /*response*/) override {
    const auto path = metadata.find(":path");
    const std::string method = path == metadata.end() ? "" : std::string(path->second.data(), path->second.size());
    std::string found;
    for (const grpc::string_ref& property : context->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
      const std::string name(property.data(), property.size());
      if (MayCall(name, method)) {
        return grpc::Status::OK;
      }
      absl::StrAppend(&found, found.empty() ? "" : ", ", name);
    }
    std::replace_if(
        found.begin(), found.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                        absl::StrCat("certificate of the caller: expected name ",
                                     absl::StartsWith(method, kOperations) ? own_name_ : peer_name_, ", found ",
                                     found.empty() ? "none" : found));
  }

 private:
  bool MayCall(absl::string_view name, absl::string_view method) const {
    const bool own = absl::EqualsIgnoreCase(name, own_name_);
    const bool peer = absl::EqualsIgnoreCase(name, peer_name_);
    if (absl::StartsWith(method, kHealth)) {
      return own || peer;
    }
    return absl::StartsWith(method, kOperations) ? own : peer;
  }

  const std::string own_name_;
  const std::string peer_name_;
};

}  // namespace

void RequireTls13() {
  // gRPC's C++ interface has no lowest version, but takes its TLS 1.2 suites from here. A suite of pre-shared keys can
  // never be chosen, for neither side has such a key; the suites of TLS 1.3 are configured apart and stay.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", /*overwrite=*/1);
}

std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsIdentity& identity) {
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = identity.authority_pem;
  options.pem_key_cert_pairs.push_back({identity.private_key_pem, identity.certificate_pem});
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::SslServerCredentials(options);
  credentials->SetAuthMetadataProcessor(std::make_shared<IdentityCheck>(identity.own_name, identity.peer_name));
  return credentials;
}

void LimitServer(grpc::ServerBuilder& builder, int64_t max_message_bytes) {
  builder.SetMaxReceiveMessageSize(ClampToInt(max_message_bytes));
  builder.SetMaxSendMessageSize(ClampToInt(max_message_bytes));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kMinPingIntervalMillis);
  // Two servers must not share a port by SO_REUSEPORT: calls would reach either.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

std::shared_ptr<grpc::Channel> TlsChannel(const std::string& address, const TlsIdentity& identity,
                                          const std::string& server_name, int64_t max_message_bytes) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = identity.authority_pem;
  options.pem_private_key = identity.private_key_pem;
  options.pem_cert_chain = identity.certificate_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(server_name);
  arguments.SetMaxReceiveMessageSize(ClampToInt(max_message_bytes));
  arguments.SetMaxSendMessageSize(ClampToInt(max_message_bytes));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMillis);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMillis);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMillis);
  // The peer is where the configuration says: no proxy from the environment, no service configuration from DNS.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
}

}  // namespace splitveil
