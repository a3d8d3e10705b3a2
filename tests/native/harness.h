// The smallest test harness: cases register themselves, a failed claim ends its case.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace harness {

struct Case {
    const char* name;
    void (*body)();
};

std::vector<Case>& cases();

struct Registered {
    Registered(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

// The program's first argument as a number; 0 without one.
int argument();

template <class A, class B>
void claim_equal(const A& got, const B& wanted, const char* text, int line) {
    if (got == wanted) return;
    std::ostringstream out;
    out << "line " << line << ": " << text << ": got " << got << ", wanted " << wanted;
    throw std::runtime_error(out.str());
}

inline void claim(bool holds, const char* text, int line) {
    if (!holds) throw std::runtime_error("line " + std::to_string(line) + ": " + text);
}

}  // namespace harness

#define CASE(name)                                                    \
    static void name();                                               \
    static const harness::Registered registered_##name(#name, &name); \
    static void name()
#define CLAIM(expression) harness::claim((expression), #expression, __LINE__)
#define EQUAL(got, wanted) harness::claim_equal((got), (wanted), #got, __LINE__)
#define THROWS(type, expression)                                       \
    do {                                                               \
        bool threw = false;                                            \
        try {                                                          \
            (void)(expression);                                        \
        } catch (const type&) {                                        \
            threw = true;                                              \
        }                                                              \
        harness::claim(threw, #expression " throws " #type, __LINE__); \
    } while (false)
