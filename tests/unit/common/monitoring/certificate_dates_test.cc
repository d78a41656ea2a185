#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "deploy/operator/certificates/certificate_authority.h"

#include "common/monitoring/monitoring_server.h"
#include "common/transport/certificate.h"
#include "tests/unit/common/monitoring/pinned_identity_fixture.h"

namespace splitveil {
namespace {

class CertificateDatesTest : public PinnedIdentityTest {
 protected:
  static std::map<std::string, int64_t> Ends(CertificateDates& dates) {
    v1::GetStatusResponse status;
    dates.AddTo(status);
    std::map<std::string, int64_t> ends;
    for (const v1::CertificateEnd& end : status.certificates()) {
      ends[end.certificate()] = end.not_after();
    }
    return ends;
  }
};

TEST_F(CertificateDatesTest, AreThoseOfTheFilesOnceTheyAreToBeReadAgain) {
  const int64_t own = Write("own", 30), peer = Write("peer", 60);
  CertificateDates dates(Load(), &PinnedIdentityTest::Requests);
  EXPECT_EQ(Ends(dates), (std::map<std::string, int64_t>{{"own", own}, {"trusted", peer}}));
  const int64_t renewed = Write("own", 90);
  EXPECT_NE(renewed, own);
  EXPECT_EQ(Ends(dates)["own"], own);
  ++requests;
  EXPECT_EQ(Ends(dates), (std::map<std::string, int64_t>{{"own", renewed}, {"trusted", peer}}));
  EXPECT_EQ(Ends(dates)["own"], renewed);
}

TEST_F(CertificateDatesTest, FilesThatAreNoIdentityChangeNothing) {
  CertificateDates dates(Load(), &PinnedIdentityTest::Requests);
  const std::map<std::string, int64_t> before = Ends(dates);
  std::ofstream(folder_.File("own.pem")) << "no certificate";
  ++requests;
  EXPECT_EQ(Ends(dates), before);
}

// The first of an own chain ends the whole; of two that are trusted, the peer's next one serves when this one has
// ended.
TEST_F(CertificateDatesTest, OfSeveralTheOneThatCounts) {
  TlsIdentity identity = Load();
  const std::string longer = CreateSelfSigned("peer.test", 300)->certificate_pem;
  identity.authority_pem += longer;
  identity.certificate_pem += longer;
  CertificateDates dates(identity, &PinnedIdentityTest::Requests);
  EXPECT_EQ(Ends(dates)["trusted"], ReadCertificateFacts(longer)->front().not_after_unix);
  EXPECT_LT(Ends(dates)["own"], Ends(dates)["trusted"]);
}

TEST_F(CertificateDatesTest, AnIdentityWithoutCertificatesHasNone) {
  CertificateDates dates(TlsIdentity{}, &PinnedIdentityTest::Requests);
  EXPECT_TRUE(Ends(dates).empty());
}

}  // namespace
}  // namespace splitveil
