// Any text as a configuration, and any bytes as the peer's agreement: no crash, errors of one clean line, and what is
// accepted is sound. The first byte chooses.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "google/protobuf/text_format.h"

#include "common/config/agreement.h"
#include "common/config/message_validator.h"
#include "common/config/text_config.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

void Require(bool holds, const char* property, const std::string& input) {
  if (!holds) {
    std::cerr << "broken property: " << property << "\ninput: " << absl::CEscape(input) << "\n";
    std::abort();
  }
}

// A message becomes a line on a terminal. Bytes above 127 may be UTF-8.
bool IsOneLine(absl::string_view message) {
  for (const char c : message) {
    if (absl::ascii_iscntrl(c)) {
      return false;
    }
  }
  return !message.empty();
}

void CheckText(const std::string& text, google::protobuf::Message& message) {
  const absl::Status status = ParseTextConfig(text, "name", message);
  if (!status.ok()) {
    Require(status.code() == absl::StatusCode::kInvalidArgument, "the code of an error", text);
    Require(status.message().substr(0, 5) == "name:" && IsOneLine(status.message()), "the form of an error", text);
    return;
  }
  std::string printed;
  Require(google::protobuf::TextFormat::PrintToString(message, &printed), "printing", text);
  const std::string bytes = message.SerializeAsString();
  Require(ParseTextConfig(printed, "name", message).ok() && message.SerializeAsString() == bytes,
          "what is printed reads back", text);
}

void CheckAgreement(const std::string& bytes) {
  v1::RunAgreement theirs;
  if (!theirs.ParseFromString(bytes)) {
    return;
  }
  v1::RunAgreement ours;
  Require(IsOneLine("x" + FirstDifference(ours, theirs)), "the form of a difference", bytes);
  const absl::Status status = ValidateAgreement(theirs);
  if (!status.ok()) {
    Require(IsOneLine(status.message()), "the form of an error", bytes);
    return;
  }
  Canonicalize(theirs);
  Require(ValidateAgreement(theirs).ok(), "a canonical form stays valid", bytes);
  const int64_t limit = MaxMessageBytes(theirs);
  Require(limit > 0 && limit <= std::numeric_limits<int32_t>::max(), "the message limit", bytes);
  v1::RunAgreement copy;
  Require(copy.ParseFromString(theirs.SerializeAsString()), "a canonical form reads back", bytes);
  Require(AgreementSha256(copy) == AgreementSha256(theirs) && FirstDifference(copy, theirs).empty(),
          "one agreement has one digest", bytes);
}

}  // namespace
}  // namespace splitveil

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string input(reinterpret_cast<const char*>(data) + 1, size - 1);
  splitveil::v1::RunAgreement agreement;
  splitveil::v1::LabelPartyConfig party;
  switch (data[0] % 3) {
    case 0:
      splitveil::CheckText(input, agreement);
      break;
    case 1:
      splitveil::CheckText(input, party);
      break;
    default:
      splitveil::CheckAgreement(input);
  }
  return 0;
}
