#include "common/transport/certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>
#include <string>

#include "absl/time/time.h"
#include "deploy/operator/certificates/certificate_authority.h"

#include "common/crypto/sha256.h"
#include "tests/unit/common/transport/tls_fixture.h"

namespace splitveil {
namespace {

using ::testing::MatchesRegex;

class CertificateFactsTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_EQ(ERR_peek_error(), 0); }
  static CertificateFacts Of(const std::string& pem) { return ReadCertificateFacts(pem).value().front(); }

  const CertifiedKey authority_ = NewAuthority("test authority");
  const CertifiedKey party_ = NewCertificate(authority_, kLabelName);
};

TEST_F(CertificateFactsTest, APartysSaysWhoItIsAndOfWhom) {
  const CertificateFacts facts = Of(party_.certificate_pem);
  EXPECT_EQ(facts.subject, "CN=label");
  EXPECT_EQ(facts.issuer, "CN=test authority");
  EXPECT_EQ(facts.dns_names, kLabelName);
  EXPECT_THAT(facts.not_before, MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]"));
  EXPECT_LT(facts.not_before, facts.not_after);
  EXPECT_FALSE(facts.is_authority);
  EXPECT_FALSE(facts.self_signed);
  EXPECT_TRUE(facts.begun);
  EXPECT_FALSE(facts.expired);
}

TEST_F(CertificateFactsTest, TellsAuthoritiesAndSelfSignedOnes) {
  EXPECT_TRUE(Of(authority_.certificate_pem).is_authority);
  EXPECT_TRUE(Of(authority_.certificate_pem).self_signed);
  const CertificateFacts own = Of(CreateSelfSigned(kLabelName, 30)->certificate_pem);
  EXPECT_FALSE(own.is_authority);
  EXPECT_TRUE(own.self_signed);
}

TEST_F(CertificateFactsTest, DigestIsThatOfTheDerEncoding) {
  const auto certificates = ParseCertificates(party_.certificate_pem);
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificates->front().get(), &der);
  ASSERT_GT(size, 0);
  EXPECT_EQ(Of(party_.certificate_pem).sha256, Sha256({reinterpret_cast<const char*>(der), static_cast<size_t>(size)}));
  OPENSSL_free(der);
}

TEST_F(CertificateFactsTest, CountsTheDaysThatAreLeft) {
  const CertificateFacts facts = Of(CreateSelfSigned(kLabelName, 10)->certificate_pem);
  EXPECT_EQ(absl::FormatTime("%Y-%m-%d", absl::FromUnixSeconds(facts.not_after_unix), absl::UTCTimeZone()),
            facts.not_after);
  EXPECT_EQ(facts.days_left, 9);  // Ten days from an hour ago.
  EXPECT_TRUE(facts.expires_soon());
  EXPECT_FALSE(Of(CreateSelfSigned(kLabelName, 60)->certificate_pem).expires_soon());
}

TEST_F(CertificateFactsTest, SaysWhatDoesNotHoldToday) {
  const CertificateFacts expired = Of(ExpiredCertificate(authority_, kLabelName).certificate_pem);
  EXPECT_TRUE(expired.expired);
  EXPECT_LT(expired.days_left, 0);
  EXPECT_FALSE(Of(FutureCertificate(authority_, kLabelName).certificate_pem).begun);
}

TEST_F(CertificateFactsTest, ReadsAllOfAFileAndRefusesWhatIsNone) {
  EXPECT_EQ(ReadCertificateFacts(party_.certificate_pem + authority_.certificate_pem)->size(), 2);
  for (const std::string& text : {std::string(), std::string("rubbish"), party_.private_key_pem,
                                  party_.certificate_pem.substr(0, party_.certificate_pem.size() / 2)}) {
    EXPECT_EQ(ReadCertificateFacts(text).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace splitveil
