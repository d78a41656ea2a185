#include "tests/unit/common/transport/tls_fixture.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cstdlib>
#include <iostream>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <utility>

#include "deploy/operator/certificates/certificate_authority.h"

#include "common/transport/certificate.h"

namespace splitveil {
namespace {

constexpr int kWaitMillis = 5000;

void Require(bool holds, const char* what) {
  if (!holds) {
    std::cerr << "test fixture: " << what << "\n";
    std::abort();
  }
}

SslContextPtr BareContext(const SSL_METHOD* method, const TlsIdentity& identity, int max_version) {
  SslContextPtr context(SSL_CTX_new(method));
  const auto certificates = ParseCertificates(identity.certificate_pem);
  const auto key = ParsePrivateKey(identity.private_key_pem);
  const auto authorities = ParseCertificates(identity.authority_pem);
  Require(certificates.ok() && key.ok() && authorities.ok(), "unusable identity");
  Require(SSL_CTX_set_max_proto_version(context.get(), max_version) == 1 &&
              SSL_CTX_use_certificate(context.get(), (*certificates)[0].get()) == 1 &&
              SSL_CTX_use_PrivateKey(context.get(), key->get()) == 1,
          "unusable context");
  SSL_CTX_set_cert_store(context.get(), TrustStore(*authorities)->release());
  return context;
}

Handshake Outcome(SSL* ssl, int result) {
  ERR_clear_error();
  return {result == 1, result == 1 ? SSL_get_version(ssl) : ""};
}

void LimitWaiting(int descriptor) {
  const timeval limit = {kWaitMillis / 1000, 0};
  setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
}

Handshake AcceptOne(int listener, const TlsIdentity& identity, int max_version) {
  pollfd waiting = {listener, POLLIN, 0};
  if (poll(&waiting, 1, kWaitMillis) != 1) {
    return {};
  }
  const int descriptor = accept(listener, nullptr, nullptr);
  LimitWaiting(descriptor);
  const SslContextPtr context = BareContext(TLS_server_method(), identity, max_version);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // gRPC's client insists on ALPN.
  SSL_CTX_set_alpn_select_cb(
      context.get(),
      [](SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char*, unsigned, void*) {
        *out = reinterpret_cast<const unsigned char*>("h2");
        *out_size = 2;
        return SSL_TLSEXT_ERR_OK;
      },
      nullptr);
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), descriptor);
  const Handshake handshake = Outcome(ssl.get(), SSL_accept(ssl.get()));
  close(descriptor);
  return handshake;
}

// `certified` as of other dates, in days from now, signed by `signer`.
CertifiedKey Signed(CertifiedKey certified, const std::string& signer_pem, int from_days, int to_days) {
  const auto parsed = ParseCertificates(certified.certificate_pem);
  const auto key = ParsePrivateKey(signer_pem);
  X509* certificate = (*parsed)[0].get();
  constexpr int kDaySeconds = 24 * 3600;
  X509_gmtime_adj(X509_getm_notBefore(certificate), from_days * kDaySeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate), to_days * kDaySeconds);
  Require(X509_sign(certificate, key->get(), EVP_sha256()) > 0, "cannot sign");
  const std::unique_ptr<BIO, OpenSslDeleter<BIO, BIO_vfree>> bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  char* text = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &text);
  certified.certificate_pem.assign(text, static_cast<size_t>(size));
  return certified;
}

}  // namespace

CertifiedKey NewAuthority(const std::string& common_name) {
  auto authority = CreateAuthority(common_name, 30);
  Require(authority.ok(), "no authority");
  return *std::move(authority);
}

CertifiedKey NewCertificate(const CertifiedKey& authority, const std::string& dns_name) {
  auto certificate = IssueCertificate(authority, dns_name, 10);
  Require(certificate.ok(), "no certificate");
  return *std::move(certificate);
}

CertifiedKey ExpiredCertificate(const CertifiedKey& authority, const std::string& dns_name) {
  return Signed(NewCertificate(authority, dns_name), authority.private_key_pem, -2, -1);
}

CertifiedKey FutureCertificate(const CertifiedKey& authority, const std::string& dns_name) {
  return Signed(NewCertificate(authority, dns_name), authority.private_key_pem, 1, 2);
}

CertifiedKey SignedBy(const CertifiedKey& signer, const std::string& dns_name) {
  const auto issuer = ParseCertificates(signer.certificate_pem);
  const auto issuer_key = ParsePrivateKey(signer.private_key_pem);
  const PrivateKeyPtr key = NewKey();
  const auto certificate = NewUnsigned(FirstLabel(dns_name), key.get(), 30);
  Require(issuer.ok() && issuer_key.ok() && certificate.ok() &&
              Sign(certificate->get(), issuer->front().get(), issuer_key->get(), PartyExtensions(dns_name)).ok(),
          "cannot sign a certificate");
  return {CertificatePem(certificate->get()).value(), KeyPem(key.get()).value()};
}

CertifiedKey SelfSignedCertificate(const std::string& dns_name) {
  CertifiedKey certified = NewCertificate(NewAuthority(dns_name), dns_name);  // Subject and issuer are the same name.
  return Signed(certified, certified.private_key_pem, -1, 2);
}

TlsIdentity IdentityOf(const CertifiedKey& own, const std::string& own_name, const std::string& peer_name,
                       const CertifiedKey& trusted_authority) {
  return {own_name, peer_name, own.certificate_pem, own.private_key_pem, trusted_authority.certificate_pem};
}

Handshake ConnectBare(int port, const TlsIdentity& identity, int max_version) {
  const int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  Require(connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0, "cannot connect");
  LimitWaiting(descriptor);
  const SslContextPtr context = BareContext(TLS_client_method(), identity, max_version);
  constexpr unsigned char kHttp2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2));
  const SslPtr ssl(SSL_new(context.get()));
  SSL_set_fd(ssl.get(), descriptor);
  char byte;
  int result = SSL_connect(ssl.get());
  if (result == 1) {
    result = SSL_read(ssl.get(), &byte, 1);  // The server judges the client's certificate only now.
  }
  const Handshake handshake = Outcome(ssl.get(), result);
  close(descriptor);
  return handshake;
}

int ListenOnFreePort(int* port) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  Require(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 && listen(listener, 4) == 0 &&
              getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0,
          "cannot listen");
  *port = ntohs(address.sin_port);
  return listener;
}

BareServer::BareServer(const TlsIdentity& identity, int max_version) : listener_(ListenOnFreePort(&port_)) {
  result_ = std::async(std::launch::async, AcceptOne, listener_, identity, max_version);
}

BareServer::~BareServer() {
  if (result_.valid()) {
    result_.wait();
  }
  close(listener_);
}

}  // namespace splitveil
