// kernels_test.cu: runs the registered tests.
//
//   kernels_test [-v] [-l] [-o order] [-f file] [-r results] [-s seconds] [part of a name]…
//
// -o has each test run in one order alone, -f those of one file; -l lists the tests, each behind its file. The last line counts;
// the status is 0 if nothing failed.
//
// A kernel that is wrong may leave the device of no use to the program, or never end. -s ends the program within a test that takes
// longer. -r adds a line of JSON to a file when a test begins, which is an error, and one when it has ended, which holds then; tests that
// the file has are not run again, but their failures count. So another run goes on with what such a test has left, and 3 is the status
// that asks for one.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>

#include "../gemm.h"
#include "harness.h"

namespace lathe::test {

struct Entry {
    const char *name, *file;
    void (*run)(Test &);
};

static std::vector<Entry> &entries() {
    static std::vector<Entry> all;
    return all;
}

Registered::Registered(const char *name, const char *file, void (*run)(Test &)) {
    const char *slash = strrchr(file, '/');
    entries().push_back({name, slash ? slash + 1 : file, run});
}

static std::string print(const char *format, va_list arguments) {
    char text[512];
    vsnprintf(text, sizeof text, format, arguments);
    return text;
}

// The test and the case that run, for the signal that ends them.
static char under_way[1024];

static void end_program(int) {
    const char *what = "FAIL: too slow: ";
    if (write(1, what, strlen(what)) < 0 || write(1, under_way, strlen(under_way)) < 0 || write(1, "\n", 1) < 0) _exit(4);
    _exit(3);
}

void Test::describe(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    case_ = print(format, arguments);
    va_end(arguments);
    if (char *rest = strchr(under_way, ':')) snprintf(rest, sizeof under_way - (rest - under_way), ": %s", case_.c_str());
}

void Test::fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (++failures_ <= 10) printf("    %s: %s\n", case_.c_str(), print(format, arguments).c_str());
    va_end(arguments);
}

bool Test::near(double got, double want, Tolerance tolerance, bool half) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    // What the twin has beyond the largest number of the type may be infinite.
    const double largest = half ? 3.3895313892515355e38 : 3.4028234663852886e38;
    if (std::isinf(got) && std::fabs(want) >= largest * (1 - tolerance.relative)) return (got > 0) == (want > 0);
    if (std::isinf(want) || std::isinf(got)) return got == want;
    return std::fabs(got - want) <= tolerance.relative * std::fabs(want) + tolerance.absolute;
}

// What a file of results says of each test: whether it succeeded.
static std::map<std::string, bool> read_results(const char *path) {
    std::map<std::string, bool> all;
    std::ifstream from(path);
    for (std::string line; std::getline(from, line);) {
        const std::string before = "{\"test\": \"";
        const size_t end = line.find('"', before.size());
        if (line.rfind(before, 0) == 0 && end != std::string::npos)
            all[line.substr(before.size(), end - before.size())] = line.find("\"error\"") == std::string::npos;
    }
    return all;
}

// Adds a line to a file of results, which is there whatever becomes of the program.
static void add_result(const char *path, const Entry &entry, const char *error, double seconds) {
    FILE *to = fopen(path, "a");
    if (to == nullptr) throw std::runtime_error(std::string("cannot write ") + path);
    fprintf(to, "{\"test\": \"%s\", \"seconds\": %.2f", entry.name, seconds);
    if (error != nullptr) fprintf(to, ", \"error\": \"%s\"", error);
    fprintf(to, "}\n");
    if (fclose(to) != 0) throw std::runtime_error(std::string("cannot write ") + path);
}

// Whether the device still answers this process: after some errors it never does.
static bool device_answers() {
#ifdef LATHE_HOST
    return true;
#else
    cudaGetLastError(); // what was told
    return cudaDeviceSynchronize() == cudaSuccess;
#endif
}

