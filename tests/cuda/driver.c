/* A CUDA driver without a device, for test_driver.py: memory is the host's, kernels do nothing, and what is asked for
   is counted. With it, everything above the driver runs as on a GPU. Built as libcuda.so.1. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t word;
enum { NAMES = 256, LAUNCHES = 4096, WORDS = 300 };

static const char *names[NAMES];
static long counts[NAMES];

static void count(const char *name)
{
    int k = 0;
    while (names[k] && names[k] != name)
        k++;
    names[k] = name;
    counts[k]++;
}

#define CALL count(__func__)

long stub_count(const char *name)
{
    for (int k = 0; k < NAMES && names[k]; k++)
        if (!strcmp(names[k], name))
            return counts[k];
    return 0;
}

long stub_total(void)
{
    long total = 0;
    for (int k = 0; k < NAMES; k++)
        total += counts[k];
    return total;
}

/* Launches: kernel, blocks, threads, number of words, words. */

typedef struct { char name[2000]; int words; } kernel;
typedef struct { word head[4]; word words[WORDS]; } launch;

static launch launches[LAUNCHES];
static long launched;

long stub_launched(void) { return launched; }
void stub_forget(void) { launched = 0; }
launch *stub_launch(long k) { return &launches[k]; }

static launch described(kernel *f, unsigned blocks, unsigned threads, void **words)
{
    launch found = {{(word)f, blocks, threads, f->words}, {0}};
    for (int k = 0; k < f->words; k++)
        found.words[k] = *(word *)words[k];
    return found;
}

static void start(launch found)
{
    if (launched < LAUNCHES)
        launches[launched++] = found;
}

/* What runs when it is reached in the queue: a launch of a kernel, which does nothing, or a call of a library. */

typedef void operation(const void *data);
typedef struct { launch what; operation *run; void *data; } row;
typedef struct { int n; row *rows; } graph;
typedef struct { graph *into; } queue; /* a stream, and the graph that is made of what comes to it */
enum { ROWS = 256 };

static void reach(const row *r)
{
    start(r->what);
    if (r->run)
        r->run(r->data);
}

static graph *made_graph(void)
{
    graph *made = calloc(1, sizeof *made);
    made->rows = malloc(ROWS * sizeof *made->rows);
    return made;
}

/* The device. */

static void *context;
static int any;

