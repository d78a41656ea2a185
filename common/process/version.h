// The version of the programs: CMakeLists.txt's project(VERSION), for --version and Operations.GetStatus.
#ifndef SPLITVEIL_COMMON_PROCESS_VERSION_H_
#define SPLITVEIL_COMMON_PROCESS_VERSION_H_

namespace splitveil {

// For example "0.1.0".
const char* Version();

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_VERSION_H_
