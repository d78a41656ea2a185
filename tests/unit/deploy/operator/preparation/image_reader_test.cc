#include "deploy/operator/preparation/image_reader.h"

// jpeglib.h needs stdio.h before it.
#include <jpeglib.h>
#include <stdio.h>

#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/row_source.h"

#include "tests/testing/scratch_folder.h"
#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A JPEG file of one colour.
std::string Jpeg(int width, int height, std::vector<uint8_t> colour) {
  jpeg_compress_struct encoder;
  jpeg_error_mgr errors;
  encoder.err = jpeg_std_error(&errors);
  jpeg_create_compress(&encoder);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): what libjpeg takes.
  jpeg_mem_dest(&encoder, &bytes, &size);
  encoder.image_width = static_cast<JDIMENSION>(width);
  encoder.image_height = static_cast<JDIMENSION>(height);
  encoder.input_components = 3;
  encoder.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder);
  jpeg_set_quality(&encoder, 100, TRUE);
  jpeg_start_compress(&encoder, TRUE);
  std::vector<uint8_t> row;
  for (int x = 0; x < width; ++x) {
    row.insert(row.end(), colour.begin(), colour.end());
  }
  JSAMPROW rows = row.data();
  while (encoder.next_scanline < encoder.image_height) {
    jpeg_write_scanlines(&encoder, &rows, 1);
  }
  jpeg_finish_compress(&encoder);
  std::string file(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&encoder);
  free(bytes);
  return file;
}

v1::Images Images(int height, int width) {
  v1::Images images;
  images.set_height(height);
  images.set_width(width);
  return images;
}

TEST(DecodeJpegTest, GivesTheColoursPlaneByPlane) {
  const absl::StatusOr<DecodedImage> image = DecodeJpeg(Jpeg(16, 8, {200, 100, 50}), 3);
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->shape.height, 8);
  EXPECT_EQ(image->shape.width, 16);
  EXPECT_NEAR(image->pixels[0], 200, 2);
  EXPECT_NEAR(image->pixels[128], 100, 2);
  EXPECT_NEAR(image->pixels[256], 50, 2);
  EXPECT_NEAR(DecodeJpeg(Jpeg(16, 8, {90, 90, 90}), 1)->pixels[5], 90, 1);
}

TEST(DecodeJpegTest, RefusesWhatIsNoJpegOrDamaged) {
  EXPECT_THAT(std::string(DecodeJpeg("", 3).status().message()), HasSubstr("found none"));
  EXPECT_THAT(std::string(DecodeJpeg("not an image", 3).status().message()), HasSubstr("found none"));
  const std::string file = Jpeg(64, 64, {1, 2, 3});
  EXPECT_THAT(std::string(DecodeJpeg(file.substr(0, file.size() - 40), 3).status().message()), HasSubstr("damaged"));
  for (size_t size = 0; size < file.size(); size += 7) {
    EXPECT_FALSE(DecodeJpeg(file.substr(0, size), 3).ok()) << size;
  }
}

TEST(ImageReaderTest, ReadsAnArrayRowByRow) {
  const ScratchFolder folder;
  // Two images of 1 x 2 pixels with 3 channels.
  for (const std::string& bytes : {std::string("abcdefghijkl"), GzipBytes("abcdefghijkl")}) {
    auto reader = *ImageReader::Open({Images(1, 2), folder.Write("array", bytes), false, 0});
    std::vector<uint8_t> pixels;
    ASSERT_TRUE(reader->Read(1, "", pixels).ok());  // Row 0 could not be used.
    EXPECT_THAT(pixels, ElementsAre('g', 'j', 'h', 'k', 'i', 'l'));
    EXPECT_TRUE(reader->Finish(2).ok());
  }
}

TEST(ImageReaderTest, RefusesAnArrayOfFewerOrMoreImagesThanRows) {
  const ScratchFolder folder;
  const std::string path = folder.Write("array", "abcdefghijkl");
  std::vector<uint8_t> pixels;
  auto reader = *ImageReader::Open({Images(1, 2), path, false, 0});
  EXPECT_THAT(std::string(reader->Read(2, "", pixels).message()), HasSubstr("an image for every row, found 2"));
  reader = *ImageReader::Open({Images(1, 2), path, false, 0});
  EXPECT_THAT(std::string(reader->Finish(1).message()), HasSubstr("expected 1 images, found more"));
  const std::string packed = GzipBytes("abcdefghijkl");
  reader = *ImageReader::Open({Images(1, 2), folder.Write("cut", packed.substr(0, packed.size() - 9)), false, 0});
  EXPECT_FALSE(reader->Finish(2).ok());
}

