#include "common/transport/peer_probe.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "common/status/status_macros.h"
#include "common/transport/certificate.h"
#include "common/transport/client_call.h"
#include "common/transport/host_port.h"

namespace splitveil {
namespace {

constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(2);
constexpr absl::Duration kAttemptLimit = absl::Seconds(10);  // For a server that accepts and sends nothing.
// A server that shuts down at this very moment also closes without a word; one that does so again and again refuses us.
constexpr int kSilentClosesForRefusal = 3;
constexpr int kDamagedForRefusal = 3;  // Likewise for handshakes that look damaged every time.

constexpr absl::Duration kStopPeriod = absl::Milliseconds(100);  // Between two questions whether to stop.

// How long to wait.
struct Patience {
  SteadyTime deadline;
  const std::function<bool()>& stop;  // May be empty.

  bool Stopped() const { return stop && stop(); }
  // Waits until `time`, or less if it is to stop.
  void SleepUntil(SteadyTime time) const {
    while (!Stopped() && SteadyNow() < time) {
      absl::SleepFor(std::min(absl::FromChrono(time - SteadyNow()), kStopPeriod));
    }
  }
};

// Whether `socket` became ready for `events` in time.
bool WaitFor(const Descriptor& socket, int events, const Patience& patience) {
  pollfd poll_entry = {socket.number(), static_cast<short>(events), 0};  // NOLINT(google-runtime-int): poll's type.
  while (true) {
    const absl::Duration left = std::max(absl::ZeroDuration(), absl::FromChrono(patience.deadline - SteadyNow()));
    // In short periods, so that a stop signal is noticed while a peer stays silent.
    const absl::Duration period = absl::Ceil(std::min(left, kStopPeriod), absl::Milliseconds(1));
    const int ready = poll(&poll_entry, 1, static_cast<int>(absl::ToInt64Milliseconds(period)));
    if (ready > 0) {
      return true;
    }
    if ((ready < 0 && errno != EINTR) || left == absl::ZeroDuration() || patience.Stopped()) {
      return false;
    }
  }
}

absl::StatusOr<Descriptor> ConnectOne(const addrinfo& candidate, const Patience& patience) {
  Descriptor connected(
      socket(candidate.ai_family, candidate.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, candidate.ai_protocol));
  int error = 0;
  if (connected.number() < 0 || connect(connected.number(), candidate.ai_addr, candidate.ai_addrlen) != 0) {
    error = errno;
  }
  if (error == EINPROGRESS) {  // Once the socket is writable, SO_ERROR holds the outcome.
    socklen_t size = sizeof(error);
    if (!WaitFor(connected, POLLOUT, patience)) {
      error = ETIMEDOUT;
    } else if (getsockopt(connected.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
      error = errno;
    }
  }
  return error == 0 ? absl::StatusOr<Descriptor>(std::move(connected)) : absl::UnavailableError(std::strerror(error));
}

// Tries every address of the host. The resolver's own time-out bounds the look-up.
absl::StatusOr<Descriptor> Connect(const HostPort& target, const Patience& patience) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(target.host.c_str(), absl::StrCat(target.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, OpenSslDeleter<addrinfo, freeaddrinfo>> owner(found);
  absl::Status last = absl::UnavailableError("no address");
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    absl::StatusOr<Descriptor> connected = ConnectOne(*candidate, patience);
    if (connected.ok()) {
      return connected;
    }
    last = connected.status();
  }
  return last;
}

// What was wrong with the peer's certificate; filled by the verification callback.
struct Verdict {
  int error = X509_V_OK;
  std::string names;
};

int VerdictIndex() {
  // Process-wide and never given back: allocated once, also if many probes run.
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

int RecordVerdict(int verified, X509_STORE_CTX* store) {
  // Recorded while OpenSSL still knows the certificate; afterwards only "verify failed" is left.
  if (verified != 1) {
    const auto* ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* verdict = static_cast<Verdict*>(SSL_get_ex_data(ssl, VerdictIndex()));
    verdict->error = X509_STORE_CTX_get_error(store);
    verdict->names = DnsNames(X509_STORE_CTX_get0_cert(store));
  }
  return verified;
}

absl::StatusOr<SslContextPtr> ClientContext(const TlsIdentity& identity) {
  const auto authorities = ParseCertificates(identity.authority_pem);
  const auto chain = ParseCertificates(identity.certificate_pem);
  const auto key = ParsePrivateKey(identity.private_key_pem);
  for (const absl::Status& status : {authorities.status(), chain.status(), key.status()}) {
    if (!status.ok()) {
      return status;
    }
  }
  auto store = TrustStore(*authorities);
  if (!store.ok()) {
    return store.status();
  }
  SslContextPtr context(SSL_CTX_new(TLS_client_method()));
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  // TLS 1.3 and HTTP/2 alone, as gRPC will ask for: a probe with other settings could succeed where gRPC fails.
  bool configured = context != nullptr && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                    SSL_CTX_use_certificate(context.get(), (*chain)[0].get()) == 1 &&
                    SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1 &&
                    SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2)) == 0;
  for (size_t i = 1; configured && i < chain->size(); ++i) {
    configured = SSL_CTX_add1_chain_cert(context.get(), (*chain)[i].get()) == 1;
  }
  if (!configured) {
    return absl::InvalidArgumentError(absl::StrCat("certificate: OpenSSL cannot use it: ", TakeOpenSslError()));
  }
  // gRPC reports every failed handshake as unavailable. This probe exists to say which certificate is wrong, and why.
  SSL_CTX_set_cert_store(context.get(), store->release());
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, RecordVerdict);
  return context;
}

enum class Step { kDone, kClosed, kTimedOut, kFailed };

// Runs one OpenSSL operation on a non-blocking socket to its end.
template <typename Operation>
Step Complete(SSL* ssl, const Descriptor& socket, const Patience& patience, const Operation& operation) {
  while (true) {
    // An error that an earlier operation left in the queue would be read as this one's.
    ERR_clear_error();
    const int result = operation();
    if (result > 0) {
      return Step::kDone;
    }
    switch (SSL_get_error(ssl, result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        if (!WaitFor(socket, SSL_want_read(ssl) ? POLLIN : POLLOUT, patience)) {
          return Step::kTimedOut;
        }
        break;
      case SSL_ERROR_SSL:
        return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? Step::kClosed : Step::kFailed;
      default:
        return Step::kClosed;
    }
  }
}

absl::Status Refusal(const std::string& message) { return MarkRefusedByPeer(absl::PermissionDeniedError(message)); }

// Reads the thread's error queue. A reason above SSL_AD_REASON_OFFSET is an alert that the peer sent.
absl::Status HandshakeFailure(const Verdict& verdict, const std::string& server_name) {
  if (verdict.error == X509_V_ERR_HOSTNAME_MISMATCH) {
    ERR_clear_error();
    return Refusal(absl::StrCat("certificate of the peer: expected name ", server_name, ", found ", verdict.names));
  }
  if (verdict.error != X509_V_OK) {
    ERR_clear_error();
    // Told apart for the operator: a wrong authority is a mix-up of files, an expired certificate is not.
    const bool foreign = verdict.error == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                         verdict.error == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
                         verdict.error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
                         verdict.error == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE ||
                         verdict.error == X509_V_ERR_CERT_SIGNATURE_FAILURE;
    return Refusal(absl::StrCat(
        "certificate of the peer: expected one of our authority, found ",
        foreign ? "one that is not signed by it: " : "an invalid one: ", X509_verify_cert_error_string(verdict.error)));
  }
  const int reason = ERR_GET_REASON(ERR_peek_error());
  const std::string text = TakeOpenSslError();
  // An alert comes from the peer: then this party's certificate is at fault, not the peer's.
  if (reason > SSL_AD_REASON_OFFSET) {
    return Refusal(absl::StrCat("the peer refused our certificate or TLS version: ", text));
  }
  return Refusal(absl::StrCat("TLS 1.3 negotiation failed: ", text));
}

// Whether the error at the head of the queue is one that bytes damaged on the way cause, at either end.
bool LooksLikeDamage() {
  constexpr int kReasons[] = {SSL_R_BAD_EXTENSION,
                              SSL_R_BAD_LENGTH,
                              SSL_R_BAD_RECORD_TYPE,
                              SSL_R_BAD_SIGNATURE,
                              SSL_R_DATA_LENGTH_TOO_LONG,
                              SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC,
                              SSL_R_DIGEST_CHECK_FAILED,
                              SSL_R_LENGTH_MISMATCH,
                              SSL_R_PACKET_LENGTH_TOO_LONG,
                              SSL_R_RECORD_LENGTH_MISMATCH,
                              SSL_R_UNEXPECTED_MESSAGE,
                              SSL_R_UNSOLICITED_EXTENSION,
                              SSL_R_SSLV3_ALERT_BAD_RECORD_MAC,
                              SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER,
                              SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE,
                              SSL_R_TLSV1_ALERT_DECODE_ERROR,
                              SSL_R_TLSV1_ALERT_DECRYPT_ERROR};
  return absl::c_linear_search(kReasons, ERR_GET_REASON(ERR_peek_error()));
}

struct Attempt {
  absl::Status status;
  bool closed_silently = false;  // After it saw our certificate.
  bool damaged = false;          // LooksLikeDamage.
};

Attempt FailedHandshake(const Verdict& verdict, const std::string& server_name) {
  // A certificate that was judged bad is bad, however broken the rest of the handshake looks.
  const bool damaged = verdict.error == X509_V_OK && LooksLikeDamage();
  return {HandshakeFailure(verdict, server_name), false, damaged};
}

Attempt TryOnce(const HostPort& target, SSL_CTX* context, const std::string& server_name, const Patience& patience) {
  absl::StatusOr<Descriptor> socket = Connect(target, patience);
  if (!socket.ok()) {
    return {socket.status()};
  }
  // A new connection for each attempt, so that no state of a failed handshake is carried over.
  const SslPtr ssl(SSL_new(context));
  Verdict verdict;
  if (ssl == nullptr || SSL_set_ex_data(ssl.get(), VerdictIndex(), &verdict) != 1 ||
      SSL_set_fd(ssl.get(), socket->number()) != 1 || SSL_set_tlsext_host_name(ssl.get(), server_name.c_str()) != 1 ||
      SSL_set1_host(ssl.get(), server_name.c_str()) != 1) {
    return {absl::InternalError(absl::StrCat("OpenSSL cannot start a connection: ", TakeOpenSslError()))};
  }
  // The same rules as CarriesDnsName's: what the probe accepts, gRPC will accept too.
  SSL_set_hostflags(ssl.get(), X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);

  switch (Complete(ssl.get(), *socket, patience, [&] { return SSL_connect(ssl.get()); })) {
    case Step::kDone:
      break;
    case Step::kFailed:
      return FailedHandshake(verdict, server_name);
    case Step::kClosed:
      return {absl::UnavailableError("connection closed during the TLS handshake")};
    case Step::kTimedOut:
      return {absl::UnavailableError("no answer to the TLS handshake")};
  }
  // In TLS 1.3 the client is done before the server has judged the client's certificate. A server that accepts it sends
  // HTTP/2 settings first; one that refuses sends an alert, or closes.
  char first_byte;
  switch (Complete(ssl.get(), *socket, patience, [&] { return SSL_read(ssl.get(), &first_byte, 1); })) {
    case Step::kDone:
      return {absl::OkStatus()};
    case Step::kFailed:
      return FailedHandshake(verdict, server_name);
    case Step::kClosed:
      return {absl::UnavailableError("connection closed after the TLS handshake"), true};
    default:
      return {absl::UnavailableError("no answer after the TLS handshake")};
  }
}

}  // namespace

absl::Status WaitForPeer(const std::string& address, const TlsIdentity& identity, const std::string& server_name,
                         SteadyTime deadline, const std::function<bool()>& stop, absl::Duration reminder) {
  SPLITVEIL_ASSIGN_OR_RETURN(const HostPort target, ParseHostPort("address", address));
  SPLITVEIL_ASSIGN_OR_RETURN(const SslContextPtr context, ClientContext(identity));
  const SteadyTime start = SteadyNow();
  WaitReminder waiting(start, absl::Trunc(absl::FromChrono(deadline - start), absl::Seconds(1)), reminder);
  absl::Duration pause = kFirstPause;
  int silent_closes = 0, damaged = 0;
  while (true) {
    // An attempt has a limit of its own: a server that accepts and stays silent must not use up the whole wait.
    const Patience patience = {std::min(deadline, SteadyAfter(kAttemptLimit)), stop};
    if (patience.Stopped()) {
      return absl::CancelledError(absl::StrCat(address, ": no longer waited for"));
    }
    const Attempt attempt = TryOnce(target, context.get(), server_name, patience);
    ERR_clear_error();
    if (attempt.status.ok()) {
      return absl::OkStatus();
    }
    // A bad network damages some handshakes; a wrong certificate fails every time in the same way.
    damaged = attempt.damaged ? damaged + 1 : 0;
    const bool may_pass = attempt.damaged && damaged < kDamagedForRefusal;
    if (!absl::IsUnavailable(attempt.status) && !may_pass) {
      absl::Status status(attempt.status.code(), absl::StrCat(address, ": ", attempt.status.message()));
      return RefusedByPeer(attempt.status) ? MarkRefusedByPeer(status) : status;
    }
    silent_closes = attempt.closed_silently ? silent_closes + 1 : 0;
    if (silent_closes >= kSilentClosesForRefusal) {
      return Refusal(
          absl::StrCat(address, ": the peer refused our certificate: it closes the connection on seeing it"));
    }
    if (SteadyAfter(pause) >= deadline) {
      return absl::UnavailableError(
          absl::StrCat(address, ": not reached within ",
                       absl::FormatDuration(absl::Trunc(absl::FromChrono(deadline - start), absl::Seconds(1))), ": ",
                       attempt.status.message()));
    }
    // A peer that exited because of its configuration never comes: only a person can help, so the log says what is
    // missing.
    waiting.Remind(SteadyNow(), absl::StrCat(server_name, " at ", address, " (", attempt.status.message(), ")"));
    // Jittered, so that two parties that restart together do not miss each other every time.
    patience.SleepUntil(SteadyAfter(Jittered(pause)));
    pause = std::min(2 * pause, kLongestPause);
  }
}

}  // namespace splitveil
