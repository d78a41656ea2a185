// A folder of a test's own.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_TEMP_FOLDER_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_TEMP_FOLDER_H_

#include <string>

namespace splitveil::testing {

// A new, empty folder under TMPDIR (or /tmp), removed with all it holds by the destructor.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  // Path of `name` in it.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_TEMP_FOLDER_H_