TEST(ImageReaderTest, ReadsFilesAndResizesThem) {
  const ScratchFolder folder;
  folder.Write("a.jpg", Jpeg(20, 30, {255, 255, 255}));
  v1::Images images;
  images.set_file_suffix(".jpg");
  auto reader = *ImageReader::Open({images, folder.Path(""), true, 12});
  EXPECT_EQ(reader->shape().pixels(), 3 * 12 * 12);
  std::vector<uint8_t> pixels;
  ASSERT_TRUE(reader->Read(0, "a", pixels).ok());
  EXPECT_EQ(pixels.size(), 3 * 12 * 12);
  EXPECT_THAT(pixels, Each(255));
}

TEST(ImageReaderTest, RefusesFilesThatAreMissingOrOfAnotherSize) {
  const ScratchFolder folder;
  folder.Write("a", Jpeg(20, 30, {255, 255, 255}));
  auto reader = *ImageReader::Open({Images(10, 10), folder.Path(""), true, 0});
  std::vector<uint8_t> pixels;
  EXPECT_THAT(std::string(reader->Read(0, "a", pixels).message()), HasSubstr("of 10 x 10 pixels, found 20 x 30"));
  EXPECT_THAT(std::string(reader->Read(1, "b", pixels).message()), HasSubstr("cannot be opened"));
  EXPECT_FALSE(reader->Read(2, "", pixels).ok());
}

TEST(ImageReaderTest, RefusesImagesOfUnknownSizeOrPlace) {
  const ScratchFolder folder;
  EXPECT_FALSE(ImageReader::Open({Images(1, 1), "", false, 0}).ok());
  EXPECT_FALSE(ImageReader::Open({v1::Images(), folder.Path(""), true, 0}).ok());
  EXPECT_FALSE(ImageReader::Open({v1::Images(), folder.Path(""), false, 8}).ok());
  EXPECT_FALSE(ImageReader::Open({Images(1, 1), folder.Path(""), true, -1}).ok());
  EXPECT_EQ(ImageReader::Open({Images(1, 1), folder.Path("none"), false, 0}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(RowSourceTest, ACorruptImageIsAFaultOfItsRowWithLineAndColumn) {
  const ScratchFolder folder;
  folder.Write("good", Jpeg(4, 4, {9, 9, 9}));
  folder.Write("bad", "no image");
  RowSource::Options options;
  options.input_paths = {folder.Write("table", "name,file\nx,good\ny,bad\n")};
  options.images_path = folder.Path("");
  *options.schema.mutable_images() = Images(4, 4);
  for (const auto& [name, kind] : {std::pair{"name", v1::TableSchema::ID}, {"file", v1::TableSchema::IMAGE_FILE}}) {
    v1::TableSchema::Column& column = *options.schema.add_columns();
    column.set_name(name);
    column.set_kind(kind);
  }
  TableRow row;
  auto strict = *RowSource::Open(options);
  EXPECT_TRUE(*strict->Next(row));
  EXPECT_EQ(row.pixels.size(), 48);
  EXPECT_THAT(std::string(strict->Next(row).status().message()), HasSubstr("table:3:2: expected a JPEG image"));
  options.skip_bad_rows = true;
  auto lenient = *RowSource::Open(options);
  EXPECT_TRUE(*lenient->Next(row));
  EXPECT_FALSE(*lenient->Next(row));
  EXPECT_EQ(lenient->skipped()[static_cast<size_t>(RowFault::kImage)], 1);
}

TEST(RowSourceTest, AnArrayThatDoesNotFitItsTableIsAnErrorEvenWhereBadRowsAreLeftOut) {
  const ScratchFolder folder;
  RowSource::Options options;
  *options.schema.mutable_images() = Images(1, 2);
  v1::TableSchema::Column& column = *options.schema.add_columns();
  column.set_name("name");
  column.set_kind(v1::TableSchema::ID);
  options.skip_bad_rows = true;
  const auto error_after = [&](const std::string& table, const std::string& images) {
    options.input_paths = {folder.Write("table", table)};
    options.images_path = folder.Write("array", images);
    auto rows = *RowSource::Open(options);
    TableRow row;
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) {
      more = rows->Next(row);
    }
    return std::string(more.status().message());
  };
  const std::string two_images = "abcdefghijkl", packed = GzipBytes(two_images);
  EXPECT_EQ(error_after("name\nx\ny\n", two_images), "");
  EXPECT_THAT(error_after("name\nx\ny\nz\n", two_images), HasSubstr("an image for every row, found 2"));
  EXPECT_THAT(error_after("name\nx\ny\n", packed.substr(0, packed.size() - 9)), HasSubstr("array: the gzip stream"));
  // A table that is cut short leaves images over.
  std::string table = "name\n";
  for (int row = 0; row < 2000; ++row) {
    absl::StrAppend(&table, row, "\n");
  }
  table = GzipBytes(table);
  EXPECT_THAT(error_after(table.substr(0, table.size() / 2), std::string(2000 * 6, 'a')),
              HasSubstr("images, found more"));
}

}  // namespace
}  // namespace splitveil
