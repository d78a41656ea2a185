#include "common/monitoring/page_tls.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

absl::StatusOr<std::shared_ptr<SSL_CTX>> MakeContext(const TlsIdentity& identity) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) {
    return absl::InternalError("party.monitoring: TLS 1.3 is not to be had");
  }
  if (SSL_CTX_use_certificate_chain_file(context.get(), identity.certificate_path.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(context.get(), identity.private_key_path.c_str(), SSL_FILETYPE_PEM) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("party.monitoring: expected a certificate and its key, found ",
                                                   identity.certificate_path, " and ", identity.private_key_path));
  }
  return context;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PageTls>> PageTls::Create(const TlsIdentity& identity, int (*requests)()) {
  std::unique_ptr<PageTls> tls = absl::WrapUnique(new PageTls(identity, requests));
  const absl::MutexLock lock(&tls->mutex_);
  SPLITVEIL_ASSIGN_OR_RETURN(tls->context_, MakeContext(tls->identity_.Next().value_or(identity)));
  return tls;
}

std::shared_ptr<SSL_CTX> PageTls::Current() {
  const absl::MutexLock lock(&mutex_);
  if (const std::optional<TlsIdentity> renewed = identity_.Next(); renewed.has_value()) {
    if (absl::StatusOr<std::shared_ptr<SSL_CTX>> context = MakeContext(*renewed); context.ok()) {
      context_ = *std::move(context);
    } else {
      LogWarning("the page keeps its certificate: ", context.status().message());
    }
  }
  return context_;
}

}  // namespace splitveil
