#include "deploy/operator/preparation/resize_image.h"

#include <algorithm>
#include <cmath>

namespace splitveil {
namespace {

// A new pixel of one axis is sum_i weights[i] old[first + i]; the weights sum to 1.
struct Blend {
  int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Blend> Blends(int64_t from, int64_t to) {
  std::vector<Blend> blends(static_cast<size_t>(to));
  const double step = static_cast<double>(from) / static_cast<double>(to);
  for (int64_t i = 0; i < to; ++i) {
    Blend& blend = blends[i];
    if (to < from) {
      const double begin = static_cast<double>(i) * step;
      const double end = std::min(begin + step, static_cast<double>(from));
      blend.first = static_cast<int64_t>(begin);
      for (int64_t old = blend.first; static_cast<double>(old) < end; ++old) {
        const auto left = static_cast<double>(old);
        blend.weights.push_back(static_cast<float>((std::min(left + 1, end) - std::max(left, begin)) / step));
      }
    } else {
      const double centre = std::clamp((static_cast<double>(i) + 0.5) * step - 0.5, 0.0, static_cast<double>(from - 1));
      blend.first = std::min(static_cast<int64_t>(centre), std::max<int64_t>(from - 2, 0));
      const auto right = static_cast<float>(centre - static_cast<double>(blend.first));
      blend.weights = from > 1 ? std::vector<float>{1 - right, right} : std::vector<float>{1};
    }
    // The last area may reach over the end by a rounding.
    blend.weights.resize(std::min<size_t>(blend.weights.size(), static_cast<size_t>(from - blend.first)));
  }
  return blends;
}

float Apply(const Blend& blend, const float* old, int64_t stride) {
  float sum = 0;
  for (size_t i = 0; i < blend.weights.size(); ++i) {
    sum += blend.weights[i] * old[(blend.first + static_cast<int64_t>(i)) * stride];
  }
  return sum;
}

}  // namespace

std::vector<uint8_t> ChannelsFirst(absl::Span<const uint8_t> pixels, const ImageShape& shape) {
  std::vector<uint8_t> planes(pixels.size());
  const int64_t area = shape.height * shape.width;
  for (int64_t i = 0; i < area; ++i) {
    for (int64_t channel = 0; channel < shape.channels; ++channel) {
      planes[channel * area + i] = pixels[i * shape.channels + channel];
    }
  }
  return planes;
}

std::vector<uint8_t> ResizeImage(absl::Span<const uint8_t> pixels, const ImageShape& from, const ImageShape& to) {
  const std::vector<Blend> rows = Blends(from.height, to.height);
  const std::vector<Blend> columns = Blends(from.width, to.width);
  std::vector<uint8_t> resized;
  resized.reserve(static_cast<size_t>(from.channels * to.height * to.width));
  const std::vector<float> old(pixels.begin(), pixels.end());
  std::vector<float> wide(static_cast<size_t>(from.height * to.width));  // Of the new width, one channel.
  for (int64_t channel = 0; channel < from.channels; ++channel) {
    const float* const plane = old.data() + channel * from.height * from.width;
    for (int64_t y = 0; y < from.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        wide[y * to.width + x] = Apply(columns[x], plane + y * from.width, 1);
      }
    }
    for (int64_t y = 0; y < to.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        resized.push_back(
            static_cast<uint8_t>(std::lround(std::min(Apply(rows[y], wide.data() + x, to.width), 255.0F))));
      }
    }
  }
  return resized;
}

}  // namespace splitveil
