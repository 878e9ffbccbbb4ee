// A parallel program of several processes that write one file together. Its arguments: the folder where the ranks meet,
// the rank, how many there are, the rank that is killed at the end, and this machine's address if the ranks may be on
// several machines.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "mio.h"

#define NAME "t0-p1,/tmp/g.dat;t0-p2,/tmp/g.dat"

enum { RECORDS = 50, RECORD = 8 };

static int rank, size;

static void check_at(int line, int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "together.c:%d: rank %d: %s does not hold; last: %s\n", line, rank, what, m_strerror(m_errno()));
    exit(1);
}

#define CHECK(condition) check_at(__LINE__, !!(condition), #condition)

// Record i of the file is of rank i modulo the number of ranks, and full of that rank's letter.
static int records_of(int of, int64_t *offsets, char data[][RECORD], char **buffers, unsigned *sizes)
{
    for (int i = 0; i < RECORDS; i++) {
        offsets[i] = (int64_t)(i * size + of) * RECORD;
        memset(data[i], 'a' + of, RECORD);
        buffers[i] = data[i];
        sizes[i] = RECORD;
    }
    return RECORDS;
}

static void write_and_read(MFILE *f)
{
    static int64_t offsets[RECORDS];
    static char data[RECORDS][RECORD], expected[RECORDS][RECORD];
    static char *buffers[RECORDS];
    static unsigned sizes[RECORDS];
    CHECK(mwriteb_all(f, records_of(rank, offsets, data, buffers, sizes), offsets, buffers, sizes) == 0);
    // What the next rank has written is there, whoever that was.
    int next = (rank + 1) % size;
    records_of(next, offsets, expected, buffers, sizes);
    for (int i = 0; i < RECORDS; i++)
        buffers[i] = data[i];
    CHECK(mreadb_all(f, RECORDS, offsets, buffers, sizes) == 0);
    CHECK(!memcmp(data, expected, sizeof data));
    // One rank has nothing to write; another one reads beyond the end.
    CHECK(mwriteb_all(f, rank == 0 ? 0 : 1, offsets, buffers, sizes) == 0);
    offsets[0] = rank == 1 ? 1 << 20 : 0;
    CHECK(mreadb_all(f, 1, offsets, buffers, sizes) == (rank == 1 ? M_ERR_EOF : 0));
}

static int join(const char *host, const char *folder)
{
    return host ? m_group_at(host, folder, rank, size, 30000) : m_group(folder, rank, size, 30000);
}

int main(int argc, char *argv[])
{
    CHECK(argc == 5 || argc == 6);
    const char *host = argc == 6 ? argv[5] : NULL;
    const char *folder = argv[1];
    rank = atoi(argv[2]);
    size = atoi(argv[3]);
    int victim = atoi(argv[4]);
    CHECK(m_group(NULL, rank, size, 30000) == M_ERR_ARGUMENT);
    CHECK(m_group(folder, size, size, 30000) == M_ERR_ARGUMENT);
    CHECK(m_group_at("localhost", folder, rank, size, 30000) == M_ERR_ARGUMENT);
    CHECK(join(host, folder) == 0);
    CHECK(mcreate(NAME) == 0);
    MFILE *f = mopen(NAME, 64);
    CHECK(f);
    write_and_read(f);
    CHECK(mchsize(f, RECORDS * RECORD * size) == 0);
    // A rank that cuts the file elsewhere is told, and so are the others; nothing was cut.
    CHECK(mchsize(f, rank == 1 ? 6 : 5) == M_ERR_OTHER_CALL);
    CHECK(strstr(m_strerror(M_ERR_OTHER_CALL), "to 5") && strstr(m_strerror(M_ERR_OTHER_CALL), "to 6"));
    int64_t length;
    CHECK(m_check(f, &length, NULL) == 0 && length == RECORDS * RECORD * size);
    CHECK(msync_file(f) == 0);
    CHECK(mclose(f) == 0);
    unsigned long errors[8];
    CHECK(merrora(errors) == 0 && errors[0] == 0);
    CHECK(prioerrora() == 0);

    // A file of the process's own, among others that are the group's.
    CHECK(m_group(NULL, 0, 1, 0) == 0);
    f = mopen(NAME, 64);
    CHECK(f && mwriteb_all(f, 0, NULL, NULL, NULL) == M_ERR_ARGUMENT);
    CHECK(mclose(f) == 0);

    CHECK(join(host, folder) == 0);
    f = mopen(NAME, 64);
    CHECK(f);
    if (rank == victim)
        raise(SIGKILL);
    int64_t zero = 0;
    char *const nothing = "";
    unsigned none = 0;
    time_t began = time(NULL);
    CHECK(mwriteb_all(f, 1, &zero, &nothing, &none) == M_ERR_GROUP);
    printf("rank %d: told after %d s\n", rank, (int)(time(NULL) - began));
    CHECK(strstr(m_strerror(M_ERR_GROUP), "was lost"));
    CHECK(mclose(f) == M_ERR_GROUP);
    printf("rank %d: all of it holds\n", rank);
    return 0;
}