// A test's result, in each order that there is.
static bool run(const Entry &entry, const char *one_order, bool verbose) {
#ifdef LATHE_HOST
    std::vector<const char *> orders = {"ascending", "descending", "1"};
#else
    std::vector<const char *> orders = {"once", "again"};
#endif
    if (one_order != nullptr) orders = {one_order};
    int failures = 0, checks = 0;
    uint64_t digest = 0;
    auto begin = std::chrono::steady_clock::now();
    for (const char *order : orders) {
#ifdef LATHE_HOST
        setenv("LATHE_HOST_ORDER", order, 1);
#endif
        Test t;
        // A test that was ended by an exception may have left them otherwise.
        use_path(ProductPath::mma);
        force_tile(-1);
        CHECK(cudaStreamCreateWithFlags(&t.stream, cudaStreamDefault));
        try {
            entry.run(t);
        } catch (const std::exception &e) {
            t.fail("%s", e.what());
#ifdef LATHE_HOST
            host::reset();
#endif
        }
        cudaStreamDestroy(t.stream);
        if (order != orders[0] && failures == 0 && t.failures() == 0 && t.digest() != digest)
            t.fail("other bits in the order \"%s\" than in the order \"%s\"", order, orders[0]);
        failures += t.failures();
        checks += t.checks();
        digest = t.digest();
        if (failures > 0) break;
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (failures > 0 || verbose) printf("%s %s: %d results, %.2f s\n", failures > 0 ? "FAIL" : "ok  ", entry.name, checks, seconds);
    return failures == 0;
}

} // namespace lathe::test

int main(int argc, char **argv) {
    using namespace lathe::test;
    setvbuf(stdout, nullptr, _IOLBF, 0);
    bool verbose = false, list = false;
    const char *order = nullptr, *file = nullptr, *results = nullptr;
    unsigned limit = 0;
    std::vector<const char *> names;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-v") == 0) verbose = true;
        else if (strcmp(argv[i], "-l") == 0) list = true;
        else if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) order = argv[++i];
        else if (strcmp(argv[i], "-f") == 0 && i + 1 < argc) file = argv[++i];
        else if (strcmp(argv[i], "-r") == 0 && i + 1 < argc) results = argv[++i];
        else if (strcmp(argv[i], "-s") == 0 && i + 1 < argc) limit = static_cast<unsigned>(atoi(argv[++i]));
        else names.push_back(argv[i]);
    }
    signal(SIGALRM, end_program);
    int ran = 0, failed = 0;
    bool answers = true;
    try {
        const std::map<std::string, bool> have = results != nullptr ? read_results(results) : std::map<std::string, bool>{};
        for (const Entry &entry : entries()) {
            bool named = names.empty();
            for (const char *name : names) named |= strstr(entry.name, name) != nullptr;
            if (!named || (file != nullptr && strcmp(entry.file, file) != 0)) continue;
            ran++;
            if (list) {
                printf("%s %s\n", entry.file, entry.name);
                continue;
            }
            if (auto at = have.find(entry.name); at != have.end()) {
                if (!at->second) printf("FAIL %s: before, in %s\n", entry.name, results);
                failed += !at->second;
                continue;
            }
            CHECK(cudaFree(nullptr)); // a device that is not there is no test's fault
            if (results != nullptr) add_result(results, entry, "it ended the program, or was ended with it", 0);
            auto begin = std::chrono::steady_clock::now();
            snprintf(under_way, sizeof under_way, "%s:", entry.name);
            alarm(limit); // none if it is 0
            const bool succeeded = run(entry, order, verbose);
            answers = succeeded || device_answers();
            alarm(0);
            const char *error = succeeded ? nullptr : answers ? "it failed" : "it failed, and left the device of no use to the program";
            if (results != nullptr)
                add_result(results, entry, error, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
            failed += !succeeded;
            if (!answers) break;
        }
    } catch (const std::exception &e) {
        fprintf(stderr, "kernels_test: %s\n", e.what());
        return 2;
    }
    if (list) return ran == 0;
    if (!answers) {
        printf("%d tests, %d failed; the device is of no more use to this process, and another one may go on\n", ran, failed);
        return 3;
    }
#ifdef LATHE_HOST
    lathe::host::Live left = lathe::host::live();
    if (left.device_buffers + left.host_buffers + left.streams + left.events + left.graphs > 0) {
        printf("left over: %zu device buffers of %zu bytes, %zu pinned buffers, %zu streams, %zu events, %zu graphs\n", left.device_buffers,
               left.device_bytes, left.host_buffers, left.streams, left.events, left.graphs);
        failed++;
    }
#endif
    printf("%d tests, %d failed\n", ran, failed);
    return failed > 0 || ran == 0;
}
