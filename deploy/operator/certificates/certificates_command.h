// `splitveil certificates`.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATES_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATES_COMMAND_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds `splitveil certificates`.
void AddCertificatesCommand(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_CERTIFICATES_COMMAND_H_
