// A process whose memory is used up while it takes unexpected messages.

#include "check.h"

#define NAME "memory://scarce"

enum { MESSAGES = 5, SIZE = 4099 };

// How many more messages there is memory for; less than none is no limit.
static int left = -1;

void *__libc_malloc(size_t size);

// Only the copy of a message has this size, so that everything else goes on.
void *malloc(size_t size)
{
    if (size != SIZE || left < 0) return __libc_malloc(size);
    if (left == 0) return NULL;
    left--;
    return __libc_malloc(size);
}

static int next;

static void take(int count, const struct BMI_unexpected_info *infos)
{
    for (int i = 0; i < count; i++) {
        CHECK(infos[i].error_code == 0 && infos[i].tag == next && infos[i].size == SIZE);
        CHECK(is_filled(infos[i].buffer, SIZE, next));
        CHECK(BMI_unexpected_free(infos[i].addr, infos[i].buffer) == 0);
        next++;
    }
}

int main(void)
{
    bmi_context_id context;
    BMI_addr_t server;
    static char bytes[SIZE];
    struct BMI_unexpected_info infos[MESSAGES];
    int count = -1;
    CHECK(BMI_initialize("bmi_memory", NAME, BMI_INIT_SERVER) == 0);
    CHECK(BMI_open_context(&context) == 0 && BMI_addr_lookup(&server, NAME) == 0);
    for (int tag = 0; tag < MESSAGES; tag++) {
        bmi_op_id_t id;
        fill(bytes, SIZE, tag);
        int posted = BMI_post_sendunexpected(&id, server, bytes, SIZE, BMI_EXT_ALLOC, tag, &id, context, NULL);
        CHECK(finish(posted, id, SIZE, &id, context) == SIZE);
    }
    left = 2;
    CHECK(BMI_testunexpected(MESSAGES, &count, infos, LONG) == 1 && count == 2);
    take(count, infos);
    CHECK(BMI_testunexpected(MESSAGES, &count, infos, LONG) == -BMI_ENOMEM && count == 0);
    left = 1;
    CHECK(BMI_testunexpected(2, &count, infos, LONG) == 1 && count == 1);
    take(count, infos);
    left = -1;
    CHECK(BMI_testunexpected(MESSAGES, &count, infos, LONG) == 1 && count == 2);
    take(count, infos);
    CHECK(next == MESSAGES);
    CHECK(BMI_testunexpected(MESSAGES, &count, infos, 0) == 0 && count == 0);
    CHECK(BMI_finalize() == 0);
    puts("all of it holds");
    return 0;
}
