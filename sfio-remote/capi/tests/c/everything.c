// Every function of sfio.h once, with its failures.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mio.h"

#define NAME "t0-p1,/tmp/e.dat; t0-p2, /tmp/e.dat"

static void check_at(int line, int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "everything.c:%d: %s does not hold; last: %s\n", line, what, m_strerror(m_errno()));
    exit(1);
}

#define CHECK(condition) check_at(__LINE__, !!(condition), #condition)

static void blocks(MFILE *f)
{
    char one[] = "one", two[] = "twotwo", three[] = "!";
    const int64_t offsets[] = {100, 3, 102};
    char *const buffers[] = {one, two, three};
    const unsigned sizes[] = {3, 6, 1};
    CHECK(mwriteb(f, 3, offsets, buffers, sizes) == 0);
    char back[3][8];
    char *const into[] = {back[0], back[1], back[2]};
    CHECK(mreadb(f, 3, offsets, into, sizes) == 0);
    CHECK(!memcmp(back[0], "on!", 3) && !memcmp(back[1], two, 6) && back[2][0] == '!');
    CHECK(mwrite(f, 20, "stripe by stripe", 16) == 0);
    char single[16];
    CHECK(mread(f, 20, single, 16) == 0 && !memcmp(single, "stripe by stripe", 16));
    CHECK(mreadc(f, 20, single, 16) == 0 && !memcmp(single, "stripe by stripe", 16));
    CHECK(mreadc(f, 98, single, 16) == M_ERR_EOF && !memcmp(single + 2, "on!", 3));
}

static void requests(MFILE *f)
{
    enum { COUNT = 8, SIZE = 100000 };
    static char data[COUNT][SIZE], back[COUNT][SIZE];
    MREQUEST *pending[COUNT];
    unsigned size = SIZE;
    for (int i = 0; i < COUNT; i++) {
        memset(data[i], 'a' + i, SIZE);
        int64_t offset = (int64_t)i * SIZE;
        char *const buffer = data[i];
        pending[i] = m_isubmit(f, M_WRITE, 1, &offset, &buffer, &size);
        CHECK(pending[i]);
    }
    int results[COUNT];
    for (unsigned done = 0, some, indices[COUNT]; done < COUNT; done += some) {
        CHECK(m_testsome(COUNT, pending, &some, indices, results) == 0);
        for (unsigned i = 0; i < some; i++)
            CHECK(results[i] == 0 && pending[indices[i]] == NULL);
    }
    for (int i = 0; i < COUNT; i++) {
        int64_t offset = (int64_t)i * SIZE;
        char *const buffer = back[i];
        pending[i] = m_isubmit(f, M_READ, 1, &offset, &buffer, &size);
        CHECK(pending[i]);
    }
    int done = 0;
    while (!done)
        CHECK(m_test(&pending[0], &done) == 0);
    for (int i = 1; i < COUNT; i++)
        CHECK(m_wait(&pending[i]) == 0 && pending[i] == NULL);
    CHECK(!memcmp(data, back, sizeof data));
    CHECK(m_wait(&pending[0]) == M_ERR_ARGUMENT);

    enum { MUCH = 64 << 20 };
    char *const much = calloc(MUCH, 1);
    int64_t zero = 0;
    unsigned much_size = MUCH;
    MREQUEST *cancelled = m_isubmit(f, M_WRITE, 1, &zero, &much, &much_size);
    CHECK(cancelled && m_cancel(&cancelled) == M_ERR_CANCELLED && !cancelled);
    free(much);
}

int main(int argc, char *argv[])
{
    CHECK(argc == 2);
    CHECK(mopen(NAME, 5) == NULL && m_errno() == M_ERR_CONFIG);
    CHECK(m_init("/nowhere/config.toml") == M_ERR_CONFIG);
    CHECK(strstr(m_strerror(M_ERR_CONFIG), "/nowhere/config.toml"));
    CHECK(m_init(argv[1]) == 0);
    CHECK(mopen("t0-p1", 5) == NULL && m_errno() == M_ERR_ARGUMENT);
    CHECK(mopen(NAME, 0) == NULL && m_errno() == M_ERR_ARGUMENT);
    CHECK(mdelete(NAME) == M_ERR_NOT_FOUND);
    CHECK(mcreate(NAME) == 0);
    MFILE *f = mopen(NAME, 5);
    CHECK(f);
    blocks(f);
    int64_t length;
    int intact;
    CHECK(mchsize(f, 50) == 0 && m_check(f, &length, &intact) == 0 && length == 50 && intact == 1);
    CHECK(mchsize(f, -1) == M_ERR_ARGUMENT && mwritec(f, -1, "x", 1) == M_ERR_ARGUMENT);
    CHECK(mwritec(f, INT64_MAX, "x", 1) == M_ERR_ARGUMENT);
    CHECK(mwritec(NULL, 0, "x", 1) == M_ERR_ARGUMENT);
    // Beyond what 32 bits can say, and almost beyond what 64 can.
    char back[3];
    CHECK(mwritec(f, 5000000000, "far", 3) == 0 && mreadc(f, 5000000000, back, 3) == 0 && !memcmp(back, "far", 3));
    CHECK(mchsize(f, 0) == 0);
    requests(f);
    CHECK(msync_file(f) == 0);
    CHECK(mclose(f) == 0);
    unsigned long errors[8];
    CHECK(merror(errors) == 0 && errors[3] == 2 && errors[5] == 0);
    CHECK(merrora(errors) == 0 && errors[3] == 0);
    CHECK(prioerrora() == 0);
    CHECK(mdelete(NAME) == 0);
    CHECK(m_finalize() == 0);
    puts("all of it holds");
    return 0;
}
