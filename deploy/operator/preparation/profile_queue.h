// Cells on their way into the profiles of their columns.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PROFILE_QUEUE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PROFILE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/column_profile.h"

namespace splitveil {

// Hands a profile many cells of one column at a time, so that the column's sketches stay in a processor's cache, and
// shares the columns among up to kThreads threads, which work while the next rows are added. Memory: about 8 MiB, and
// the longest rows. To be used by one thread.
class ProfileQueue {
 public:
  static constexpr size_t kThreads = 16;

  // `profile`: not owned; must outlive this, and is this one's until Finish, when it has all rows. `places`: of a row's
  // cells, among its columns.
  ProfileQueue(TableProfile* profile, std::vector<size_t> places);
  ProfileQueue(const ProfileQueue&) = delete;
  ProfileQueue& operator=(const ProfileQueue&) = delete;
  ~ProfileQueue() { Finish(); }

  // `cells`: as many as there are places. `line`: of its file, from 1.
  void Add(const std::vector<absl::string_view>& cells, int64_t line);
  void Finish();

 private:
  static constexpr size_t kMaxCells = size_t{1} << 17, kMaxBytes = size_t{1} << 21;

  // Rows, by column.
  struct Block {
    struct Column {
      std::vector<char> bytes;   // Cells one after the other...
      std::vector<size_t> ends;  // ...and where each ends.
      size_t used = 0;
    };
    std::vector<Column> columns;
    std::vector<int64_t> lines;
    size_t bytes = 0;
  };

  // Has the rows that are waiting profiled, once those before them are.
  void Start();
  void Profile();
  void Wait();

  TableProfile* profile_;
  std::vector<size_t> places_;
  Block waiting_, profiled_;
  std::thread worker_;  // On profiled_; Wait hands it back.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_PROFILE_QUEUE_H_
