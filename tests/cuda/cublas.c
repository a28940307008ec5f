/* cublasLt without a device, for tests of what it is asked for: it looks at what it is given as the library would, and
   computes products in the host's memory, at once, or when the stub of the driver (driver.c) says. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FINE = 0, INVALID = 7, FAILED = 13, UNSUPPORTED = 15 };
enum { HANDLE = 0x11, DESC = 0x22, LAYOUT = 0x33, PREFERENCE = 0x44, ALGORITHM = 0x55 };

typedef struct { int magic; } handle;
typedef struct { int magic, compute, scale, transposed[2]; uint32_t epilogue; const void *bias; } desc;
typedef struct { int magic, type; uint64_t rows, columns; int64_t ld; int32_t batch; int64_t offset; } layout;
typedef struct { int magic; uint64_t workspace; uint32_t reductions, aligned[4]; } preference;
typedef struct { uint64_t magic, what, a, b, out, workspace, places, bias; } algorithm;
typedef struct { algorithm best; size_t workspace; int state; float waves; int reserved[4]; } heuristic;
typedef struct {
    desc what;
    layout a, b, c;
    double alpha, beta;
    const void *places[3];
    void *out;
} product;

/* What tests ask. */

static int failing, living, asked, multiplied;

enum { NOTHING, CREATE, DESCRIBE, CHOOSE, NONE_FOUND, MULTIPLY, BIAS_OF_DOUBLES };

void stub_fail(int what) { failing = what; }
int stub_living(void) { return living; }
int stub_asked(void) { return asked; }
int stub_multiplied(void) { return multiplied; }

/* Elements. */

static float from_half(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexpf(1024 + fraction, exponent - 25)
                                : ldexpf(fraction, -24);
    return bits >> 15 ? -size : size;
}

static uint16_t to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    x = fabs(x);
    if (isnan(x))
        return 0x7e00;
    if (x >= 65520)
        return sign | 0x7c00;
    int exponent = x < ldexp(1, -14) ? -14 : ilogb(x);
    long units = (long)nearbyint(ldexp(x, 10 - exponent)); /* a carry goes into the exponent */
    return sign | (uint16_t)(units + ((exponent + 14) << 10));
}

static double element(int type, const void *from, int64_t k)
{
    return type == 0 ? ((const float *)from)[k] : type == 1 ? ((const double *)from)[k]
                                                            : from_half(((const uint16_t *)from)[k]);
}

static void put(int type, void *to, int64_t k, double x)
{
    if (type == 0)
        ((float *)to)[k] = (float)x;
    else if (type == 1)
        ((double *)to)[k] = x;
    else
        ((uint16_t *)to)[k] = to_half(x);
}

static void multiply(const void *data)
{
    const product *p = data;
    const layout *a = &p->a, *b = &p->b, *c = &p->c;
    int64_t inner = p->what.transposed[0] ? a->rows : a->columns;
    int64_t down = p->what.transposed[0] ? a->ld : 1, along = p->what.transposed[0] ? 1 : a->ld;
    int64_t across = p->what.transposed[1] ? 1 : b->ld, deep = p->what.transposed[1] ? b->ld : 1;
    for (int64_t stack = 0; stack < c->batch; stack++)
        for (int64_t j = 0; j < (int64_t)c->columns; j++)
            for (int64_t i = 0; i < (int64_t)c->rows; i++) {
                double total = 0;
                for (int64_t z = 0; z < inner; z++)
                    total += element(a->type, p->places[0], stack * a->offset + i * down + z * along) *
                             element(b->type, p->places[1], stack * b->offset + j * across + z * deep);
                int64_t at = stack * c->offset + j * c->ld + i;
                total *= p->alpha;
                if (p->beta != 0)
                    total += p->beta * element(c->type, p->places[2], at);
                if (p->what.epilogue == 4)
                    total += element(c->type, p->what.bias, i);
                put(c->type, p->out, at, total);
            }
}

/* The library. */

size_t cublasLtGetVersion(void) { return 130000; }
const char *cublasLtGetStatusName(int status) { return status == UNSUPPORTED ? "NOT_SUPPORTED" : "OTHER"; }

static int destroyed(int *what, int magic)
{
    if (*what != magic)
        return INVALID;
    *what = 0;
    free(what);
    living--;
    return FINE;
}

#define MADE(type, ...)                                                                                                \
    (living++, *found = malloc(sizeof(type)), **found = (type){__VA_ARGS__}, FINE)

int cublasLtCreate(handle **found) { return failing == CREATE ? 1 : MADE(handle, HANDLE); }

int cublasLtMatmulDescCreate(desc **found, int compute, int scale)
{
    if (failing == DESCRIBE || !((compute == 68 && scale == 0) || (compute == 70 && scale == 1)))
        return INVALID;
    return MADE(desc, DESC, compute, scale, {0, 0}, 1, 0);
}
int cublasLtMatmulDescSetAttribute(desc *d, int which, const void *value, size_t n)
{
    if (d->magic != DESC || n != (which == 8 ? 8u : 4u))
        return INVALID;
    if (which == 3 || which == 4)
        d->transposed[which - 3] = *(const int32_t *)value;
    else if (which == 7)
        d->epilogue = *(const uint32_t *)value;
    else if (which == 8)
        d->bias = *(const void *const *)value;
    else
        return INVALID;
    return FINE;
}
int cublasLtMatmulDescDestroy(desc *d) { return destroyed(&d->magic, DESC); }

