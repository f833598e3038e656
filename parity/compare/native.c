/* Statistics of float32 pairs (r, c), as the docstring of `parity.compare.Comparison` defines them, in one pass over
   memory, and at the end those of `parity.compare.local`. `parity.compare.native` mirrors the structs.

   A block is taken in pieces that stay in the first-level cache, in short loops that a compiler vectorises as they
   stand. `omp simd reduction` lets it split sums over lanes and nothing else; all other arithmetic is strict IEEE 754.
   Maxima are exact in float64, but looked for there only in pieces that could hold a larger one: rounding is
   monotonic, so what is larger in float64 is no smaller in float32, where twice as many fit in a register. */

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { PIECE = 2048, BINS = 34, FEW = 128 };
enum { MAGNITUDE = 0x7fffffff, INFINITE = 0x7f800000 }; /* bits of a float without its sign; of infinity */

typedef struct {
    int64_t finite, zero_reference, over_limit, reference_nan, reference_inf, candidate_nan, candidate_inf;
    int64_t nonfinite, first_nonfinite; /* non-finite differences, and the position of the first if there is one */
    int64_t worst;                      /* where max_abs is reached first if it is not 0 */
    double max_abs, max_rel;
    double sums[5];                      /* of r², c², rc, (c - r)², c - r */
    uint64_t max_ulp, ulp_low, ulp_high; /* the distances add up to ulp_low + 2^16 ulp_high, exactly */
    int64_t histogram[BINS];
} statistics;

/* Looked at before the library is used. The build defines PARITY_SOURCE, the checksum of the file it compiles. */
const uint32_t parity_source = PARITY_SOURCE;
const uint32_t parity_statistics_size = sizeof(statistics);

/* On x86-64, code for AVX2 beside the baseline; the dynamic linker of glibc picks. */
#if defined(__x86_64__) && defined(__GLIBC__) && __has_attribute(target_clones)
#define FOR_EACH_CPU __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_CPU
#endif
#define INLINE static inline __attribute__((always_inline)) /* into the code of each CPU */

INLINE int32_t bits(float x) {
    int32_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* Place of a float among all floats, counted from 0: sign and magnitude turned into two's complement. */
INLINE int32_t place(int32_t b) {
    int32_t sign = b >> 31;
    return ((b & MAGNITUDE) ^ sign) - sign;
}

INLINE double distance(float r, float c) { return fabs((double)c - (double)r); }

/* 0 for 0, else 1 + the number of bits of (steps - 1); without a branch, which would be mispredicted. */
INLINE int bin_of(uint32_t steps) {
    const int above = steps != 0;
    return above + 63 - __builtin_clzll(2ull * (steps - (uint32_t)above) + 1);
}

/* Counts distances in the bins {0}, {1}, {2}, (2, 4], (4, 8], … */
INLINE void add_histogram(const uint32_t *steps, int n, uint32_t largest, int64_t *histogram) {
    if (largest <= FEW) { /* rounding noise: a vectorised count for each of a few bins */
        int left = n;
        for (int bin = 0, edge = 0; left; bin++, edge = edge ? 2 * edge : 1) {
            int beyond = 0;
#pragma omp simd reduction(+ : beyond)
            for (int i = 0; i < n; i++) beyond += (int32_t)steps[i] > edge;
            histogram[bin] += left - beyond;
            left = beyond;
        }
        return;
    }
    int32_t tables[4][BINS] = {{0}}; /* four, for counting in one place waits for the count before */
    int i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++) tables[k][bin_of(steps[i + k])]++;
    for (; i < n; i++) tables[0][bin_of(steps[i])]++;
    for (int bin = 0; bin < BINS; bin++)
        histogram[bin] += tables[0][bin] + tables[1][bin] + tables[2][bin] + tables[3][bin];
}

