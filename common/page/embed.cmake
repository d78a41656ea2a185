# cmake -DINPUTS=file|file -DOUTPUT=file.cc -DNAME=ReportJs -P embed.cmake: a C++ file that returns the bytes of INPUTS, one
# after another, from EmbeddedReportJs(). An array of numbers, since a compiler may cap the length of a string literal.
string(REPLACE "|" ";" inputs "${INPUTS}")
set(bytes)
foreach(input IN LISTS inputs)
  file(READ "${input}" more HEX)
  if(more STREQUAL "")
    message(FATAL_ERROR "${input}: expected text to embed, found an empty file")
  endif()
  string(APPEND bytes "${more}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
       bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include \"common/page/embedded.h\"

namespace splitveil {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

SPLITVEIL_EMBEDDED(${NAME}) { return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)}; }

}  // namespace splitveil
")
