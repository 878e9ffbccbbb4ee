// Every function of bmi.h with its failures and its edges, within one process.

#include "check.h"

#define NAME "memory://everything"

static bmi_context_id context;
static BMI_addr_t server, client;

static int test(bmi_op_id_t id, bmi_error_code_t *error)
{
    int count = -1;
    bmi_size_t size;
    return BMI_test(id, &count, error, &size, NULL, 0, context);
}

static void before(void)
{
    bmi_op_id_t id;
    CHECK(BMI_open_context(&context) == -BMI_ENETDOWN);
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == -BMI_ENETDOWN);
    CHECK(BMI_post_send(&id, 1, "", 0, BMI_EXT_ALLOC, 0, NULL, 1, NULL) == -BMI_ENETDOWN);
    CHECK(strstr(BMI_words(), "BMI_initialize"));
    CHECK(BMI_finalize() == -BMI_ENETDOWN);
    CHECK(BMI_initialize("bmi_tcp", NULL, 0) == -BMI_ENOPROTOOPT);
    CHECK(BMI_initialize(NULL, NULL, BMI_INIT_SERVER) == -BMI_EINVAL);
    CHECK(BMI_initialize("bmi_fec", NULL, 0) == -BMI_EDEVINIT && strstr(BMI_words(), "BMI_CONFIG"));
    CHECK(BMI_initialize(NULL, "memory://", BMI_INIT_SERVER) == -BMI_EINVAL);
    CHECK(BMI_initialize("bmi_memory", NAME, BMI_INIT_SERVER | BMI_TCP_BIND_SPECIFIC) == 0);
    CHECK(BMI_get_info(0, BMI_CHECK_INIT, NULL) == 0);
    CHECK(BMI_open_context(NULL) == -BMI_EINVAL && BMI_open_context(&context) == 0);
}

static void addresses(void)
{
    BMI_addr_t again;
    CHECK(BMI_addr_lookup(&server, "everything") == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&server, NULL) == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&server, "tcp://everything:3334") == -BMI_ENOPROTOOPT);
    CHECK(BMI_addr_lookup(&server, "memory://") == -BMI_EADDRNTFD);
    CHECK(BMI_addr_lookup(&server, NAME) == 0 && server > 0);
    CHECK(BMI_addr_lookup(&again, NAME) == 0 && again == server);
    CHECK(!strcmp(BMI_addr_rev_lookup(server), NAME));
    CHECK(BMI_addr_rev_lookup(server + 1) == NULL && BMI_addr_rev_lookup(0) == NULL);
    CHECK(BMI_query_addr_range(server, "memory://every*", 0) == 1);
    CHECK(BMI_query_addr_range(server, "memory://nothing", 0) == 0);
    CHECK(BMI_query_addr_range(server, "nothing", 0) == -BMI_EINVAL);
    CHECK(BMI_query_addr_range(server + 1, NAME, 0) == -BMI_EINVAL);
}

