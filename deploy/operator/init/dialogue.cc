#include "deploy/operator/init/dialogue.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace splitveil {

absl::Status Dialogue::Fill(const Question& question, std::string& value) {
  const std::vector<std::string>& choices = question.choices;
  while (value.empty() && asks_) {
    *out_ << question.text << (choices.empty() ? "" : absl::StrCat(" (", absl::StrJoin(choices, ", "), ")"))
          << (question.default_answer.empty() ? "" : absl::StrCat(" [", question.default_answer, "]")) << ": "
          << std::flush;
    std::string answer;
    // The person is gone: the default or an error, never a loop.
    if (!std::getline(*in_, answer)) {
      break;
    }
    answer = std::string(absl::StripAsciiWhitespace(answer));
    if (answer.empty()) {
      value = question.default_answer;
    } else if (choices.empty() || std::find(choices.begin(), choices.end(), answer) != choices.end()) {
      value = answer;
    }
  }
  if (value.empty()) {
    value = question.default_answer;
  }
  return value.empty() ? absl::InvalidArgumentError(absl::StrCat("command line: expected ", question.flag,
                                                                 ", found none; splitveil init --help explains every "
                                                                 "flag"))
                       : absl::OkStatus();
}

}  // namespace splitveil
