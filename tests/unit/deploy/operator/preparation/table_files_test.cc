#include "deploy/operator/preparation/table_files.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/table_reader.h"

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TableFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_.Path("parts"));
    for (const char* name : {"parts/part-1.csv", "parts/part-0.csv", "parts/_SUCCESS", "parts/.part-0.csv.crc"}) {
      folder_.Write(name, "id,y,a\n" + std::string(name).substr(11, 1) + "k,1,2\n");
    }
  }
  std::vector<std::string> Of(const std::vector<std::string>& inputs) const {
    const auto files = TableFiles(inputs);
    return files.ok() ? *files : std::vector<std::string>{std::string(files.status().message())};
  }
  // Ids of the table, or what is wrong.
  std::vector<std::string> Ids(const std::vector<std::string>& inputs) const {
    v1::TableSchema schema;
    for (const auto& [name, kind] : {std::pair("id", v1::TableSchema::ID), std::pair("y", v1::TableSchema::LABEL),
                                     std::pair("a", v1::TableSchema::NUMERIC)}) {
      schema.add_columns()->set_name(name);
      schema.mutable_columns(schema.columns_size() - 1)->set_kind(kind);
    }
    const auto reader = TableReader::Open(inputs, schema);
    std::vector<std::string> ids;
    TableRow row;
    absl::Status status = reader.status();
    while (status.ok()) {
      const absl::StatusOr<bool> more = (*reader)->Next(row);
      status = more.status();
      if (!status.ok() || !*more) {
        break;
      }
      ids.emplace_back(row.id);
    }
    if (!status.ok()) {
      ids.emplace_back(status.message());
    }
    return ids;
  }
  const ScratchFolder folder_;
};

TEST_F(TableFilesTest, AFolderStandsForItsFilesWithoutMarksOfPrograms) {
  const auto both = ElementsAre(folder_.Path("parts/part-0.csv"), folder_.Path("parts/part-1.csv"));
  EXPECT_THAT(Of({folder_.Path("parts")}), both);
  EXPECT_THAT(Of({folder_.Path("parts/*.csv")}), both);
  EXPECT_THAT(Of({folder_.Path("parts/part-{0,1}.csv")}), both);
  EXPECT_THAT(Of({folder_.Path("parts/part-1.csv"), folder_.Path("parts/part-0*")}),
              ElementsAre(folder_.Path("parts/part-1.csv"), folder_.Path("parts/part-0.csv")));
}

TEST_F(TableFilesTest, AFolderStandsForTheFilesOfItsFolders) {
  for (const char* name : {"parts/more", "parts/more/and", "parts/_temporary", "parts/.cache"}) {
    std::filesystem::create_directory(folder_.Path(name));
    folder_.Write(absl::StrCat(name, "/p.csv"), "id,y,a\n7k,1,2\n");
  }
  const auto all = ElementsAre(folder_.Path("parts/more/and/p.csv"), folder_.Path("parts/more/p.csv"),
                               folder_.Path("parts/part-0.csv"), folder_.Path("parts/part-1.csv"));
  EXPECT_THAT(Of({folder_.Path("parts")}), all);
  std::filesystem::create_directory_symlink(folder_.Path("parts"), folder_.Path("linked"));
  EXPECT_EQ(Of({folder_.Path("linked")}).size(), 4U);
}

// Neither may be left out in silence.
TEST_F(TableFilesTest, FailsForFoldersWhoseNamesAreACellAndForWhatIsNoFile) {
  std::filesystem::create_directory(folder_.Path("parts/year=2024"));
  folder_.Write("parts/year=2024/p.csv", "id,y,a\n7k,1,2\n");
  EXPECT_THAT(Of({folder_.Path("parts")}),
              ElementsAre(::testing::AllOf(HasSubstr("year=2024: the rows' \"year\" is only in the name"),
                                           HasSubstr("parts/year=*/*"))));
  EXPECT_THAT(Of({folder_.Path("parts/year=*/*")}), ElementsAre(folder_.Path("parts/year=2024/p.csv")));
  EXPECT_THAT(Of({folder_.Path("parts/**/*.csv")}), ElementsAre(HasSubstr("found **: name the folder")));
  std::filesystem::remove_all(folder_.Path("parts/year=2024"));
  std::filesystem::create_symlink(folder_.Path("none"), folder_.Path("parts/part-2.csv"));
  EXPECT_THAT(Of({folder_.Path("parts")}), ElementsAre(HasSubstr("part-2.csv: expected a file or a folder")));
}

TEST_F(TableFilesTest, ANameThatLooksLikeAPatternIsTheFileIfItIsThere) {
  const std::string path = folder_.Write("a[1].csv", "x\n");
  EXPECT_THAT(Of({path}), ElementsAre(path));
}

TEST_F(TableFilesTest, FailsIfThereIsNone) {
  EXPECT_EQ(TableFiles({folder_.Path("parts/*.tsv")}).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directory(folder_.Path("empty"));
  EXPECT_THAT(Of({folder_.Path("empty")}),
              ElementsAre(HasSubstr("empty: expected a folder with the files of a table")));
  EXPECT_THAT(Of({"-", "-"}), ElementsAre(HasSubstr("expected standard input (-) once")));
}

TEST_F(TableFilesTest, PartsAreOneTableWithAHeaderEach) {
  EXPECT_THAT(Ids({folder_.Path("parts")}), ElementsAre("0k", "1k"));
  folder_.Write("parts/part-2.csv", "id,y,b\n2k,1,2\n");
  EXPECT_THAT(Ids({folder_.Path("parts")}), ElementsAre("0k", "1k", HasSubstr("part-2.csv:1:3: expected a column")));
}

}  // namespace
}  // namespace splitveil
