#include "tests/testing/process/temp_folder.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace splitveil::testing {

TempFolder::TempFolder() : path_((std::filesystem::temp_directory_path() / "splitveil_test_XXXXXX").string()) {
  if (mkdtemp(path_.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace splitveil::testing
