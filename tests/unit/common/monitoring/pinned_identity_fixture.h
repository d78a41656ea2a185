// Certificates of two parties in files, to be renewed there.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_MONITORING_PINNED_IDENTITY_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_MONITORING_PINNED_IDENTITY_FIXTURE_H_

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

#include "deploy/operator/certificates/certificate_authority.h"

#include "common/transport/certificate.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {

// Both parties pin self-signed certificates.
class PinnedIdentityTest : public ::testing::Test {
 protected:
  PinnedIdentityTest() {
    Write("own", 30);
    Write("peer", 60);
    requests = 0;
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

  // In the place of ReloadRequests: a signal's count is as global.
  static int Requests() { return requests; }
  static inline int requests = 0;

  const testing::TempFolder folder_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_MONITORING_PINNED_IDENTITY_FIXTURE_H_
