// Linked into a test that trains in its own process, in place of OpenSSL's for the whole process: what is drawn in
// secret is always the same. Keys, masks, hints, noise and with them the aligned order repeat from run to run, so that
// runs differ in nothing but what a test changes, and a test that passes once passes always. The parties draw
// differently, as the label party aligns on a thread of its own: a party that sends what the other sends is refused.
#include <algorithm>
#include <thread>

extern "C" int RAND_priv_bytes(unsigned char* bytes, int count) {  // NOLINT(readability-identifier-naming): OpenSSL's
  static const std::thread::id first_to_draw = std::this_thread::get_id();
  std::fill_n(bytes, count, static_cast<unsigned char>(std::this_thread::get_id() == first_to_draw ? 0x5a : 0x5b));
  return 1;
}
