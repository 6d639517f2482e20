// Reductions on a GPU: what crates/runtime/src/value does on a CPU, to the last bit.
//
// Each data type has a struct with its arithmetic. Types of 8 and 16 bits compute in float and round once, to nearest even;
// those of 8 bits saturate. Maximum and minimum leave NaN out and order zeros. Kernels are named KERNEL_TYPE_OPERATION, and
// take numbers of elements; every thread does some of them, in steps of the whole grid.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef int i32;
typedef long long i64;

__device__ inline float of_bits(u32 bits) { return __uint_as_float(bits); }
__device__ inline u32 bits_of(float number) { return __float_as_uint(number); }

// Formats with EXPONENT bits of exponent and KEPT of mantissa, in the low bits of a word.
template <u32 EXPONENT, u32 KEPT>
__device__ inline float widened(u32 bits, u32 largest) {
  const u32 sign = (bits >> (EXPONENT + KEPT)) << 31;
  const u32 magnitude = bits & ((1u << (EXPONENT + KEPT)) - 1);
  const u32 bias = (1u << (EXPONENT - 1)) - 1;
  const u32 shifted = magnitude << (23 - KEPT);
  if (magnitude > largest) return of_bits(sign | shifted | 0x7f800000u);
  if (magnitude < (1u << KEPT)) {
    const float smallest = of_bits((127 + 1 - bias - KEPT) << 23);
    return of_bits(sign | bits_of(__fmul_rn((float)(i32)magnitude, smallest)));
  }
  return of_bits(sign | (shifted + ((127 - bias) << 23)));
}

// Rounds to nearest even. Magnitudes above `limit` become `limit`, and NaN becomes `nan`.
template <u32 EXPONENT, u32 KEPT>
__device__ inline u32 narrowed(float number, u32 limit, u32 nan) {
  const u32 bias = (1u << (EXPONENT - 1)) - 1;
  const u32 all = bits_of(number);
  const u32 magnitude = all & 0x7fffffffu;
  const u32 sign = (all ^ magnitude) >> (31 - EXPONENT - KEPT);
  const u32 dropped = 23 - KEPT;
  if (magnitude > 0x7f800000u) return nan;
  u32 rounded;
  if (magnitude < ((127 + 1 - bias) << 23)) {
    // A sum with the power of two whose last bit weighs as much as the smallest number is rounded to a multiple of it.
    const u32 power = (127 + 1 - bias + dropped) << 23;
    rounded = bits_of(__fadd_rn(of_bits(magnitude), of_bits(power))) - power;
  } else {
    const u32 half = (1u << (dropped - 1)) - 1 + ((magnitude >> dropped) & 1);
    rounded = ((magnitude + half) >> dropped) - ((127 - bias) << KEPT);
  }
  return sign | (rounded > limit ? limit : rounded);
}

// The order of bit patterns of floating-point numbers, -0 before +0.
template <typename S>
__device__ inline S ordered(S pattern, S mask) { return pattern < 0 ? (S)(pattern ^ mask) : pattern; }

// The same with NaN below all numbers, and above them. Patterns beyond `top` are those of NaN; below ~top, of its negatives.
template <typename S>
__device__ inline S above(S key, S top) { return key > top ? (S)((S)1 << (8 * sizeof(S) - 1)) : key; }
template <typename S>
__device__ inline S below(S key, S top) { return key < (S)~top ? (S)~((S)1 << (8 * sizeof(S) - 1)) : key; }

template <typename T>
struct Whole {
  typedef T Value;
  static __device__ inline T add(T a, T b) { return (T)((u64)a + (u64)b); }
  static __device__ inline T mul(T a, T b) { return (T)((u64)a * (u64)b); }
  static __device__ inline T larger(T a, T b) { return a > b ? a : b; }
  static __device__ inline T smaller(T a, T b) { return a < b ? a : b; }
};

template <typename T, typename S, S MASK, S TOP>
struct Real {
  typedef T Value;
  static __device__ inline T larger(T a, T b) { return above<S>(key(a), TOP) > above<S>(key(b), TOP) ? a : b; }
  static __device__ inline T smaller(T a, T b) { return below<S>(key(a), TOP) < below<S>(key(b), TOP) ? a : b; }
  static __device__ inline S key(T a) {
    S pattern;
    memcpy(&pattern, &a, sizeof(S));
    return ordered<S>(pattern, MASK);
  }
};

struct Float32 : Real<float, i32, 0x7fffffff, 0x7f800000> {
  static __device__ inline float add(float a, float b) { return __fadd_rn(a, b); }
  static __device__ inline float mul(float a, float b) { return __fmul_rn(a, b); }
};
struct Float64 : Real<double, i64, 0x7fffffffffffffffLL, 0x7ff0000000000000LL> {
  static __device__ inline double add(double a, double b) { return __dadd_rn(a, b); }
  static __device__ inline double mul(double a, double b) { return __dmul_rn(a, b); }
};

