# Moves the include of options.pb.h from GENERATED.h to GENERATED.cc, if it is there.
set(include "#include \"splitveil/v1/options.pb.h\"\n")
file(READ ${GENERATED}.h header)
string(REPLACE "${include}" "" shorter "${header}")
if(NOT shorter STREQUAL header)
  file(READ ${GENERATED}.cc source)
  file(WRITE ${GENERATED}.h "${shorter}")
  file(WRITE ${GENERATED}.cc "${include}${source}")
endif()
