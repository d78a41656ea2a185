#include "common/transport/credentials.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/telemetry/log.h"

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

// A new channel only with new certificates: a channel that is reused keeps its connection open.
void ReloadedChannel::Renew() {
  if (std::optional<TlsIdentity> identity = reloader_.Next(); identity.has_value()) {
    identity_ = *std::move(identity);
    channel_ = TlsChannel(address_, identity_, identity_.peer_name, max_message_bytes_);
  }
}

IdentityReloader::IdentityReloader(const TlsIdentity& identity, int (*requests)())
    : requests_(requests), identity_(identity), seen_(requests()) {}

std::optional<TlsIdentity> IdentityReloader::Next() {
  const absl::MutexLock lock(&mutex_);
  // A count, not a flag: several users of one process each see every request.
  const int requests = requests_();
  // Read again on request only: half-copied files must not end connections.
  if (std::exchange(seen_, requests) != requests && !identity_.certificate_path.empty()) {
    absl::StatusOr<TlsIdentity> again =
        LoadTlsIdentity(identity_.own_name, identity_.peer_name, identity_.certificate_path, identity_.private_key_path,
                        identity_.authority_path);
    if (again.ok()) {
      LogInfo("certificates read again from ", identity_.certificate_path);
      identity_ = *std::move(again);
      told_ = false;
    } else {
      // A faulty renewal must not end a run that the old certificates still carry.
      LogWarning("certificates stay as they were: ", again.status().message());
    }
  }
  return std::exchange(told_, true) ? std::nullopt : std::optional<TlsIdentity>(identity_);
}

namespace {

// A connection that carries a call and is silent this long is asked for a sign of life, and given up without one.
constexpr int kKeepaliveMillis = 30'000;
constexpr int kKeepaliveTimeoutMillis = 20'000;
constexpr int kMinPingIntervalMillis = 10'000;  // Least interval that a server tolerates: below the client's.
constexpr int kMaxReconnectBackoffMillis = 5'000;

constexpr int kMaxRefusalsLogged = 20;  // A caller that never stops must not fill the disk.

// Status shows losses, and a batch's exact loss reveals its labels: it is for the party's own operator alone.
constexpr absl::string_view kOperations = "/splitveil.v1.Operations/";
// A process that joins a party's workers gets its features.
constexpr absl::string_view kWorkers = "/splitveil.v1.WorkerRendezvous/";
constexpr absl::string_view kHealth = "/grpc.health.v1.Health/";

int ClampToInt(int64_t bytes) {
  return static_cast<int>(std::clamp<int64_t>(bytes, 0, std::numeric_limits<int>::max()));
}

// Decides each call by the DNS name in the caller's certificate, before any handler runs. The handshake has verified
// the certificate itself.
class IdentityCheck {
 public:
  IdentityCheck(std::string own_name, std::string peer_name)
      : own_name_(std::move(own_name)), peer_name_(std::move(peer_name)) {}

  // "": the caller of `method` may; else why not.
  std::string Refusal(absl::string_view method, const grpc_auth_context* context) const {
    std::string found;
    grpc_auth_property_iterator names = grpc_auth_context_find_properties_by_name(context, GRPC_PEER_DNS_PROPERTY_NAME);
    while (const grpc_auth_property* const property = grpc_auth_property_iterator_next(&names)) {
      const absl::string_view name(property->value, property->value_length);
      // Any of the names is enough; a certificate may carry several.
      // The method decides whose name is needed: training is the peer's, status and halt are the own operator's.
      if (MayCall(name, method)) {
        return "";
      }
      absl::StrAppend(&found, found.empty() ? "" : ", ", name);
    }
    std::replace_if(
        found.begin(), found.end(), [](char c) { return !absl::ascii_isprint(c); }, '?');
    return absl::StrCat("certificate of the caller: expected name ", IsOwn(method) ? own_name_ : peer_name_, ", found ",
                        found.empty() ? "none" : found);
  }

 private:
  bool MayCall(absl::string_view name, absl::string_view method) const {
    // DNS names have no case.
    const bool own = absl::EqualsIgnoreCase(name, own_name_);
    const bool peer = absl::EqualsIgnoreCase(name, peer_name_);
    // Health reveals nothing of a run, so both names may ask.
    if (absl::StartsWith(method, kHealth)) {
      return own || peer;
    }
    return IsOwn(method) ? own : peer;
  }

