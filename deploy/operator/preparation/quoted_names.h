// Names of columns in a message.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_QUOTED_NAMES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_QUOTED_NAMES_H_

#include <string>
#include <vector>

namespace splitveil {

// "a", "b, c": a name may hold the comma that stands between two.
std::string QuotedNames(const std::vector<std::string>& names);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_QUOTED_NAMES_H_
