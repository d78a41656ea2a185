#include "common/monitoring/http_listener.h"

#include <fstream>
#include <gtest/gtest.h>
#include <openssl/asn1.h>
#include <openssl/x509.h>

#include "tests/unit/common/monitoring/pinned_identity_fixture.h"

namespace splitveil {
namespace {

class PageTlsTest : public PinnedIdentityTest {
 protected:
  // When the certificate ends that the next connection shows.
  static int64_t Shown(PageTls& tls) {
    tm end = {};
    EXPECT_EQ(ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(tls.Current().get())), &end), 1);
    return timegm(&end);
  }
};

TEST_F(PageTlsTest, ShowsTheRenewedCertificateOnceTheFilesAreToBeReadAgain) {
  const int64_t own = Write("own", 30);
  const absl::StatusOr<std::unique_ptr<PageTls>> tls = PageTls::Create(Load(), &PinnedIdentityTest::Requests);
  ASSERT_TRUE(tls.ok()) << tls.status();
  EXPECT_EQ(Shown(**tls), own);
  const int64_t renewed = Write("own", 90);
  EXPECT_EQ(Shown(**tls), own);
  ++requests;
  EXPECT_EQ(Shown(**tls), renewed);
  EXPECT_EQ(Shown(**tls), renewed);
  EXPECT_NE(renewed, own);
}

TEST_F(PageTlsTest, AConnectionUnderWayKeepsItsOwn) {
  const absl::StatusOr<std::unique_ptr<PageTls>> tls = PageTls::Create(Load(), &PinnedIdentityTest::Requests);
  ASSERT_TRUE(tls.ok()) << tls.status();
  const std::shared_ptr<SSL_CTX> before = (*tls)->Current();
  Write("own", 90);
  ++requests;
  EXPECT_NE((*tls)->Current(), before);
  EXPECT_NE(SSL_CTX_get0_certificate(before.get()), nullptr);
}

TEST_F(PageTlsTest, FilesThatAreNoIdentityChangeNothing) {
  const absl::StatusOr<std::unique_ptr<PageTls>> tls = PageTls::Create(Load(), &PinnedIdentityTest::Requests);
  ASSERT_TRUE(tls.ok()) << tls.status();
  const int64_t before = Shown(**tls);
  std::ofstream(folder_.File("own.pem")) << "no certificate";
  ++requests;
  EXPECT_EQ(Shown(**tls), before);
}

TEST_F(PageTlsTest, NeedsACertificateAndItsKey) {
  TlsIdentity identity = Load();
  identity.private_key_path = folder_.File("peer.key");
  EXPECT_EQ(PageTls::Create(identity, &PinnedIdentityTest::Requests).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
