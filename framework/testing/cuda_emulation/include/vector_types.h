// Vectors of CUDA kernels, as the toolkit's header of this name has them, and their makers.
#ifndef SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_VECTOR_TYPES_H_
#define SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_VECTOR_TYPES_H_

struct uint3 {
  unsigned int x, y, z;
};

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// Kernels load several elements of any type as one vector; nvcc lets them alias, so gcc has to.
#define SLUICE_VECTOR2(T, name)                           \
  struct alignas(2 * sizeof(T)) [[gnu::may_alias]] name { \
    T x, y;                                               \
  };                                                      \
  inline name make_##name(T x, T y) { return {x, y}; }
#define SLUICE_VECTOR4(T, name, alignment)            \
  struct alignas(alignment) [[gnu::may_alias]] name { \
    T x, y, z, w;                                     \
  };                                                  \
  inline name make_##name(T x, T y, T z, T w) { return {x, y, z, w}; }

SLUICE_VECTOR2(int, int2)
SLUICE_VECTOR2(unsigned int, uint2)
SLUICE_VECTOR2(float, float2)
SLUICE_VECTOR2(double, double2)
SLUICE_VECTOR4(unsigned char, uchar4, 4)
SLUICE_VECTOR4(unsigned short, ushort4, 8)
SLUICE_VECTOR4(int, int4, 16)
SLUICE_VECTOR4(unsigned int, uint4, 16)
SLUICE_VECTOR4(float, float4, 16)

#undef SLUICE_VECTOR2
#undef SLUICE_VECTOR4

#endif  // SLUICE_FRAMEWORK_TESTING_CUDA_EMULATION_INCLUDE_VECTOR_TYPES_H_
