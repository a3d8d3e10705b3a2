#include <cstdio>
#include <cstdlib>
#include <exception>

#include "harness.h"

namespace {
int argument_value = 0;
}

namespace harness {

std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

int argument() { return argument_value; }

}  // namespace harness

int main(int argc, char** argv) {
    if (argc > 1) argument_value = std::atoi(argv[1]);
    int failed = 0;
    for (const harness::Case& one : harness::cases()) {
        try {
            one.body();
            std::printf("ok %s\n", one.name);
        } catch (const std::exception& error) {
            std::printf("FAILED %s: %s\n", one.name, error.what());
            ++failed;
        }
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