int cublasLtMatrixLayoutCreate(layout **found, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (type < 0 || type > 2 || rows == 0 || columns == 0 || ld < (int64_t)rows)
        return INVALID;
    return MADE(layout, LAYOUT, type, rows, columns, ld, 1, 0);
}
int cublasLtMatrixLayoutSetAttribute(layout *l, int which, const void *value, size_t n)
{
    if (l->magic != LAYOUT || !((which == 5 && n == 4) || (which == 6 && n == 8)))
        return INVALID;
    if (which == 5)
        l->batch = *(const int32_t *)value;
    else
        l->offset = *(const int64_t *)value;
    return FINE;
}
int cublasLtMatrixLayoutDestroy(layout *l) { return destroyed(&l->magic, LAYOUT); }

int cublasLtMatmulPreferenceCreate(preference **found) { return MADE(preference, PREFERENCE, 0, 7, {256, 256, 256, 256}); }
int cublasLtMatmulPreferenceSetAttribute(preference *p, int which, const void *value, size_t n)
{
    if (p->magic != PREFERENCE || n != (which == 1 ? 8u : 4u))
        return INVALID;
    if (which == 1)
        p->workspace = *(const uint64_t *)value;
    else if (which == 3)
        p->reductions = *(const uint32_t *)value;
    else if (which >= 5 && which <= 8)
        p->aligned[which - 5] = *(const uint32_t *)value;
    else
        return INVALID;
    return FINE;
}
int cublasLtMatmulPreferenceDestroy(preference *p) { return destroyed(&p->magic, PREFERENCE); }

/* Whether these fit together. */
static int fits(const handle *h, const desc *d, const layout *a, const layout *b, const layout *c, const layout *out)
{
    if (h->magic != HANDLE || d->magic != DESC || a->magic != LAYOUT || b->magic != LAYOUT || c != out)
        return 0;
    uint64_t m = d->transposed[0] ? a->columns : a->rows, inner = d->transposed[0] ? a->rows : a->columns;
    uint64_t n = d->transposed[1] ? b->rows : b->columns, other = d->transposed[1] ? b->columns : b->rows;
    int compute = out->type == 1 ? 70 : 68;
    return m == out->rows && n == out->columns && inner == other && a->type == out->type && b->type == out->type &&
           d->compute == compute && a->batch == out->batch && b->batch == out->batch &&
           (out->batch == 1 || out->offset >= out->ld * (int64_t)out->columns);
}

int cublasLtMatmulAlgoGetHeuristic(const handle *h, const desc *d, const layout *a, const layout *b, const layout *c,
                                   const layout *out, const preference *p, int wanted, heuristic *found, int *count)
{
    asked++;
    *count = 0;
    if (!fits(h, d, a, b, c, out) || p->magic != PREFERENCE || wanted < 1)
        return INVALID;
    if (out->type == 2 && p->reductions != 2) /* sums in parts are not to be rounded */
        return INVALID;
    if (d->epilogue != 1 && (d->epilogue != 4 || !d->bias || (uintptr_t)d->bias % 16))
        return INVALID;
    if (failing == CHOOSE || (failing == BIAS_OF_DOUBLES && d->epilogue == 4 && out->type == 1))
        return UNSUPPORTED;
    if (failing == NONE_FOUND)
        return FINE;
    uint64_t places = 0;
    for (int k = 0; k < 4; k++)
        places = places << 16 | p->aligned[k];
    memset(found, 0, sizeof *found);
    found->best = (algorithm){ALGORITHM, (uint64_t)d, (uint64_t)a, (uint64_t)b, (uint64_t)out, p->workspace, places, d->epilogue};
    found->workspace = p->workspace;
    *count = 1;
    return FINE;
}

static int aligned(const algorithm *best, int k, const void *place)
{
    return (uintptr_t)place % (best->places >> (16 * (3 - k)) & 0xffff) == 0;
}

int cublasLtMatmul(const handle *h, const desc *d, const void *alpha, const void *a_place, const layout *a,
                   const void *b_place, const layout *b, const void *beta, const void *c_place, const layout *c,
                   void *place, const layout *out, const algorithm *best, void *workspace, size_t size, void *stream)
{
    if (failing == MULTIPLY)
        return FAILED;
    if (!fits(h, d, a, b, c, out) || best->magic != ALGORITHM || best->what != (uint64_t)d || best->a != (uint64_t)a ||
        best->b != (uint64_t)b || best->out != (uint64_t)out || best->bias != d->epilogue)
        return INVALID;
    if (!workspace || (uintptr_t)workspace % 16 || size < best->workspace)
        return INVALID;
    if (!aligned(best, 0, a_place) || !aligned(best, 1, b_place) || !aligned(best, 2, c_place) || !aligned(best, 3, place))
        return INVALID;
    product p = {*d, *a, *b, *c, 0, 0, {a_place, b_place, c_place}, place};
    p.alpha = d->scale == 1 ? *(const double *)alpha : *(const float *)alpha;
    p.beta = d->scale == 1 ? *(const double *)beta : *(const float *)beta;
    memset(workspace, 0xff, 1 << 16); /* nobody else has it */
    multiplied++;
    static int (*begin)(void *, void (*)(const void *), const void *, size_t);
    void *driver = begin ? 0 : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (driver)
        begin = dlsym(driver, "stub_begin");
    if (begin)
        return begin(stream, multiply, &p, sizeof p);
    multiply(&p);
    return FINE;
}
