#include "common/monitoring/certificate_dates.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "deploy/operator/certificates/certificate_request.h"

#include "common/transport/certificate_facts.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

int reload_requests = 0;  // A signal's count is as global.

// Both parties pin self-signed certificates.
class CertificateDatesTest : public ::testing::Test {
 protected:
  CertificateDatesTest() {
    Write("own", 30);
    Write("peer", 60);
    reload_requests = 0;
  }

  // `name`'s, valid for so many days; when it ends.
  int64_t Write(const std::string& name, int days) {
    const CertifiedKey made = CreateSelfSigned(name + ".test", days).value();
    std::ofstream(folder_.File(name + ".pem")) << made.certificate_pem;
    std::ofstream(folder_.File(name + ".key")) << made.private_key_pem;
    std::filesystem::permissions(folder_.File(name + ".key"), std::filesystem::perms(0600));
    return ReadCertificateFacts(made.certificate_pem)->front().not_after_unix;
  }
  TlsIdentity Load() const {
    absl::StatusOr<TlsIdentity> identity = LoadTlsIdentity("own.test", "peer.test", folder_.File("own.pem"),
                                                           folder_.File("own.key"), folder_.File("peer.pem"));
    EXPECT_TRUE(identity.ok()) << identity.status();
    return identity.ok() ? *identity : TlsIdentity();
  }
  static std::map<std::string, int64_t> Ends(CertificateDates& dates) {
    v1::GetStatusResponse status;
    dates.AddTo(status);
    std::map<std::string, int64_t> ends;
    for (const v1::CertificateEnd& end : status.certificates()) {
      ends[end.certificate()] = end.not_after();
    }
    return ends;
  }

  const testing::TempFolder folder_;
};

TEST_F(CertificateDatesTest, AreThoseOfTheFilesOnceTheyAreToBeReadAgain) {
  const int64_t own = Write("own", 30), peer = Write("peer", 60);
  CertificateDates dates(Load(), [] { return reload_requests; });
  EXPECT_EQ(Ends(dates), (std::map<std::string, int64_t>{{"own", own}, {"trusted", peer}}));
  const int64_t renewed = Write("own", 90);
  EXPECT_NE(renewed, own);
  EXPECT_EQ(Ends(dates)["own"], own);
  ++reload_requests;
  EXPECT_EQ(Ends(dates), (std::map<std::string, int64_t>{{"own", renewed}, {"trusted", peer}}));
  EXPECT_EQ(Ends(dates)["own"], renewed);
}

TEST_F(CertificateDatesTest, FilesThatAreNoIdentityChangeNothing) {
  CertificateDates dates(Load(), [] { return reload_requests; });
  const std::map<std::string, int64_t> before = Ends(dates);
  std::ofstream(folder_.File("own.pem")) << "no certificate";
  ++reload_requests;
  EXPECT_EQ(Ends(dates), before);
}

// The first of an own chain ends the whole; of two that are trusted, the peer's next one serves when this one has
// ended.
TEST_F(CertificateDatesTest, OfSeveralTheOneThatCounts) {
  TlsIdentity identity = Load();
  const std::string longer = CreateSelfSigned("peer.test", 300)->certificate_pem;
  identity.authority_pem += longer;
  identity.certificate_pem += longer;
  CertificateDates dates(identity, [] { return reload_requests; });
  EXPECT_EQ(Ends(dates)["trusted"], ReadCertificateFacts(longer)->front().not_after_unix);
  EXPECT_LT(Ends(dates)["own"], Ends(dates)["trusted"]);
}

TEST_F(CertificateDatesTest, AnIdentityWithoutCertificatesHasNone) {
  CertificateDates dates(TlsIdentity{}, [] { return reload_requests; });
  EXPECT_TRUE(Ends(dates).empty());
}

}  // namespace
}  // namespace splitveil
