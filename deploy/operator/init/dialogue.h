// Questions to a person at a terminal, for what the command line does not say.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_DIALOGUE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_DIALOGUE_H_

#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace splitveil {

struct Question {
  const char* flag;            // "--role".
  const char* text;            // "Which party is this?"
  std::string default_answer;  // Empty: an answer is needed.
  std::vector<std::string> choices = {};
};

// Not thread-safe.
class Dialogue {
 public:
  // `in`, `out`: not owned; must outlive this. `asks`: whether a person is there. Otherwise nothing is read or written.
  Dialogue(std::istream* in, std::ostream* out, bool asks) : in_(in), out_(out), asks_(asks) {}

  // Fills `value` where it is empty: with the answer, or the default if nothing is typed or nobody is asked. A text
  // that is none of the choices is asked for again. Errors: InvalidArgument "command line: expected FLAG, found none"
  // where an answer is needed and nobody gives one.
  absl::Status Fill(const Question& question, std::string& value);

 private:
  std::istream* const in_;
  std::ostream* const out_;
  const bool asks_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_DIALOGUE_H_
