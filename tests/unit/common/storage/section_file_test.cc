#include "common/storage/section_file.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

// Two sections written in turns: "abc" "def" and "12" "345".
Digest Write(const std::string& path) {
  std::unique_ptr<SectionFileWriter> writer = *SectionFileWriter::Create(path, {"letters", "digits"});
  for (const auto& [section, bytes] : {std::pair<size_t, const char*>{0, "abc"}, {1, "12"}, {0, "def"}, {1, "345"}}) {
    EXPECT_TRUE(writer->Append(section, bytes).ok());
  }
  const absl::StatusOr<Digest> digest = writer->Publish();
  EXPECT_TRUE(digest.ok()) << digest.status();
  return *digest;
}

TEST(SectionFileTest, ReadsWhatWasWrittenInTurns) {
  const ScratchFolder folder;
  const Digest digest = Write(folder.Path("a"));
  const absl::StatusOr<std::unique_ptr<SectionFile>> file =
      SectionFile::Open(folder.Path("a"), SectionFile::Check::kDigest);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->section("letters"), "abcdef");
  EXPECT_EQ(*(*file)->section("digits"), "12345");
  EXPECT_EQ((*file)->digest(), digest);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*file)->section("digits")->data()) % 64, 0);
  EXPECT_FALSE((*file)->has_section("words"));
  EXPECT_EQ((*file)->section("words").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SectionFileTest, SectionsAtHandMakeTheSameBytesAsThoseThatCameInTurns) {
  const ScratchFolder folder;
  Write(folder.Path("in turns"));
  ASSERT_TRUE(WriteSectionFile(folder.Path("at hand"), {{"letters", "abcdef"}, {"digits", "12345"}}).ok());
  EXPECT_EQ(folder.Read("at hand"), folder.Read("in turns"));
  EXPECT_EQ(WriteSectionFile(folder.Path("absent/file"), {}).code(), absl::StatusCode::kInvalidArgument);
}

// Bytes are hashed and written in pieces of 256 KiB.
TEST(SectionFileTest, SectionsOfSeveralPiecesAreWrittenAndHashedWhole) {
  for (const size_t size : {size_t{262'143}, size_t{262'144}, size_t{262'145}, size_t{1'000'000}}) {
    const ScratchFolder folder;
    std::string numbers;
    for (int i = 0; numbers.size() < size; ++i) {
      absl::StrAppend(&numbers, i, " ");
    }
    numbers.resize(size);
    ASSERT_TRUE(WriteSectionFile(folder.Path("a"), {{"numbers", numbers}, {"letters", "abcdef"}}).ok());
    const std::unique_ptr<SectionFile> file = *SectionFile::Open(folder.Path("a"), SectionFile::Check::kStructure);
    EXPECT_TRUE(*file->section("numbers") == numbers) << size;
    EXPECT_EQ(*file->section("letters"), "abcdef");
    std::string bytes = folder.Read("a");
    bytes.resize(bytes.size() - sizeof(Digest));
    EXPECT_EQ(file->digest(), Sha256(bytes)) << size;
  }
}

TEST(SectionFileTest, StaysReadableAfterItsPagesWereReleased) {
  const ScratchFolder folder;
  Write(folder.Path("a"));
  const std::unique_ptr<SectionFile> file = *SectionFile::Open(folder.Path("a"), SectionFile::Check::kStructure);
  file->ReleaseMemory();
  file->WillNeed(*file->section("digits"));
  EXPECT_EQ(*file->section("digits"), "12345");
}

TEST(SectionFileTest, ReadsPartOfASection) {
  const ScratchFolder folder;
  Write(folder.Path("a"));
  const std::unique_ptr<SectionFile> file = *SectionFile::Open(folder.Path("a"), SectionFile::Check::kStructure);
  std::string bytes(3, ' ');
  file->Read(file->section("letters")->substr(2, 3), bytes.data());
  EXPECT_EQ(bytes, "cde");
}

TEST(SectionFileTest, OneThatIsCutShortWhileItIsReadEndsTheProcessWithItsName) {
  const ScratchFolder folder;
  Write(folder.Path("a"));
  EXPECT_EXIT(
      {
        const auto file = SectionFile::Open(folder.Path("a"), SectionFile::Check::kDigest);
        const absl::string_view digits = *(*file)->section("digits");
        std::filesystem::resize_file(folder.Path("a"), 0);
        char digit = ' ';
        errno = EINTR;  // Of an earlier call; the end of a file sets none.
        alarm(10);
        (*file)->Read(digits.substr(0, 1), &digit);
        _exit(digit);  // Not reached.
      },
      ::testing::ExitedWithCode(2), "error: .*/a: expected a file that stays as it was .*, found it cut short");
}

TEST(SectionFileTest, AnotherFaultOfTheMemoryEndsTheProcessAsEver) {
  const ScratchFolder folder;
  Write(folder.Path("a"));
  EXPECT_EXIT(
      {
        const auto file = SectionFile::Open(folder.Path("a"), SectionFile::Check::kDigest);
        raise(SIGBUS);
        raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(SectionFileTest, LeavesNoTraceUnlessPublished) {
  const ScratchFolder folder;
  { std::unique_ptr<SectionFileWriter> writer = *SectionFileWriter::Create(folder.Path("a"), {"letters"}); }
  EXPECT_TRUE(std::filesystem::is_empty(std::filesystem::path(folder.Path("a")).parent_path()));
  EXPECT_EQ(SectionFileWriter::Create(folder.Path("none/a"), {"letters"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SectionFileTest, EmptySectionsAndFilesOfNone) {
  const ScratchFolder folder;
  ASSERT_TRUE((*SectionFileWriter::Create(folder.Path("none"), {}))->Publish().ok());
  EXPECT_TRUE(SectionFile::Open(folder.Path("none"), SectionFile::Check::kDigest).ok());
  ASSERT_TRUE((*SectionFileWriter::Create(folder.Path("empty"), {"nothing"}))->Publish().ok());
  EXPECT_EQ(*(*SectionFile::Open(folder.Path("empty"), SectionFile::Check::kDigest))->section("nothing"), "");
}

// Whatever byte is changed and wherever the file ends, it is refused, and nothing outside it is read.
TEST(SectionFileTest, RefusesEveryChangedByteAndEveryLength) {
  const ScratchFolder folder;
  Write(folder.Path("a"));
  const std::string bytes = folder.Read("a");
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0x41);
    folder.Write("b", changed);
    EXPECT_EQ(SectionFile::Open(folder.Path("b"), SectionFile::Check::kDigest).status().code(),
              absl::StatusCode::kInvalidArgument)
        << i;
    (void)SectionFile::Open(folder.Path("b"), SectionFile::Check::kStructure);
    folder.Write("b", bytes.substr(0, i));
    EXPECT_FALSE(SectionFile::Open(folder.Path("b"), SectionFile::Check::kDigest).ok()) << i;
  }
}

TEST(SectionFileTest, TellsAMissingFileFromAnotherOne) {
  const ScratchFolder folder;
  EXPECT_EQ(SectionFile::Open(folder.Path("a"), SectionFile::Check::kDigest).status().code(),
            absl::StatusCode::kNotFound);
  folder.Write("a", std::string(1000, 'x'));
  EXPECT_EQ(SectionFile::Open(folder.Path("a"), SectionFile::Check::kDigest).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
