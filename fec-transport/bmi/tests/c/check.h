// What the programs of the tests share.

#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bmi.h"

static inline void check_at(const char *file, int line, int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "%s:%d: %s does not hold; last: %s\n", file, line, what, BMI_words());
    exit(1);
}

#define CHECK(condition) check_at(__FILE__, __LINE__, !!(condition), #condition)

// Milliseconds after which nothing is expected any more; no test waits so long for what comes.
enum { LONG = 300000 };

// Waits for an operation that was posted; gives the size of its message.
static inline bmi_size_t finish(int posted, bmi_op_id_t id, bmi_size_t size, void *user, bmi_context_id context)
{
    CHECK(posted >= 0);
    if (posted == 1) return size;
    int count = 0;
    bmi_error_code_t error = -1;
    void *its_user = NULL;
    CHECK(BMI_test(id, &count, &error, &size, &its_user, LONG, context) == 1);
    CHECK(count == 1 && error == 0 && its_user == user);
    return size;
}

// Bytes that tell where in which message they are.
static inline void fill(char *bytes, bmi_size_t size, int seed)
{
    for (bmi_size_t i = 0; i < size; i++) bytes[i] = (char)(i * 31 + i / 251 + seed);
}

static inline int is_filled(const char *bytes, bmi_size_t size, int seed)
{
    for (bmi_size_t i = 0; i < size; i++)
        if (bytes[i] != (char)(i * 31 + i / 251 + seed)) return 0;
    return 1;
}

#endif // CHECK_H
