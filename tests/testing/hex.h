// Bytes written in hexadecimal, for expectations computed elsewhere.
#ifndef SPLITVEIL_TESTS_TESTING_HEX_H_
#define SPLITVEIL_TESTS_TESTING_HEX_H_

#include <cstdlib>
#include <string>

namespace splitveil {

// Abseil's own function has another signature in each Debian release. `hex`: an even number of hexadecimal digits.
inline std::string BytesFromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::strtoul(hex.substr(i, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_HEX_H_