  static bool IsOwn(absl::string_view method) {
    return absl::StartsWith(method, kOperations) || absl::StartsWith(method, kWorkers);
  }

  const std::string own_name_;
  const std::string peer_name_;
};

absl::string_view TextOf(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// What a server's credentials ask: who it is, before each handshake, and who may call, before each call. gRPC's C++
// interface either polls certificate files or never reads them again; its C interface asks before each handshake. Owned
// by the credentials of the C interface.
class ServerIdentity {
 public:
  // Of one port of one server.
  static grpc_server_credentials* NewCredentials(const TlsIdentity& identity, int (*requests)()) {
    auto* const self = new ServerIdentity(identity, requests);
    grpc_server_credentials* const credentials =
        grpc_ssl_server_credentials_create_with_options(grpc_ssl_server_credentials_create_options_using_config_fetcher(
            GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY, &Fetch, self));
    grpc_server_credentials_set_auth_metadata_processor(credentials, {&Process, &Destroy, self});
    return credentials;
  }

 private:
  ServerIdentity(const TlsIdentity& identity, int (*requests)())
      : check_(identity.own_name, identity.peer_name), reloader_(identity, requests) {}

  static grpc_ssl_certificate_config_reload_status Fetch(void* self, grpc_ssl_server_certificate_config** config) {
    const std::optional<TlsIdentity> identity = static_cast<ServerIdentity*>(self)->reloader_.Next();
    if (!identity.has_value()) {
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    }
    const grpc_ssl_pem_key_cert_pair pair = {identity->private_key_pem.c_str(), identity->certificate_pem.c_str()};
    *config = grpc_ssl_server_certificate_config_create(identity->authority_pem.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  static void Process(void* self, grpc_auth_context* context, const grpc_metadata* metadata, size_t count,
                      grpc_process_auth_metadata_done_cb done, void* call) {
    // Checked per call and not per connection: one connection may carry calls to both services.
    const auto* const path =
        std::find_if(metadata, metadata + count, [](const grpc_metadata& each) { return TextOf(each.key) == ":path"; });
    const std::string refusal = static_cast<ServerIdentity*>(self)->check_.Refusal(
        path == metadata + count ? absl::string_view() : TextOf(path->value), context);
    if (!refusal.empty() && static_cast<ServerIdentity*>(self)->refusals_.fetch_add(1) < kMaxRefusalsLogged) {
      LogWarning("refused a call: ", refusal);
    }
    done(call, nullptr, 0, nullptr, 0, refusal.empty() ? GRPC_STATUS_OK : GRPC_STATUS_PERMISSION_DENIED,
         refusal.c_str());
  }

  static void Destroy(void* self) { delete static_cast<ServerIdentity*>(self); }

  const IdentityCheck check_;
  IdentityReloader reloader_;
  std::atomic<int> refusals_{0};
};

class ReloadedCredentials final : public grpc::ServerCredentials {
 public:
  ReloadedCredentials(const TlsIdentity& identity, int (*requests)())
      : credentials_(ServerIdentity::NewCredentials(identity, requests)) {}
  ~ReloadedCredentials() override { grpc_server_credentials_release(credentials_); }
  ReloadedCredentials(const ReloadedCredentials&) = delete;
  ReloadedCredentials& operator=(const ReloadedCredentials&) = delete;

  // The names in the identity decide who may call.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

}  // namespace

void RequireTls13() {
  // gRPC's C++ interface has no lowest version, but takes its TLS 1.2 suites from here. A suite of pre-shared keys can
  // never be chosen, for neither side has such a key; the suites of TLS 1.3 are configured apart and stay.
  setenv("GRPC_SSL_CIPHER_SUITES", "PSK-AES256-GCM-SHA384", /*overwrite=*/1);
}

std::shared_ptr<grpc::ServerCredentials> ServerTlsCredentials(const TlsIdentity& identity, int (*requests)()) {
  return std::make_shared<ReloadedCredentials>(identity, requests);
}

void LimitServer(grpc::ServerBuilder& builder, int64_t max_message_bytes) {
  // Before a handler runs: a message that is larger than agreed is refused without being parsed.
  builder.SetMaxReceiveMessageSize(ClampToInt(max_message_bytes));
  builder.SetMaxSendMessageSize(ClampToInt(max_message_bytes));
  // A message is inflated before its size is looked at, to a thousand times its bytes. No party of ours compresses.
  for (const grpc_compression_algorithm algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
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
  // The name that is verified is the agreed one, whatever address the peer is reached at.
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
