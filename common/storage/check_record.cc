#include "common/storage/check_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr size_t kDigestBytes = 16;  // Of a block: it is held against accidents.
constexpr size_t kSampledBlocks = 64;

int64_t Nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

std::string BlockDigest(absl::string_view block) {
  const Digest digest = Sha256(block);
  return std::string(AsBytes(digest).substr(0, kDigestBytes));
}

// That nobody else could have written it.
bool IsOwn(const std::string& path) {
  struct stat facts = {};
  return lstat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Whether a write that comes from now on shows as a change: not if the clock of the file system still stands at it.
bool ChangedBefore(const struct stat& facts, const timespec& now) {
  const bool whole_seconds = facts.st_ctim.tv_nsec == 0 && facts.st_mtim.tv_nsec == 0;
  const int64_t tick = whole_seconds ? 2'000'000'000 : 20'000'000;
  return Nanoseconds(facts.st_ctim) < Nanoseconds(now) - tick;
}

}  // namespace

CheckRecord::CheckRecord(const SectionFile* file, absl::string_view checks)
    : file_(*file), path_(absl::StrCat(file->path(), ".checked")), checks_(checks) {}

std::string CheckRecord::Facts() const {
  struct stat facts = {};
  timespec now = {};
  if (fstat(file_.descriptor(), &facts) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0 ||
      !ChangedBefore(facts, now)) {
    return "";
  }
  return absl::StrCat(facts.st_dev, " ", facts.st_ino, " ", facts.st_size, " ", Nanoseconds(facts.st_mtim), " ",
                      Nanoseconds(facts.st_ctim));
}

bool CheckRecord::Matches() const {
  if (!IsOwn(path_)) {
    return false;
  }
  const absl::StatusOr<std::unique_ptr<SectionFile>> record = SectionFile::Open(path_, SectionFile::Check::kDigest);
  if (!record.ok()) {
    return false;
  }
  const auto section = [&](absl::string_view name) { return (*record)->section(name).value_or(""); };
  const std::string facts = Facts();
  const absl::string_view blocks = section("blocks");
  const size_t size = file_.bytes().size(), count = (size + kBlockBytes - 1) / kBlockBytes;
  if (facts.empty() || section("facts") != facts || section("checks") != checks_ ||
      section("digest") != AsBytes(file_.digest()) || blocks.size() != count * kDigestBytes) {
    return false;
  }
  std::vector<size_t> sample(count);
  std::iota(sample.begin(), sample.end(), size_t{0});
  std::array<uint8_t, sizeof(uint64_t)> seed;
  FillSecureRandom(absl::MakeSpan(seed));
  std::mt19937_64 random(std::accumulate(seed.begin(), seed.end(), uint64_t{0},
                                         [](uint64_t sum, uint8_t byte) { return sum << 8 | byte; }));
  std::shuffle(sample.begin(), sample.end(), random);
  sample.resize(std::min(count, kSampledBlocks - 2));
  sample.insert(sample.end(), {0, count - 1});
  std::sort(sample.begin(), sample.end());  // As they lie on the disk.
  std::string block;
  return std::all_of(sample.begin(), sample.end(), [&](size_t i) {
    const absl::string_view bytes = file_.bytes().substr(i * kBlockBytes, kBlockBytes);
    block.resize(bytes.size());
    file_.Read(bytes, block.data());
    return BlockDigest(block) == blocks.substr(i * kDigestBytes, kDigestBytes);
  });
}

absl::Status CheckRecord::CheckWhole() {
  facts_ = Facts();
  blocks_.clear();
  absl::Status whole = file_.CheckDigest(kBlockBytes, [&](absl::string_view block) { blocks_ += BlockDigest(block); });
  facts_ = whole.ok() ? facts_ : "";
  return whole;
}

void CheckRecord::Keep() const {
  if (facts_.empty() || Facts() != facts_) {
    return;
  }
  WriteSectionFile(path_,
                   {{"facts", facts_}, {"checks", checks_}, {"digest", AsBytes(file_.digest())}, {"blocks", blocks_}})
      .IgnoreError();  // A folder that cannot be written to costs time, not more.
}

}  // namespace splitveil
