#include "tests/testing/two_party_run.h"

#include <fstream>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "tests/testing/process/child_process.h"

namespace splitveil::testing {
namespace {

// A party on a machine with much other work may say nothing for half a minute.
constexpr char kAgreement[] = R"(
  run_name: "test" cut_width: 16 batch_size: 256 epochs: 2
  audit { layers: "cut" layers: "first" attacks: NORM attacks: COSINE disclosure: ORACLE }
  deadlines { connect_seconds: 60 step_seconds: 60 alignment_chunk_seconds: 60 }
)";

constexpr char kCommon[] = R"(
  identity { own_name: "HOST.example" peer_name: "PEER.example" certificate_path: "OWN.pem" private_key_path: "OWN.key"
             authority_path: "authority.pem" }
  dataset { path: "OWN.data" }
  optimizer { learning_rate: 0.02 adam {} }
  reproducible_seed: 3
  ledger_path: "OWN.db"
)";

constexpr char kLabelModel[] = R"(
  listen_address: "127.0.0.1:0"
  model { layers { name: "top" units: 16 } wide { embedding { dimension: 1 } } }
  protection { none {} }
)";

constexpr char kNonLabelModel[] = R"(
  listen_address: "127.0.0.1:0"
  peer_address: "127.0.0.1:1"
  model { embedding { dimension: 4 } layers { name: "first" units: 32 } layers { name: "second" units: 16 } }
)";

std::string Common(const std::string& party, const std::string& own_host, const std::string& peer_host) {
  std::string text = kCommon;
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"OWN", party}, {"HOST", own_host}, {"PEER", peer_host}}) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
  }
  return text;
}

template <typename Message>
void Parse(const std::string& text, Message* message) {
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, message)) << text;
}

void Write(const std::string& path, const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  std::ofstream(path) << text;
}

}  // namespace

int TwoPartyRun::Tool(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), BinDir() + "/splitveil");
  const ChildResult result = RunChild(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code;
}

TwoPartyRun::TwoPartyRun(int rows) {
  Tool({"generate", absl::StrCat("--rows=", rows), "--seed=11", absl::StrCat("--out=", folder, "/data.tsv")});
  Tool({"prepare", "--format=criteo", absl::StrCat("--input=", folder, "/data.tsv"), absl::StrCat("--out=", folder)});
  Tool({"certificates", absl::StrCat("--out=", folder), "--label=label-party.example",
        "--nonlabel=nonlabel-party.example"});
  Parse(kAgreement, &label_agreement);
  nonlabel_agreement = label_agreement;
  Parse(kLabelModel, &label_config);
  Parse(Common("label_party", "label-party", "nonlabel-party"), label_config.mutable_party());
  Parse(kNonLabelModel, &nonlabel_config);
  Parse(Common("nonlabel_party", "nonlabel-party", "label-party"), nonlabel_config.mutable_party());
}

void TwoPartyRun::WriteLabelPartyFiles() {
  Write(folder + "/label_run.textproto", label_agreement);
  Write(folder + "/label_party.textproto", label_config);
}

void TwoPartyRun::StartLabelParty() {
  WriteLabelPartyFiles();
  label = std::make_unique<RunningProgram>("label_party",
                                           std::vector<std::string>{"--agreement=" + folder + "/label_run.textproto",
                                                                    "--config=" + folder + "/label_party.textproto"},
                                           folder, label_open_files);
  AwaitPort(*label);
}

void TwoPartyRun::AwaitPort(RunningProgram& program) {
  const std::string marker = "listens on port ";
  ASSERT_TRUE(program.WaitForError(marker)) << program.Errors();
  ASSERT_TRUE(program.WaitForError("\n"));
  const std::string log = program.Errors();
  const size_t at = log.find(marker) + marker.size();
  ASSERT_TRUE(absl::SimpleAtoi(log.substr(at, log.find('\n', at) - at), &label_port)) << log;
}

void TwoPartyRun::WriteNonLabelPartyFiles() {
  nonlabel_config.set_peer_address(absl::StrCat(label_host, ":", label_port));
  Write(folder + "/nonlabel_run.textproto", nonlabel_agreement);
  Write(folder + "/nonlabel_party.textproto", nonlabel_config);
}

void TwoPartyRun::StartNonLabelParty() {
  WriteNonLabelPartyFiles();
  nonlabel =
      std::make_unique<RunningProgram>("nonlabel_party",
                                       std::vector<std::string>{"--agreement=" + folder + "/nonlabel_run.textproto",
                                                                "--config=" + folder + "/nonlabel_party.textproto"},
                                       folder);
}

}  // namespace splitveil::testing