static void unexpected(void)
{
    bmi_op_id_t id;
    int count = -1;
    struct BMI_unexpected_info info;
    CHECK(BMI_testunexpected(1, &count, &info, 0) == 0 && count == 0);
    CHECK(BMI_testunexpected(1, &count, &info, -1) == -BMI_EINVAL);
    CHECK(BMI_testunexpected(0, &count, NULL, 0) == 0 && BMI_testunexpected(1, &count, NULL, 0) == -BMI_EINVAL);
    int posted = BMI_post_sendunexpected(&id, server, "hello", 5, BMI_EXT_ALLOC, -7, &id, context, NULL);
    finish(posted, id, 5, &id, context);
    posted = BMI_post_sendunexpected(&id, server, NULL, 0, BMI_EXT_ALLOC, 8, &id, context, NULL);
    finish(posted, id, 0, &id, context);
    CHECK(BMI_testunexpected(1, &count, &info, LONG) == 1 && count == 1);
    CHECK(info.error_code == 0 && info.size == 5 && info.tag == -7 && !memcmp(info.buffer, "hello", 5));
    CHECK(BMI_unexpected_free(info.addr, info.buffer) == 0);
    CHECK(BMI_testunexpected(1, &count, &info, LONG) == 1 && info.size == 0 && info.buffer != NULL);
    CHECK(BMI_unexpected_free(info.addr, info.buffer) == 0);
    client = info.addr;
    CHECK(client != server && strstr(BMI_addr_rev_lookup_unexpected(client), NAME));
    int most = 0;
    CHECK(BMI_get_info(server, BMI_GET_UNEXP_SIZE, &most) == 0 && most >= 4096);
    char *large = calloc(1, (size_t)most + 1);
    CHECK(BMI_post_sendunexpected(&id, server, large, most + 1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EMSGSIZE);
    free(large);
}

static void arguments(void)
{
    bmi_op_id_t id = 7;
    char byte = 0;
    const void *const two[] = {&byte, &byte};
    const bmi_size_t sizes[] = {1, 1};
    CHECK(BMI_post_send(&id, server, NULL, 1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(&id, server, &byte, -1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(&id, server + 99, &byte, 1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL && id == 0);
    CHECK(BMI_post_send(&id, server, &byte, 1, BMI_EXT_ALLOC, 0, NULL, context + 1, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send(NULL, server, &byte, 1, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send_list(&id, server, two, sizes, 2, 3, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send_list(&id, server, two, sizes, -1, 2, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    CHECK(BMI_post_send_list(&id, server, NULL, NULL, 2, 2, BMI_EXT_ALLOC, 0, NULL, context, NULL) == -BMI_EINVAL);
    bmi_error_code_t error;
    CHECK(test(12345, &error) == -BMI_EINVAL && BMI_cancel(12345, context) == -BMI_EINVAL);
    CHECK(BMI_testcontext(1, &id, NULL, &error, NULL, NULL, 0, context) == -BMI_EINVAL);
    int count = -1;
    CHECK(BMI_testcontext(1, &id, &count, &error, NULL, NULL, 0, context + 1) == -BMI_EINVAL && count == 0);
    CHECK(BMI_testcontext(1, &id, &count, &error, NULL, NULL, 0, context) == 0);
    bmi_op_id_t none[] = {0, 12345};
    CHECK(BMI_testsome(2, none, &count, NULL, NULL, NULL, NULL, LONG, context) == 0 && count == 0);
    CHECK(BMI_memalloc(server, 0, BMI_SEND) == NULL && BMI_memalloc(server, -1, BMI_SEND) == NULL);
    CHECK(BMI_memalloc(server, INT64_MAX, BMI_SEND) == NULL);
    BMI_close_context(context + 1);
}

// A message that is longer than its receive fails there, and for its sender if it was not complete before.
static void too_long(void)
{
    static char large[100000], room[100000];
    bmi_op_id_t send, receive;
    bmi_error_code_t error = 0;
    bmi_size_t actual = -1;
    CHECK(BMI_post_send(&send, server, large, sizeof large, BMI_EXT_ALLOC, 1, NULL, context, NULL) == 0);
    int posted = BMI_post_recv(&receive, client, room, sizeof large - 1, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL);
    CHECK(posted == -BMI_EMSGSIZE && strstr(BMI_words(), "100000"));
    CHECK(test(send, &error) == 1 && error == -BMI_EMSGSIZE);
    CHECK(BMI_post_send(&send, server, large, 10, BMI_EXT_ALLOC, 1, NULL, context, NULL) == 1 && send == 0);
    posted = BMI_post_recv(&receive, client, room, 9, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL);
    CHECK(posted == -BMI_EMSGSIZE && actual == -1);
    CHECK(BMI_post_send(&send, server, large, 10, BMI_EXT_ALLOC, 1, NULL, context, NULL) == 1);
    CHECK(BMI_post_recv(&receive, client, room, 11, &actual, BMI_EXT_ALLOC, 1, NULL, context, NULL) == 1 && actual == 10);
}

// A short message is the caller's again when it is posted; a receive is filled in place.
static void buffers_are_mine_again(void)
{
    char word[] = "first", room[6] = "";
    bmi_op_id_t id;
    bmi_size_t actual;
    CHECK(BMI_post_send(&id, server, word, 6, BMI_EXT_ALLOC, 2, NULL, context, NULL) == 1);
    memcpy(word, "other", 6);
    CHECK(BMI_post_recv(&id, client, room, 6, &actual, BMI_EXT_ALLOC, 2, NULL, context, NULL) == 1);
    CHECK(actual == 6 && !strcmp(room, "first"));
}

static void other_contexts(void)
{
    bmi_context_id other;
    bmi_op_id_t ids[2];
    bmi_error_code_t error;
    int count;
    static char room[50000], large[50000];
    CHECK(BMI_open_context(&other) == 0 && other != context);
    CHECK(BMI_post_recv(&ids[0], client, room, 10, NULL, BMI_EXT_ALLOC, 3, NULL, other, NULL) == 0);
    CHECK(test(ids[0], &error) == -BMI_EINVAL && BMI_cancel(ids[0], context) == -BMI_EINVAL);
    CHECK(BMI_cancel(ids[0], other) == 0 && BMI_cancel(ids[0], other) == 0);
    CHECK(BMI_testcontext(9, ids, &count, &error, NULL, NULL, 0, context) == 0 && count == 0);
    CHECK(BMI_testcontext(9, ids, &count, &error, NULL, NULL, 0, other) == 1 && error == -BMI_ECANCEL);
    // Closing cancels what is pending, on both sides, and gives its memory back.
    CHECK(BMI_post_recv(&ids[0], client, room, 10, NULL, BMI_EXT_ALLOC, 3, NULL, other, NULL) == 0);
    CHECK(BMI_post_send(&ids[1], server, large, sizeof large, BMI_EXT_ALLOC, 4, NULL, other, NULL) == 0);
    BMI_close_context(other);
    memset(room, 1, sizeof room);
    memset(large, 1, sizeof large);
    CHECK(BMI_testcontext(9, ids, &count, &error, NULL, NULL, 0, other) == -BMI_EINVAL);
}

static void options(void)
{
    int size = 0;
    CHECK(BMI_get_info(0, BMI_CHECK_MAXSIZE, &size) == 0 && size > 1 << 20);
    CHECK(BMI_get_info(server, BMI_CHECK_MAXSIZE, &size) == 0 && BMI_get_info(0, BMI_GET_UNEXP_SIZE, &size) == 0);
    CHECK(BMI_get_info(0, BMI_CHECK_MAXSIZE, NULL) == -BMI_EINVAL);
    CHECK(BMI_get_info(server + 99, BMI_CHECK_MAXSIZE, &size) == -BMI_EINVAL);
    const int not_got[] = {BMI_DROP_ADDR, BMI_GET_METH_ADDR, BMI_INC_ADDR_REF, BMI_DROP_ADDR_QUERY, 0, 99};
    for (size_t i = 0; i < sizeof not_got / sizeof *not_got; i++)
        CHECK(BMI_get_info(server, not_got[i], &size) == -BMI_ENOSYS);
    const int not_set[] = {BMI_CHECK_INIT, BMI_TRUSTED_CONNECTION, BMI_TCP_BUFFER_SEND_SIZE, BMI_TCP_BUFFER_RECEIVE_SIZE,
                           BMI_TCP_CLOSE_SOCKET, BMI_TCP_CHECK_UNEXPECTED, BMI_ZOID_POST_TIMEOUT, 0, 99};
    for (size_t i = 0; i < sizeof not_set / sizeof *not_set; i++)
        CHECK(BMI_set_info(server, not_set[i], &size) == -BMI_ENOSYS);
    struct bmi_optimistic_buffer_info info = {&size, sizeof size, BMI_IO_READ};
    CHECK(BMI_set_info(0, BMI_OPTIMISTIC_BUFFER_REG, &info) == 0);
    CHECK(BMI_set_info(0, BMI_FORCEFUL_CANCEL_MODE, NULL) == 0);
}

static void dropped(void)
{
    bmi_op_id_t id;
    bmi_error_code_t error = 0;
    char byte;
    // It was looked up twice; the connection keeps it, too.
    CHECK(BMI_set_info(server, BMI_INC_ADDR_REF, NULL) == 0);
    for (int i = 0; i < 3; i++) CHECK(BMI_set_info(server, BMI_DEC_ADDR_REF, NULL) == 0);
    CHECK(!strcmp(BMI_addr_rev_lookup(server), NAME));
    CHECK(BMI_post_recv(&id, server, &byte, 1, NULL, BMI_EXT_ALLOC, 5, NULL, context, NULL) == 0);
    CHECK(BMI_set_info(server, BMI_DROP_ADDR, NULL) == 0);
    CHECK(test(id, &error) == 1 && error == -BMI_ECANCEL);
    CHECK(BMI_addr_rev_lookup(server) == NULL && BMI_set_info(server, BMI_DROP_ADDR, NULL) == -BMI_EINVAL);
    CHECK(BMI_addr_lookup(&server, NAME) == 0);
    // Nobody is there: the first operation finds out, and fails when it is tested.
    BMI_addr_t nobody;
    CHECK(BMI_addr_lookup(&nobody, "memory://nobody") == 0);
    CHECK(BMI_post_sendunexpected(&id, nobody, "", 0, BMI_EXT_ALLOC, 0, NULL, context, NULL) == 0);
    CHECK(test(id, &error) == 1 && error == -BMI_ECONNRESET && strstr(BMI_words(), "memory://nobody"));
}

int main(void)
{
    before();
    addresses();
    unexpected();
    arguments();
    too_long();
    buffers_are_mine_again();
    other_contexts();
    options();
    dropped();
    // Whoever initializes it again shares it, until all have finalized it.
    CHECK(BMI_initialize(NULL, NULL, 0) == 0 && BMI_finalize() == 0);
    CHECK(!strcmp(BMI_addr_rev_lookup(server), NAME));
    CHECK(BMI_finalize() == 0 && BMI_addr_rev_lookup(server) == NULL);
    CHECK(BMI_initialize(NULL, NAME, BMI_INIT_SERVER) == 0 && BMI_finalize() == 0);
    puts("all of it holds");
    return 0;
}
