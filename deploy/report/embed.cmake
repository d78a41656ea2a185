# cmake -DINPUT=file -DOUTPUT=file.cc -DNAME=ReportHtml -DHEADER=embedded.h -P embed.cmake: a C++ file that returns
# INPUT's bytes from Embedded<NAME>(), which HEADER declares. An array of numbers, since a compiler may cap the length of
# a string literal.
file(READ "${INPUT}" bytes HEX)
string(LENGTH "${bytes}" length)
math(EXPR size "${length} / 2")
if(size EQUAL 0)
  message(FATAL_ERROR "${INPUT}: expected text to embed, found an empty file")
endif()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
       bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"${HEADER}\"

namespace splitveil {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

absl::string_view Embedded${NAME}() { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace splitveil
")
