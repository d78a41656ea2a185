// `splitveil agreement show | accept`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds both. A proposal is written by `splitveil init`, or by hand.
void AddAgreementCommands(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_AGREEMENT_AGREEMENT_COMMAND_H_
