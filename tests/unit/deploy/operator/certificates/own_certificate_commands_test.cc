#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "common/transport/certificate.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class OwnCertificateCommandsTest : public ::testing::Test {
 protected:
  std::string At(const std::string& name) const { return folder_.File(name); }
  absl::Status Load(const std::string& party, const std::string& own, const std::string& peer,
                    const std::string& authority) const {
    return LoadTlsIdentity(own, peer, At(party + "/own.pem"), At(party + "/own.key"), At(authority)).status();
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat state = {};
    EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
    return state.st_mode & 0777;
  }

  const TempFolder folder_;
};

TEST_F(OwnCertificateCommandsTest, RequestsThatAnAuthoritySignedAreIdentitiesOfTheParties) {
  ExpectDone({"certificates", "authority", "--out=" + At("authority")});
  for (const char* name : {"bank", "shop"}) {
    const std::string party = name, host = party + ".example";
    const std::string out = ExpectDone({"certificates", "request", "--name=" + host, "--out=" + At(party)});
    EXPECT_THAT(out, HasSubstr("own.key: stays here"));
    EXPECT_EQ(ModeOf(At(party + "/own.key")), 0600);
    ExpectDone({"certificates", "sign", "--request=" + At(party + "/own.csr"), "--name=" + host,
                "--authority=" + At("authority/authority.pem"), "--authority_key=" + At("authority/authority.key"),
                "--out=" + At(party + "/own.pem")});
  }
  EXPECT_EQ(Load("bank", "bank.example", "shop.example", "authority/authority.pem"), absl::OkStatus());
  EXPECT_EQ(Load("shop", "shop.example", "bank.example", "authority/authority.pem"), absl::OkStatus());
}

TEST_F(OwnCertificateCommandsTest, TheAuthoritySignsForTheNameThatItSaysAlone) {
  ExpectDone({"certificates", "authority", "--out=" + At("authority")});
  ExpectDone({"certificates", "request", "--name=bank.example", "--out=" + At("bank")});
  const std::vector<std::string> sign = {"certificates",
                                         "sign",
                                         "--request=" + At("bank/own.csr"),
                                         "--authority=" + At("authority/authority.pem"),
                                         "--authority_key=" + At("authority/authority.key"),
                                         "--out=" + At("bank/own.pem")};
  std::vector<std::string> other = sign;
  other.push_back("--name=shop.example");
  EXPECT_THAT(ExpectError(2, other), HasSubstr("own.csr: expected a request for the one name shop.example"));
  EXPECT_FALSE(std::filesystem::exists(At("bank/own.pem")));
  EXPECT_THAT(ExpectError(2, sign), HasSubstr("expected --name, found none"));
}

TEST_F(OwnCertificateCommandsTest, AnAuthoritysKeyThatOthersMayReadSignsNothing) {
  ExpectDone({"certificates", "authority", "--out=" + At("authority")});
  ExpectDone({"certificates", "request", "--name=bank.example", "--out=" + At("bank")});
  const std::vector<std::string> sign = {"certificates",
                                         "sign",
                                         "--request=" + At("bank/own.csr"),
                                         "--name=bank.example",
                                         "--authority=" + At("authority/authority.pem"),
                                         "--authority_key=" + At("authority/authority.key"),
                                         "--out=" + At("bank/own.pem")};
  ASSERT_EQ(chmod(At("authority/authority.key").c_str(), 0640), 0);
  EXPECT_THAT(ExpectError(2, sign),
              HasSubstr("authority.key: users other than its owner may read this private key (mode 0640)"));
  EXPECT_FALSE(std::filesystem::exists(At("bank/own.pem")));
  ASSERT_EQ(chmod(At("authority/authority.key").c_str(), 0600), 0);
  ExpectDone(sign);
}

TEST_F(OwnCertificateCommandsTest, SelfSignedCertificatesAreIdentitiesOfPartiesThatPinEachOther) {
  for (const std::string party : {"bank", "shop"}) {
    const std::string out =
        ExpectDone({"certificates", "self_signed", "--name=" + party + ".example", "--out=" + At(party)});
    EXPECT_THAT(out, ContainsRegex("fingerprint  [0-9]{5}( [0-9]{5}){5}\n"));
    EXPECT_EQ(ModeOf(At(party + "/own.key")), 0600);
  }
  EXPECT_EQ(Load("bank", "bank.example", "shop.example", "shop/own.pem"), absl::OkStatus());
  EXPECT_EQ(Load("shop", "shop.example", "bank.example", "bank/own.pem"), absl::OkStatus());
}

TEST_F(OwnCertificateCommandsTest, ReplacesNoKey) {
  ExpectDone({"certificates", "self_signed", "--name=bank.example", "--out=" + At("bank")});
  const std::string before = ReadFile(At("bank/own.key")).value();
  EXPECT_THAT(ExpectError(2, {"certificates", "self_signed", "--name=bank.example", "--out=" + At("bank")}),
              HasSubstr("own.pem: expected a new file"));
  EXPECT_THAT(ExpectError(2, {"certificates", "request", "--name=bank.example", "--out=" + At("bank")}),
              HasSubstr("own.key: expected a new file"));
  EXPECT_EQ(ReadFile(At("bank/own.key")).value(), before);
}

TEST_F(OwnCertificateCommandsTest, ShowSaysWhatAPersonAsksAndWarns) {
  ExpectDone({"certificates", "self_signed", "--name=bank.example", "--out=" + At("bank"), "--days=20"});
  EXPECT_THAT(
      ExpectDone({"certificates", "show", "--certificate=" + At("bank/own.pem")}),
      AllOf(HasSubstr("self-signed"), HasSubstr("subject      CN=bank\n"), HasSubstr("DNS names    bank.example\n"),
            HasSubstr("issuer       CN=bank\n"), ContainsRegex("valid        20[0-9-]{8} to 20[0-9-]{8}\n"),
            ContainsRegex("SHA-256      [0-9a-f]{64}\n"), HasSubstr("warning      it ends in 19 days\n")));
  ExpectDone({"certificates", "self_signed", "--name=shop.example", "--out=" + At("shop")});
  EXPECT_THAT(ExpectDone({"certificates", "show", "--certificate=" + At("shop/own.pem")}), Not(HasSubstr("warning")));
  EXPECT_THAT(ExpectError(2, {"certificates", "show", "--certificate=" + At("bank/own.key")}),
              HasSubstr("own.key: expected certificates in PEM"));
}

TEST_F(OwnCertificateCommandsTest, FailsOnNamesThatAreNotHosts) {
  for (const char* command : {"request", "self_signed"}) {
    EXPECT_THAT(ExpectError(2, {"certificates", command, "--name=*.example", "--out=" + At("bank")}),
                HasSubstr("command line: --name: certificate name: expected a DNS host name"));
  }
  EXPECT_FALSE(std::filesystem::exists(At("bank")));
}

TEST_F(OwnCertificateCommandsTest, CertificatesAloneAsksForItsFlags) {
  EXPECT_THAT(ExpectError(2, {"certificates"}), HasSubstr("expected --out, found none"));
  EXPECT_THAT(ExpectError(2, {"certificates", "resign"}),
              AllOf(HasSubstr("certificates self_signed"), HasSubstr("found \"certificates resign\"")));
}

}  // namespace
}  // namespace splitveil::testing
