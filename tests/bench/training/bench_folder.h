// What the runs of a benchmark start from: generated data, prepared for both parties, and certificates.
#ifndef SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_FOLDER_H_
#define SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_FOLDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

namespace splitveil {

// A folder that is made, and removed with its object.
class BenchFolder {
 public:
  // `path`: must not exist. `programs`: the folder of splitveil and the parties' programs. `stop_requested` is polled.
  // Makes the certificates. Errors: InvalidArgument where the folder exists or cannot be made; those of `splitveil`.
  static absl::StatusOr<BenchFolder> Create(const std::string& path, const std::string& programs,
                                            std::function<bool()> stop_requested);
  ~BenchFolder();
  BenchFolder(BenchFolder&& other) noexcept;
  BenchFolder& operator=(BenchFolder&&) = delete;

  // Runs of one epoch, without protection and audit, on one thread per party, with fixed seeds and a tenth of the rows
  // held out. Their data are made and prepared where that is not done yet. Errors: those of `splitveil generate` and
  // `splitveil prepare`.
  //
  // Wide & Deep (Li et al., ICLR 2022, A.6.2), batches of 1024, on generated clicks,
  absl::StatusOr<LocalRun> WideAndDeep(int64_t rows) const;
  // or on clicks of random categories, hashed into about `embedding_rows` of the embedding table.
  absl::StatusOr<LocalRun> WideAndDeepOfVocabulary(int64_t rows, int64_t embedding_rows) const;
  // The convolutional network of A.6.2, batches of 128, on images of `side` x `side` random pixels, side >= 64.
  absl::StatusOr<LocalRun> Isic(int64_t rows, int64_t side) const;

  // An empty folder for a run.
  absl::StatusOr<std::string> NewRunFolder();

  const std::string& programs() const { return programs_; }
  bool stop_requested() const { return stop_requested_(); }

 private:
  BenchFolder(std::string path, std::string programs, std::function<bool()> stop_requested);
  absl::Status Splitveil(std::vector<std::string> arguments) const;
  absl::Status MakeFolder(const std::string& path) const;
  // The folder `name` with both parties' data; `write` writes the table into it, `prepare` says how it is read.
  absl::StatusOr<std::string> Prepared(const std::string& name,
                                       const std::function<absl::Status(const std::string& folder)>& write,
                                       std::vector<std::string> prepare) const;
  LocalRun RunOn(const std::string& data) const;
  LocalRun WideAndDeepOn(const std::string& data) const;

  std::string path_;  // Empty: moved from.
  std::string programs_;
  std::function<bool()> stop_requested_;
  int runs_ = 0;
};

// Runs a program to its end. Standard output goes to LOG.out, standard error to LOG.log. Errors: Internal with its exit
// code and last line; Cancelled where stop was requested.
absl::Status RunProgram(const std::string& program, std::vector<std::string> arguments, const std::string& log,
                        const std::function<bool()>& stop_requested);

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_BENCH_TRAINING_BENCH_FOLDER_H_