/* Adds n pairs from position `start`; if some are not finite, adds nothing and returns 0. */
INLINE int add_finite(const float *restrict r, const float *restrict c, int n, int64_t start, double limit,
                      double *sums, statistics *s) {
    uint32_t steps[PIECE];
    uint32_t largest = 0, low = 0, high = 0; /* low and high: sums of the halves of distances, which fit for n ≤ 2^16 */
    int32_t magnitude = 0, error = 0, zeros = 0, near = 0;
    /* Below max_rel by more than its rounding. No two floats are closer than 2^-24 |r|, so this does not underflow. */
    const float bound = s->max_rel < FLT_MAX ? (float)(s->max_rel * (1 - 0x1p-22)) : FLT_MAX;
#pragma omp simd reduction(max : largest, magnitude, error) reduction(+ : low, high, zeros) reduction(| : near)
    for (int i = 0; i < n; i++) {
        const int32_t x = bits(r[i]), y = bits(c[i]), a = place(x), b = place(y);
        const uint32_t u = (uint32_t)(a > b ? a : b) - (uint32_t)(a > b ? b : a);
        const float d = fabsf(c[i] - r[i]);
        const int32_t e = bits(d), m = (x & MAGNITUDE) > (y & MAGNITUDE) ? x & MAGNITUDE : y & MAGNITUDE;
        steps[i] = u;
        low += u & 0xffff;
        high += u >> 16;
        largest = u > largest ? u : largest;
        magnitude = m > magnitude ? m : magnitude;
        error = e > error ? e : error;
        near |= (d >= bound * fabsf(r[i])) & (u != 0);
        zeros += ((x & MAGNITUDE) == 0) & (u != 0);
    }
    if (magnitude >= INFINITE) return 0;

    double rr = 0, cc = 0, rc = 0, dd = 0, sum = 0;
#pragma omp simd reduction(+ : rr, cc, rc, dd, sum)
    for (int i = 0; i < n; i++) {
        const double x = r[i], y = c[i], d = y - x;
        rr += x * x; /* products of two floats are exact in float64 */
        cc += y * y;
        rc += x * y;
        dd += d * d;
        sum += d;
    }
    const double found[5] = {rr, cc, rc, dd, sum};
    for (int k = 0; k < 5; k++) sums[k] += found[k];
    s->finite += n;
    s->zero_reference += zeros;
    s->ulp_low += low;
    s->ulp_high += high;
    s->max_ulp = largest > s->max_ulp ? largest : s->max_ulp;
    add_histogram(steps, n, largest, s->histogram);

    if (largest && (error >= bits((float)s->max_abs) || error >= bits((float)limit))) {
        double most = 0;
        int over = 0;
#pragma omp simd reduction(max : most) reduction(+ : over)
        for (int i = 0; i < n; i++) {
            const double d = distance(r[i], c[i]);
            most = d > most ? d : most;
            over += d > limit;
        }
        s->over_limit += over;
        if (most > s->max_abs) {
            int i = 0;
            while (distance(r[i], c[i]) != most) i++;
            s->max_abs = most;
            s->worst = start + i;
        }
    }
    if (near) {
        double most = s->max_rel;
#pragma omp simd reduction(max : most)
        for (int i = 0; i < n; i++) {
            const double relative = distance(r[i], c[i]) / (r[i] != 0 ? fabs((double)r[i]) : INFINITY);
            most = relative > most ? relative : most;
        }
        s->max_rel = most;
    }
    return 1;
}

/* Counts what is not finite in n pairs, and copies them with (0, 0) in the place of pairs that are not finite. */
INLINE int add_nonfinite(const float *r, const float *c, int n, int64_t start, float *r_out, float *c_out,
                         statistics *s) {
    int replaced = 0;
    for (int i = 0; i < n; i++) {
        const int32_t x = bits(r[i]) & MAGNITUDE, y = bits(c[i]) & MAGNITUDE;
        const int finite = x < INFINITE && y < INFINITE, both_nan = x > INFINITE && y > INFINITE;
        s->reference_nan += x > INFINITE;
        s->candidate_nan += y > INFINITE;
        s->reference_inf += x == INFINITE;
        s->candidate_inf += y == INFINITE;
        if (!finite && !both_nan && bits(r[i]) != bits(c[i]) && !s->nonfinite++) s->first_nonfinite = start + i;
        r_out[i] = finite ? r[i] : 0;
        c_out[i] = finite ? c[i] : 0;
        replaced += !finite;
    }
    return replaced;
}

/* Adds `count` pairs, the first at position `start`, to `s`. `limit` is on |c - r|; infinity for none. */
FOR_EACH_CPU void parity_compare(const float *r, const float *c, int64_t count, int64_t start, double limit,
                                 statistics *s) {
    double sums[5] = {0}; /* of this block, added to the whole at the end: sums of sums round less */
    for (int64_t done = 0; done < count; done += PIECE, r += PIECE, c += PIECE) {
        const int n = count - done < PIECE ? (int)(count - done) : PIECE;
        if (add_finite(r, c, n, start + done, limit, sums, s)) continue;
        float r_finite[PIECE], c_finite[PIECE];
        const int replaced = add_nonfinite(r, c, n, start + done, r_finite, c_finite, s);
        add_finite(r_finite, c_finite, n, start + done, limit, sums, s);
        s->finite -= replaced; /* (0, 0) changes nothing else */
        s->histogram[0] -= replaced;
    }
    for (int k = 0; k < 5; k++) s->sums[k] += sums[k];
}

