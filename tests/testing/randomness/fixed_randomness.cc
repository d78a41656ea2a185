// A library for LD_PRELOAD: secret random bytes that are the same at every call. Keys, masks and with them run ids, the
// aligned order and the noise repeat from run to run; those of TLS are not drawn here.
#include <cstddef>

extern "C" {

// NOLINTNEXTLINE(readability-identifier-naming): OpenSSL's.
int RAND_priv_bytes(unsigned char* bytes, int count) {
  for (int i = 0; i < count; ++i) {
    bytes[i] = static_cast<unsigned char>(0x5a + 37 * i);
  }
  return 1;
}

}  // extern "C"
