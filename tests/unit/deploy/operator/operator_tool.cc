#include "tests/unit/deploy/operator/operator_tool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"

namespace splitveil::testing {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

std::string Party(const std::string& role, const std::string& own_name, const std::string& peer_name) {
  return absl::StrCat("party {\n  identity {\n    own_name: \"", own_name, "\"\n    peer_name: \"", peer_name,
                      "\"\n    certificate_path: \"certs/", role, ".pem\"\n    private_key_path: \"certs/", role,
                      ".key\"\n    authority_path: \"certs/authority.pem\"\n  }\n  dataset { path: \"", role,
                      ".data\" }\n  optimizer { adam {} }\n  ledger_path: \"", role, ".db\"\n}\n");
}

}  // namespace

ChildResult RunTool(const std::vector<std::string>& arguments, const std::string& standard_input) {
  std::vector<std::string> argv = {BinDir() + "/splitveil"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  ChildOptions options;
  options.standard_input = standard_input;
  return RunChild(argv, options);
}

std::string ExpectDone(const std::vector<std::string>& arguments, const std::string& standard_input) {
  ChildResult result = RunTool(arguments, standard_input);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  return std::move(result.out);
}

std::string ExpectError(int exit_code, const std::vector<std::string>& arguments, const std::string& standard_input) {
  const ChildResult result = RunTool(arguments, standard_input);
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, StartsWith("splitveil"));
  EXPECT_THAT(result.err, EndsWith("\n"));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  const std::string marker = ": error: ";
  const size_t start = result.err.find(marker);
  if (start == std::string::npos) {
    ADD_FAILURE() << "no error in: " << result.err;
    return "";
  }
  return result.err.substr(start + marker.size());
}

void WriteText(const std::string& path, const std::string& contents) {
  const absl::Status written = WriteFile(path, contents);
  EXPECT_TRUE(written.ok()) << written;
}

std::string LabelConfig(const std::string& tail) {
  return absl::StrCat(Party("label_party", kLabelName, kNonLabelName),
                      "model { wide { embedding { dimension: 1 } } }\nprotection { marvell { s: 4 } }\n", tail);
}

std::string NonLabelConfig(const std::string& tail) {
  return absl::StrCat(Party("nonlabel_party", kNonLabelName, kLabelName),
                      "peer_address: \"127.0.0.1:7443\"\nmodel {\n  embedding { dimension: 4 }\n"
                      "  layers { name: \"first\" units: 32 }\n  layers { name: \"second\" units: 16 }\n}\n",
                      tail);
}

}  // namespace splitveil::testing