// Types that compute in float. TOP is the pattern of infinity, or of the largest number: what is above is NaN.
template <typename Format>
struct Small {
  typedef typename Format::Bits Bits;
  typedef Bits Value;
  typedef typename Format::Pattern Pattern;
  static __device__ inline Bits add(Bits a, Bits b) {
    return Format::narrow(__fadd_rn(Format::widen(a), Format::widen(b)));
  }
  static __device__ inline Bits mul(Bits a, Bits b) {
    return Format::narrow(__fmul_rn(Format::widen(a), Format::widen(b)));
  }
  static __device__ inline Pattern key(Bits a) {
    const Pattern mask = (Pattern)((1u << (8 * sizeof(Bits) - 1)) - 1);
    return ordered<Pattern>((Pattern)a, mask);
  }
  static __device__ inline Bits larger(Bits a, Bits b) {
    const Pattern top = (Pattern)Format::TOP;
    return above<Pattern>(key(a), top) > above<Pattern>(key(b), top) ? a : b;
  }
  static __device__ inline Bits smaller(Bits a, Bits b) {
    const Pattern top = (Pattern)Format::TOP;
    return below<Pattern>(key(a), top) < below<Pattern>(key(b), top) ? a : b;
  }
};
struct Binary16 {
  typedef u16 Bits;
  typedef short Pattern;
  static const u32 TOP = 0x7c00;
  static __device__ inline float widen(u16 bits) { return widened<5, 10>(bits, 0x7bff); }
  static __device__ inline u16 narrow(float number) {
    const u32 bits = bits_of(number);
    return (u16)narrowed<5, 10>(number, 0x7c00, (bits >> 16 & 0x8000) | 0x7e00 | (bits >> 13 & 0x1ff));
  }
};
struct Brain {
  typedef u16 Bits;
  typedef short Pattern;
  static const u32 TOP = 0x7f80;
  static __device__ inline float widen(u16 bits) { return of_bits((u32)bits << 16); }
  static __device__ inline u16 narrow(float number) {
    const u32 bits = bits_of(number);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0;
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
};
struct E4M3 {
  typedef u8 Bits;
  typedef i8 Pattern;
  static const u32 TOP = 0x7e;
  static __device__ inline float widen(u8 bits) { return widened<4, 3>(bits, 0x7e); }
  static __device__ inline u8 narrow(float number) { return (u8)narrowed<4, 3>(number, 0x7e, 0x7f); }
};
struct E5M2 {
  typedef u8 Bits;
  typedef i8 Pattern;
  static const u32 TOP = 0x7c;
  static __device__ inline float widen(u8 bits) { return widened<5, 2>(bits, 0x7b); }
  static __device__ inline u8 narrow(float number) { return (u8)narrowed<5, 2>(number, 0x7b, 0x7f); }
};

#define EACH(i, count) \
  for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (count); i += (u64)gridDim.x * blockDim.x)

// result[i] = received[i] OP local[i], or OP factor * local[i]; result may be one of the others.
#define REDUCE(NAME, TYPE, OP)                                                                              \
  extern "C" __global__ void reduce_##NAME##_##OP(TYPE::Value *result, const TYPE::Value *received,         \
                                                  const TYPE::Value *local, u64 count) {                    \
    EACH(i, count) result[i] = TYPE::OP(received[i], local[i]);                                             \
  }
#define ALL(NAME, TYPE)                                                                                     \
  REDUCE(NAME, TYPE, add)                                                                                   \
  REDUCE(NAME, TYPE, mul)                                                                                   \
  REDUCE(NAME, TYPE, larger)                                                                                \
  REDUCE(NAME, TYPE, smaller)                                                                               \
  extern "C" __global__ void scaled_##NAME##_add(TYPE::Value *result, const TYPE::Value *received,          \
                                                 const TYPE::Value *local, TYPE::Value factor, u64 count) { \
    EACH(i, count) result[i] = TYPE::add(received[i], TYPE::mul(local[i], factor));                         \
  }                                                                                                         \
  extern "C" __global__ void scale_##NAME(TYPE::Value *result, const TYPE::Value *local,                    \
                                          TYPE::Value factor, u64 count) {                                  \
    EACH(i, count) result[i] = TYPE::mul(local[i], factor);                                                 \
  }
#define DIVIDE(NAME, TYPE)                                                                                  \
  extern "C" __global__ void divide_##NAME(TYPE *result, TYPE ranks, u64 count) {                           \
    EACH(i, count) result[i] = result[i] / ranks;                                                           \
  }

ALL(int8, Whole<i8>)
ALL(uint8, Whole<u8>)
ALL(int32, Whole<i32>)
ALL(uint32, Whole<u32>)
ALL(int64, Whole<i64>)
ALL(uint64, Whole<u64>)
ALL(float16, Small<Binary16>)
ALL(float32, Float32)
ALL(float64, Float64)
ALL(bfloat16, Small<Brain>)
ALL(float8_e4m3fn, Small<E4M3>)
ALL(float8_e5m2, Small<E5M2>)
DIVIDE(int32, i32)
DIVIDE(uint32, u32)
DIVIDE(int64, i64)
DIVIDE(uint64, u64)

// The number of ranks may be more than a type of 8 bits holds.
extern "C" __global__ void divide_int8(i8 *result, i32 ranks, u64 count) {
  EACH(i, count) result[i] = (i8)(result[i] / ranks);
}
extern "C" __global__ void divide_uint8(u8 *result, u32 ranks, u64 count) {
  EACH(i, count) result[i] = (u8)(result[i] / ranks);
}
