// A 32-bit index that cannot be mistaken for another kind of index. A pure value.
//   using TaskId = StrongId<struct TaskTag>;
// A default-made id is invalid (-1). Order is that of the numbers, so containers of ids are
// deterministic.
#ifndef SLUICE_FRAMEWORK_BASE_STRONG_ID_H_
#define SLUICE_FRAMEWORK_BASE_STRONG_ID_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <type_traits>
#include <utility>

#include "framework/base/log.h"

namespace sluice {

template <typename Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  // From any integer, such as a vector's size(); it must fit.
  template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
  constexpr explicit StrongId(Integer value) : value_(static_cast<int32_t>(value)) {
    SLUICE_CHECK(std::in_range<int32_t>(value)) << "id " << value;
  }

  constexpr int32_t value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  // For vectors indexed by id.
  constexpr size_t index() const {
    SLUICE_CHECK(valid()) << "an invalid id as an index";
    return static_cast<size_t>(value_);
  }

  friend constexpr bool operator==(StrongId a, StrongId b) = default;
  friend constexpr auto operator<=>(StrongId a, StrongId b) = default;
  template <typename H>
  friend H AbslHashValue(H state, StrongId id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value_; }

 private:
  int32_t value_ = -1;
};

}  // namespace sluice

#endif  // SLUICE_FRAMEWORK_BASE_STRONG_ID_H_