typedef struct {
    double squares, largest;
} size;

typedef struct {
    size z, twin, error, ulp, gap, rounding; /* as the docstring of `parity.compare.local` names them */
} local_sizes;

const uint32_t parity_local_size = sizeof(local_sizes);

INLINE void add_size(size *total, double squares, double largest) {
    total->squares += squares;
    total->largest = largest > total->largest ? largest : total->largest;
}

/* The greatest power of two up to |z|, or `least` if that is more. */
INLINE double power_of_two(double z, double least) {
    int64_t b;
    double power;
    memcpy(&b, &z, sizeof b);
    b &= 0x7ff0000000000000;
    memcpy(&power, &b, sizeof power);
    return power > least ? power : least;
}

/* Adds `count` elements; adds nothing and returns 0 if the square of one is not finite. `own` may be absent. */
#define LOCAL(NAME, TYPE)                                                                                             \
    FOR_EACH_CPU int NAME(const double *restrict z, const TYPE *restrict twin, const TYPE *restrict candidate,         \
                          const double *restrict own, int64_t count, double least, double eps, local_sizes *s) {       \
        double zz = 0, tt = 0, ee = 0, uu = 0, gg = 0, rr = 0, z_most = 0, t_most = 0, e_most = 0, u_most = 0,         \
               g_most = 0, r_most = 0;                                                                                 \
        _Pragma("omp simd reduction(+ : zz, tt, ee, uu) reduction(max : z_most, t_most, e_most, u_most)")              \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const double x = z[i], t = (double)twin[i] - x, e = (double)candidate[i] - x;                              \
            const double u = power_of_two(x, least) * eps;                                                             \
            zz += x * x, tt += t * t, ee += e * e, uu += u * u;                                                        \
            z_most = fabs(x) > z_most ? fabs(x) : z_most;                                                              \
            t_most = fabs(t) > t_most ? fabs(t) : t_most;                                                              \
            e_most = fabs(e) > e_most ? fabs(e) : e_most;                                                              \
            u_most = u > u_most ? u : u_most;                                                                          \
        }                                                                                                              \
        if (own) {                                                                                                     \
            _Pragma("omp simd reduction(+ : gg, rr) reduction(max : g_most, r_most)")                                  \
            for (int64_t i = 0; i < count; i++) {                                                                      \
                const double g = own[i] - z[i], r = (double)candidate[i] - own[i];                                     \
                gg += g * g, rr += r * r;                                                                              \
                g_most = fabs(g) > g_most ? fabs(g) : g_most;                                                          \
                r_most = fabs(r) > r_most ? fabs(r) : r_most;                                                          \
            }                                                                                                          \
        }                                                                                                              \
        if (!isfinite(zz + tt + ee + gg + rr)) return 0;                                                               \
        add_size(&s->z, zz, z_most), add_size(&s->twin, tt, t_most), add_size(&s->error, ee, e_most);                  \
        add_size(&s->ulp, uu, u_most), add_size(&s->gap, gg, g_most), add_size(&s->rounding, rr, r_most);              \
        return 1;                                                                                                      \
    }

LOCAL(parity_local_float, float)
LOCAL(parity_local_double, double)

typedef struct {
    double sum, squares, gaps, low, high; /* of x, x², (x - y)²; the least and the greatest x */
} moments;

const uint32_t parity_moments_size = sizeof(moments);

/* Adds `count` elements; adds nothing and returns 0 if one is not finite. `y` may be absent. */
FOR_EACH_CPU int parity_moments(const float *restrict x, const float *restrict y, int64_t count, moments *m) {
    double sum = 0, squares = 0, gaps = 0;
    float low = INFINITY, high = -INFINITY;
#pragma omp simd reduction(+ : sum, squares) reduction(min : low) reduction(max : high)
    for (int64_t i = 0; i < count; i++) {
        sum += x[i];
        squares += (double)x[i] * x[i];
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    if (y) {
#pragma omp simd reduction(+ : gaps)
        for (int64_t i = 0; i < count; i++) gaps += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    }
    if (!isfinite(squares + gaps)) return 0; /* sums of squares of floats do not overflow */
    m->sum += sum, m->squares += squares, m->gaps += gaps;
    m->low = low < m->low ? low : m->low;
    m->high = high > m->high ? high : m->high;
    return 1;
}
