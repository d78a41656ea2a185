// A folder of a test's own.
#ifndef SPLITVEIL_TESTS_TESTING_SCRATCH_FOLDER_H_
#define SPLITVEIL_TESTS_TESTING_SCRATCH_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace splitveil {

// Made empty, removed with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "splitveil_dataset_XXXXXX";
    path_ = mkdtemp(&pattern[0]) == nullptr ? "" : pattern;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string Path(const std::string& name) const { return std::filesystem::path(path_) / name; }

  std::string Write(const std::string& name, const std::string& bytes) const {
    std::ofstream(Path(name), std::ios::binary) << bytes;
    return Path(name);
  }

  std::string Read(const std::string& name) const {
    std::ostringstream bytes;
    bytes << std::ifstream(Path(name), std::ios::binary).rdbuf();
    return bytes.str();
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string path_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_SCRATCH_FOLDER_H_
