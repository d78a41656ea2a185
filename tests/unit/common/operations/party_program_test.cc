#include "common/operations/party_program.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PartyCheckTest : public ::testing::Test {
 protected:
  PartyCheckTest() {
    party_.set_ledger_path(folder_.File("run.db"));
    party_.set_export_dir(folder_.File("model/new"));
  }

  absl::Status Check(const std::string& listen_address = "127.0.0.1:0") const {
    return CheckPlaces(party_, listen_address, config_);
  }

  const testing::TempFolder folder_;
  const std::string config_ = folder_.File("party.textproto");
  v1::PartyCommon party_;
};

TEST_F(PartyCheckTest, AcceptsPlacesThatAreStillToBeMadeAndMakesNone) {
  EXPECT_TRUE(Check().ok()) << Check();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(PartyCheckTest, WhatOthersMayReadBecomesTheOwnersAlone) {
  v1::LabelPartyConfig config;
  config.mutable_attribute_attack()->mutable_auxiliary()->set_path(folder_.File("known.data"));
  config.set_result_path(folder_.File("published.json"));  // Not one of them.
  party_.mutable_dataset()->set_path(folder_.File("own.data"));
  party_.set_checkpoint_path(folder_.File("absent.checkpoint"));
  party_.set_alignment_cache_path(folder_.File("shared.alignment"));
  *config.mutable_party() = party_;
  using std::filesystem::perms;
  const std::vector<const char*> found = {"own.data",   "run.db",          "absent.checkpoint.1", "absent.checkpoint.2",
                                          "known.data", "shared.alignment"};
  for (const char* name : found) {
    std::ofstream(folder_.File(name)) << name;
    std::filesystem::permissions(folder_.File(name), perms(0644));
  }
  for (const char* name : {"published.json", "own.data.1"}) {
    std::ofstream(folder_.File(name)) << name;
    std::filesystem::permissions(folder_.File(name), perms(0644));
  }
  ::testing::internal::CaptureStderr();
  KeepForOwnerAlone(config);
  const std::string log = ::testing::internal::GetCapturedStderr();
  for (const char* name : found) {
    EXPECT_EQ(std::filesystem::status(folder_.File(name)).permissions(), perms(0600)) << name;
    EXPECT_THAT(log, HasSubstr(folder_.File(name) + ": now readable by its owner only (0600); its mode was 0644"));
  }
  for (const char* name : {"published.json", "own.data.1"}) {
    EXPECT_EQ(std::filesystem::status(folder_.File(name)).permissions(), perms(0644)) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.File("absent.checkpoint")));
  ::testing::internal::CaptureStderr();
  KeepForOwnerAlone(config);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(PartyCheckTest, RefusesALedgerThatCannotBe) {
  party_.set_ledger_path(folder_.File("absent/run.db"));
  EXPECT_THAT(
      std::string(Check().message()),
      StartsWith(config_ + ": party.ledger_path: " + folder_.File("absent/run.db") + ": its folder does not exist"));
}

TEST_F(PartyCheckTest, RefusesAnExportIntoAFile) {
  std::ofstream(folder_.File("model")) << "a file";
  const absl::Status status = Check();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), config_ + ": party.export_dir: expected a folder, or a place for one, found " +
                                  folder_.File("model/new") + ": Not a directory");
}

TEST_F(PartyCheckTest, RefusesAPageWhereThePartyListens) {
  const std::string port = "7443";  // Refused before anything listens.
  for (const char* own : {"127.0.0.1:", "0.0.0.0:", "[::]:"}) {
    party_.mutable_monitoring()->set_listen_address("127.0.0.1:" + port);
    EXPECT_EQ(Check(own + port).message(),
              absl::StrCat(config_,
                           ": party.monitoring.listen_address: expected a different address than the party's own "
                           "listen_address \"",
                           own, port, "\", found \"127.0.0.1:", port, "\": give one of them another port"));
  }
  party_.mutable_monitoring()->set_listen_address("127.0.0.1:0");
  EXPECT_TRUE(Check("127.0.0.1:0").ok()) << Check("127.0.0.1:0");  // Each takes a free one.
}

TEST_F(PartyCheckTest, RefusesAnAddressThatIsNone) {
  EXPECT_THAT(std::string(Check("7443").message()), StartsWith(config_ + ": listen_address: expected host:port"));
}

}  // namespace
}  // namespace splitveil
