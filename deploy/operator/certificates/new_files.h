// Several new files in one folder, all or none.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_NEW_FILES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_NEW_FILES_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/storage/file_system.h"

namespace splitveil {

struct NewFile {
  std::string path;
  std::string contents;
  mode_t mode = kOwnerOnly;
};

// Makes `folder` if it does not exist, then writes all of `files` or none. Errors:
// AlreadyExists if one is there; InvalidArgument if the folder or a file cannot be made; else as CreateFile.
absl::Status CreateFiles(const std::string& folder, const std::vector<NewFile>& files);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_CERTIFICATES_NEW_FILES_H_