int cuInit(unsigned flags) { CALL; return 0; }
int cuDriverGetVersion(int *version) { CALL; *version = 13000; return 0; }
int cuDeviceGetCount(int *n) { CALL; *n = 1; return 0; }
int cuDeviceGet(int *device, int k) { CALL; *device = k; return 0; }
int cuDeviceGetName(char *name, int n, int device) { CALL; snprintf(name, n, "stub"); return 0; }
int cuDeviceGetUuid_v2(void *uuid, int device) { CALL; memset(uuid, 1, 16); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device)
{
    CALL;
    *value = which == 75 ? 9 : which == 76 ? 0 : which == 16 ? 132 : which == 1 ? 1024 : which == 10 ? 32 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **found, int device) { CALL; *found = &any; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { CALL; return 0; }
int cuCtxGetCurrent(void **found) { CALL; *found = context; return 0; }
int cuCtxSetCurrent(void *given) { CALL; context = given; return 0; }
int cuCtxPushCurrent_v2(void *given) { CALL; context = given; return 0; }
int cuCtxPopCurrent_v2(void **found) { CALL; *found = context; return 0; }
int cuCtxGetDevice(int *device) { CALL; *device = 0; return context ? 0 : 201; }
int cuCtxSynchronize(void) { CALL; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) { CALL; *free = *total = (size_t)1 << 34; return 0; }

int cuMemAlloc_v2(word *where, size_t n) { CALL; *where = (word)aligned_alloc(256, (n + 255) / 256 * 256); return 0; }
int cuMemFree_v2(word where) { CALL; free((void *)where); return 0; }
int cuMemHostAlloc(void **where, size_t n, unsigned flags) { CALL; *where = malloc(n); return 0; }
int cuMemFreeHost(void *where) { CALL; free(where); return 0; }
int cuMemcpyHtoD_v2(word to, void *from, size_t n) { CALL; memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoH_v2(void *to, word from, size_t n) { CALL; memcpy(to, (void *)from, n); return 0; }
int cuMemcpyHtoDAsync_v2(word to, void *from, size_t n, void *s) { CALL; memcpy((void *)to, from, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, word from, size_t n, void *s) { CALL; memcpy(to, (void *)from, n); return 0; }
int cuMemcpyDtoDAsync_v2(word to, word from, size_t n, void *s) { CALL; memcpy((void *)to, (void *)from, n); return 0; }

int cuStreamCreate(queue **stream, unsigned flags) { CALL; *stream = calloc(1, sizeof **stream); return 0; }
int cuStreamDestroy_v2(queue *stream) { CALL; free(stream); return 0; }
int cuStreamSynchronize(void *stream) { CALL; return 0; }
int cuStreamGetCtx(void *stream, void **found) { CALL; *found = &any; return 0; }
int cuEventCreate(void **event, unsigned flags) { CALL; *event = &any; return 0; }
int cuEventRecord(void *event, void *stream) { CALL; return 0; }
int cuEventSynchronize(void *event) { CALL; return 0; }
int cuEventQuery(void *event) { CALL; return 0; }
int cuEventDestroy_v2(void *event) { CALL; return 0; }

/* Kernels. Their names say how many arrays they take, each of seven words; numbers are not looked at. */

int cuLibraryLoadData(void **l, const void *c, int *a, void **b, unsigned n, int *o, void **v, unsigned m)
{
    CALL;
    *l = malloc(16);
    return 0;
}
int cuLibraryUnload(void *library) { CALL; return 0; }
int cuLibraryGetKernel(void **found, void *library, const char *name)
{
    CALL;
    kernel *made = calloc(1, sizeof *made);
    strncpy(made->name, name, sizeof made->name - 1);
    for (const char *at = name; (at = strstr(at, "5Array")); at += 6)
        made->words += 7;
    *found = made;
    return 0;
}
int cuKernelGetFunction(void **found, void *made) { CALL; *found = made; return 0; }
int cuKernelGetAttribute(int *value, int which, void *made, int device) { CALL; *value = 1024; return 0; }
int cuLaunchKernel(kernel *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned n,
                   void *stream, void **words, void **extra)
{
    CALL;
    reach(&(row){described(f, gx, bx, words), 0, 0});
    return gy == 1 && gz == 1 && by == 1 && bz == 1 && n == 0 && !extra ? 0 : 1;
}
int cuLaunchKernelEx(const unsigned *how, kernel *f, void **words, void **extra)
{
    CALL;
    reach(&(row){described(f, how[0], how[3], words), 0, 0});
    return 0;
}

/* Graphs: what was added, in a row. */

typedef struct {
    kernel *f;
    unsigned gx, gy, gz, bx, by, bz, shared;
    void **words, **extra;
    void *kernel_, *context_;
} node;

static int refusing;

void stub_refuse(int yes) { refusing = yes; }

int cuGraphCreate(graph **found, unsigned flags)
{
    CALL;
    *found = made_graph();
    return refusing == 1 ? 801 : 0;
}
static int follows(const graph *g, void **after, size_t n)
{
    return n == (g->n > 0) && (n == 0 || after[0] == &g->rows[g->n - 1]);
}
int cuGraphAddKernelNode_v2(void **found, graph *g, void **after, size_t n, const node *p)
{
    CALL;
    if (!follows(g, after, n) || !p->f || p->gy * p->gz * p->by * p->bz != 1)
        return 1;
    g->rows[g->n] = (row){described(p->f, p->gx, p->bx, p->words), 0, 0};
    *found = &g->rows[g->n++];
    return 0;
}
int cuGraphAddChildGraphNode(void **found, graph *g, void **after, size_t n, const graph *child)
{
    CALL;
    if (!follows(g, after, n) || child->n == 0 || refusing == 3)
        return 1;
    for (int k = 0; k < child->n; k++)
        g->rows[g->n++] = child->rows[k];
    *found = &g->rows[g->n - 1];
    return 0;
}
int cuGraphInstantiateWithFlags(void **found, graph *g, unsigned long long flags) { CALL; *found = g; return 0; }
int cuGraphDestroy(graph *g) { CALL; return 0; }
int cuGraphExecDestroy(graph *g) { CALL; free(g->rows); free(g); return 0; }
int cuGraphLaunch(graph *g, void *stream)
{
    CALL;
    if (refusing)
        return 801;
    for (int k = 0; k < g->n; k++)
        reach(&g->rows[k]);
    return 0;
}
int cuStreamBeginCapture_v2(queue *stream, int mode)
{
    CALL;
    if (stream->into || mode != 2 || refusing == 4)
        return 1;
    stream->into = made_graph();
    return 0;
}
int cuStreamEndCapture(queue *stream, graph **found)
{
    CALL;
    *found = stream->into;
    stream->into = 0;
    return *found && refusing != 5 ? 0 : 901;
}

/* For the stub of a library: run an operation on a stream, with a copy of these bytes. */

int stub_begin(queue *stream, operation *run, const void *data, size_t n)
{
    CALL;
    static kernel library = {"library", 0};
    row made = {{{(word)&library, 0, 0, 0}, {0}}, run, memcpy(malloc(n), data, n)};
    if (!stream->into)
        reach(&made);
    else
        stream->into->rows[stream->into->n++] = made;
    return 0;
}

int cuGetErrorName(int error, const char **found) { *found = "ERROR"; return 0; }
int cuGetErrorString(int error, const char **found) { *found = "an error"; return 0; }
int cuPointerGetAttribute(unsigned *found, int which, word where) { CALL; *found = 2; return 0; }
int cuPointerGetAttributes(unsigned n, int *which, void **found, word where)
{
    CALL;
    for (unsigned k = 0; k < n; k++)
        *(unsigned *)found[k] = which[k] == 2 ? 2 : 0;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, word flags, int *status)
{
    static const char *endings[] = {"_v2", "", 0};
    static void *self;
    char whole[256];
    Dl_info info;
    if (!self && dladdr((void *)cuInit, &info))
        self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *found = 0;
    for (int k = 0; endings[k] && !*found; k++) {
        snprintf(whole, sizeof whole, "%s%s", name, endings[k]);
        *found = dlsym(self, whole);
    }
    if (status)
        *status = *found ? 0 : 1;
    return *found ? 0 : 500;
}
