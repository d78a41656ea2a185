#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "common/config/text_config.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/audit_policy.pb.h"
#include "splitveil/v1/options.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/stream.pb.h"
#include "splitveil/v1/sweep.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::ElementsAre;
using ::testing::Pair;

template <typename Config>
Config Parsed(const std::string& text) {
  Config config;
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  EXPECT_TRUE(parser.ParseFromString(text, &config)) << text;
  return config;
}

std::vector<std::pair<std::string, std::string>> Listed(const google::protobuf::Message& message) {
  std::vector<std::pair<std::string, std::string>> listed;
  for (const ConfigPath& path : ListPaths(message)) {
    listed.emplace_back(path.name, path.path);
  }
  return listed;
}

// The fields of `type` and of the messages below it.
void CollectFields(const Descriptor& type, std::set<const FieldDescriptor*>& fields) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (fields.insert(type.field(i)).second && type.field(i)->message_type() != nullptr) {
      CollectFields(*type.field(i)->message_type(), fields);
    }
  }
}

TEST(ConfigPathsTest, EveryFieldThatNamesAFileSaysSo) {
  std::set<const FieldDescriptor*> fields;
  for (const Descriptor* loaded :
       {v1::LabelPartyConfig::descriptor(), v1::NonLabelPartyConfig::descriptor(), v1::RunAgreement::descriptor(),
        v1::SweepConfig::descriptor(), v1::StreamConfig::descriptor(), v1::AuditPolicy::descriptor(),
        v1::TableSchema::descriptor()}) {
    CollectFields(*loaded, fields);
  }
  int paths = 0;
  for (const FieldDescriptor* const field : fields) {
    const bool is_path = field->options().GetExtension(v1::path);
    bool is_named_so = false;
    for (const char* suffix : {"path", "dir", "folder", "file", "checkpoint", "socket", "dataset"}) {
      is_named_so |= field->cpp_type() == FieldDescriptor::CPPTYPE_STRING && absl::EndsWith(field->name(), suffix);
    }
    EXPECT_EQ(is_path, is_named_so) << field->full_name();
    EXPECT_TRUE(is_path || !field->options().GetExtension(v1::owner_only)) << field->full_name();
    paths += is_path ? 1 : 0;
  }
  EXPECT_GE(paths, 20);  // That the walk sees them.
}

TEST(ConfigPathsTest, ListsPathsAtAnyDepthAndNoOtherText) {
  const auto party = Parsed<v1::LabelPartyConfig>(R"(
      party { identity { own_name: "label.test" certificate_path: "c.pem" } dataset { path: "own.data" }
              monitoring { token_path: "token" } initial_checkpoint: "" export_dir: "model" status_socket: "s" }
      model { torchscript_path: "top.pt" } listen_address: "a:1"
      attribute_attack { auxiliary { path: "known.data" } })");
  EXPECT_THAT(Listed(party),
              ElementsAre(Pair("party.identity.certificate_path", "c.pem"), Pair("party.dataset.path", "own.data"),
                          Pair("party.export_dir", "model"), Pair("party.status_socket", "s"),
                          Pair("party.monitoring.token_path", "token"), Pair("model.torchscript_path", "top.pt"),
                          Pair("attribute_attack.auxiliary.path", "known.data")));
  // In the elements of a repeated field, and beside the members of a oneof (GradientProtection.method).
  const auto stream = Parsed<v1::StreamConfig>(R"(
      agreement_path: "run" day { name: "mon" label_dataset: "l1" } day { label_dataset: "l2" nonlabel_dataset: "n2" }
      protection { name: "p" config { marvell { s: 4 } } })");
  EXPECT_THAT(Listed(stream), ElementsAre(Pair("agreement_path", "run"), Pair("day[0].label_dataset", "l1"),
                                          Pair("day[1].label_dataset", "l2"), Pair("day[1].nonlabel_dataset", "n2")));
}

TEST(ConfigPathsTest, OnlyWhatRevealsDataIsItsOwnersAlone) {
  const auto party = Parsed<v1::LabelPartyConfig>(R"(
      party { identity { certificate_path: "c" private_key_path: "k" } dataset { path: "d" } ledger_path: "l"
              export_dir: "e" checkpoint_path: "p" alignment_cache_path: "a" } result_path: "r")");
  std::vector<std::string> owner_only;
  for (const ConfigPath& path : ListPaths(party)) {
    if (IsOwnerOnly(path)) {
      owner_only.push_back(path.path);
    }
  }
  EXPECT_THAT(owner_only, ElementsAre("d", "l", "p", "a"));
}

TEST(ConfigPathsTest, PathsAreRelativeToTheConfigurationFile) {
  const auto resolved = [](const std::string& config_path, const std::string& path) {
    v1::PartyCommon party;
    party.set_ledger_path(path);
    ResolvePaths(config_path, party);
    return party.ledger_path();
  };
  EXPECT_EQ(resolved("/etc/splitveil/run.textproto", "data/x.tsv"), "/etc/splitveil/data/x.tsv");
  EXPECT_EQ(resolved("conf/run.textproto", "x.tsv"), "conf/x.tsv");
  EXPECT_EQ(resolved("run.textproto", "x.tsv"), "x.tsv");
  EXPECT_EQ(resolved("conf/run.textproto", "/x.tsv"), "/x.tsv");
  EXPECT_EQ(resolved("conf/run.textproto", ""), "");
}

TEST(ConfigPathsTest, ResolvesAllAndAddsNone) {
  auto stream =
      Parsed<v1::StreamConfig>(R"(agreement_path: "run" day { label_dataset: "a" } day { label_dataset: "/b" })");
  ResolvePaths("conf/stream.textproto", stream);
  EXPECT_THAT(Listed(stream), ElementsAre(Pair("agreement_path", "conf/run"), Pair("day[0].label_dataset", "conf/a"),
                                          Pair("day[1].label_dataset", "/b")));
  EXPECT_FALSE(stream.has_label_config_path());
  EXPECT_FALSE(stream.day(0).has_nonlabel_dataset());
}

TEST(ConfigPathsTest, AnAbsolutePathHoldsInAnyFolder) {
  auto party = Parsed<v1::PartyCommon>(R"(ledger_path: "conf/../l.db" export_dir: "/a/./b" initial_checkpoint: "")");
  MakePathsAbsolute(party);
  EXPECT_EQ(party.ledger_path(), (std::filesystem::current_path() / "l.db").string());
  EXPECT_EQ(party.export_dir(), "/a/b");
  EXPECT_EQ(party.initial_checkpoint(), "");
  EXPECT_EQ(AbsolutePath("x"), (std::filesystem::current_path() / "x").string());
}

}  // namespace
}  // namespace splitveil
