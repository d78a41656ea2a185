// `splitveil certificates authority | request | sign | self_signed | show`: certificates of parties that never hold
// each other's keys.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_OWN_CERTIFICATE_COMMANDS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_OWN_CERTIFICATE_COMMANDS_H_

#include "common/command_line/command_line.h"

namespace splitveil {

// Adds them, below `splitveil certificates`, which must have been added.
void AddOwnCertificateCommands(CommandLine& line);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_OWN_CERTIFICATE_COMMANDS_H_
