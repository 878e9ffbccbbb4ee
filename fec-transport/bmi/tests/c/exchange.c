// A server and its clients, with BMI's calls only: exchange ADDRESS server|client|both. What the network is, is told by the
// address alone.

#include <pthread.h>

#include "check.h"

enum what { ECHO = 1, PUT, GET, MANY, STOP };

struct request {
    int32_t what;
    bmi_msg_tag_t tag;
    bmi_size_t size;
};

#ifndef CLIENTS
#define CLIENTS 3
#endif
// Bytes of a long message: more than travel before their receive is known.
#ifndef LONG_SIZE
#define LONG_SIZE 400000
#endif

enum { MESSAGES = 20, ROOM = 8000, TAGS = 1000 };

static const char *address;

// --- the server --------------------------------------------------------------------------------------------------

struct server {
    bmi_context_id context;
    char bytes[LONG_SIZE];
};

static void reply(struct server *server, const struct BMI_unexpected_info *info, const void *bytes, bmi_size_t size)
{
    bmi_op_id_t id;
    int posted = BMI_post_send(&id, info->addr, bytes, size, BMI_EXT_ALLOC, info->tag, server, server->context, NULL);
    CHECK(finish(posted, id, size, server, server->context) == size);
}

// Receives a long message in three pieces, and says that it is right.
static void take(struct server *server, const struct BMI_unexpected_info *info, bmi_size_t size)
{
    void *const pieces[] = {server->bytes, server->bytes + 1, server->bytes + size / 2};
    const bmi_size_t sizes[] = {1, size / 2 - 1, LONG_SIZE - size / 2};
    bmi_size_t actual = -1;
    bmi_op_id_t id;
    memset(server->bytes, 0, sizeof server->bytes);
    int posted = BMI_post_recv_list(&id, info->addr, pieces, sizes, 3, LONG_SIZE, &actual, BMI_EXT_ALLOC, info->tag + 1,
                                    info->buffer, server->context, NULL);
    CHECK(finish(posted, id, actual, info->buffer, server->context) == size);
    CHECK(is_filled(server->bytes, size, info->tag));
    reply(server, info, "right", 5);
}

// Sends a long message that lies in four pieces.
static void give(struct server *server, const struct BMI_unexpected_info *info, bmi_size_t size)
{
    fill(server->bytes, size, info->tag);
    const void *const pieces[] = {server->bytes, NULL, server->bytes + 10, server->bytes + size - 1};
    const bmi_size_t sizes[] = {10, 0, size - 11, 1};
    bmi_op_id_t id;
    int posted = BMI_post_send_list(&id, info->addr, pieces, sizes, 4, size, BMI_EXT_ALLOC, info->tag + 1, NULL,
                                    server->context, NULL);
    finish(posted, id, size, NULL, server->context);
}

// Sends many messages at once, short and long ones in turn, the last tag first.
static void give_many(struct server *server, const struct BMI_unexpected_info *info)
{
    int pending = 0;
    fill(server->bytes, LONG_SIZE, 0);
    for (int i = MESSAGES - 1; i >= 0; i--) {
        bmi_op_id_t id;
        bmi_size_t size = i % 2 ? LONG_SIZE / MESSAGES * i : i;
        int posted = BMI_post_send(&id, info->addr, server->bytes, size, BMI_EXT_ALLOC, info->tag + 2 + i, NULL,
                                   server->context, NULL);
        CHECK(posted >= 0);
        pending += posted == 0;
    }
    while (pending > 0) {
        int count;
        bmi_op_id_t ids[4];
        bmi_error_code_t errors[4];
        bmi_size_t sizes[4];
        CHECK(BMI_testcontext(4, ids, &count, errors, sizes, NULL, LONG, server->context) == 1);
        for (int i = 0; i < count; i++) CHECK(errors[i] == 0);
        pending -= count;
    }
}

// Does what is asked; whether more may come.
static int serve(struct server *server, const struct BMI_unexpected_info *info)
{
    struct request request;
    CHECK(info->error_code == 0 && info->size >= (bmi_size_t)sizeof request);
    memcpy(&request, info->buffer, sizeof request);
    CHECK(request.tag == info->tag);
    const char *from = BMI_addr_rev_lookup_unexpected(info->addr);
    CHECK(from != NULL && strlen(from) < BMI_MAX_ADDR_LEN);
    switch (request.what) {
    case ECHO: reply(server, info, (char *)info->buffer + sizeof request, info->size - (bmi_size_t)sizeof request); break;
    case PUT: take(server, info, request.size); break;
    case GET: give(server, info, request.size); break;
    case MANY: give_many(server, info); break;
    // It is long, so that it is complete only once the client has it, and nothing is lost when the server ends.
    case STOP: reply(server, info, server->bytes, LONG_SIZE); return 0;
    default: CHECK(!"a request that is known");
    }
    return 1;
}

static void *run_server(void *unused)
{
    (void)unused;
    struct server *server = calloc(1, sizeof *server);
    CHECK(server != NULL && BMI_open_context(&server->context) == 0);
    for (int more = 1; more;) {
        int count;
        struct BMI_unexpected_info infos[4];
        CHECK(BMI_testunexpected(4, &count, infos, LONG) == 1);
        for (int i = 0; i < count; i++) {
            more = serve(server, &infos[i]) && more;
            CHECK(BMI_unexpected_free(infos[i].addr, infos[i].buffer) == 0);
            CHECK(BMI_set_info(infos[i].addr, BMI_DEC_ADDR_REF, NULL) == 0);
        }
    }
    BMI_close_context(server->context);
    free(server);
    return NULL;
}

// --- the clients -------------------------------------------------------------------------------------------------

struct client {
    bmi_context_id context;
    BMI_addr_t server;
    bmi_msg_tag_t tag;
    char bytes[LONG_SIZE], more[LONG_SIZE];
};

// Sends a request whose header and rest lie apart.
static void ask(struct client *client, enum what what, bmi_size_t size, const void *rest, bmi_size_t rest_size)
{
    struct request request;
    memset(&request, 0, sizeof request);
    request.what = what;
    request.tag = client->tag;
    request.size = size;
    const void *const pieces[] = {&request, rest};
    const bmi_size_t sizes[] = {sizeof request, rest_size};
    bmi_op_id_t id;
    int posted = BMI_post_sendunexpected_list(&id, client->server, pieces, sizes, 2, sizes[0] + sizes[1], BMI_EXT_ALLOC,
                                              client->tag, client, client->context, NULL);
    finish(posted, id, sizes[0] + sizes[1], client, client->context);
}

static bmi_size_t hear(struct client *client, void *buffer, bmi_size_t room)
{
    bmi_op_id_t id;
    bmi_size_t actual = -1;
    int posted = BMI_post_recv(&id, client->server, buffer, room, &actual, BMI_PRE_ALLOC, client->tag, buffer,
                               client->context, NULL);
    return finish(posted, id, actual, buffer, client->context);
}

static void echo(struct client *client)
{
    void *buffer = BMI_memalloc(client->server, ROOM, BMI_RECV);
    CHECK(buffer != NULL);
    for (bmi_size_t size = 0; size <= ROOM; size += ROOM / 2) {
        fill(client->bytes, size, 5);
        ask(client, ECHO, size, client->bytes, size);
        CHECK(hear(client, buffer, ROOM) == size && is_filled(buffer, size, 5));
    }
    CHECK(BMI_memfree(client->server, buffer, ROOM, BMI_RECV) == 0);
}

static void put(struct client *client)
{
    bmi_size_t size = LONG_SIZE - 77;
    ask(client, PUT, size, NULL, 0);
    fill(client->bytes, size, client->tag);
    bmi_op_id_t id;
    int posted = BMI_post_send(&id, client->server, client->bytes, size, BMI_EXT_ALLOC, client->tag + 1, NULL,
                               client->context, NULL);
    CHECK(finish(posted, id, size, NULL, client->context) == size);
    char answer[5];
    CHECK(hear(client, answer, 5) == 5 && !memcmp(answer, "right", 5));
}

static void get(struct client *client)
{
    bmi_size_t size = LONG_SIZE - 3;
    void *const pieces[] = {client->bytes, client->more};
    const bmi_size_t sizes[] = {LONG_SIZE / 4 + 1, LONG_SIZE - LONG_SIZE / 4 - 1};
    bmi_op_id_t id;
    bmi_size_t actual = -1;
    // It may be posted before it is asked for.
    int posted = BMI_post_recv_list(&id, client->server, pieces, sizes, 2, LONG_SIZE, &actual, BMI_EXT_ALLOC,
                                    client->tag + 1, client, client->context, NULL);
    CHECK(posted == 0);
    ask(client, GET, size, NULL, 0);
    CHECK(finish(posted, id, actual, client, client->context) == size);
    memmove(client->bytes + sizes[0], client->more, size - sizes[0]);
    CHECK(is_filled(client->bytes, size, client->tag));
}

// Half of the messages are taken from a list of operations, the others from the context.
static void get_many(struct client *client)
{
    static const bmi_size_t room = LONG_SIZE;
    char *buffers = malloc((size_t)room * MESSAGES);
    bmi_op_id_t ids[MESSAGES];
    CHECK(buffers != NULL);
    for (int i = 0; i < MESSAGES; i++)
        CHECK(BMI_post_recv(&ids[i], client->server, buffers + room * i, room, NULL, BMI_EXT_ALLOC, client->tag + 2 + i,
                            buffers + room * i, client->context, NULL) == 0);
    ask(client, MANY, 0, NULL, 0);
    int taken[MESSAGES] = {0};
    for (int left = MESSAGES; left > 0;) {
        int count, from_list = left > MESSAGES / 2, indices[MESSAGES / 2];
        bmi_op_id_t done[MESSAGES / 2];
        bmi_error_code_t errors[MESSAGES / 2];
        bmi_size_t sizes[MESSAGES / 2];
        void *users[MESSAGES / 2];
        if (from_list)
            CHECK(BMI_testsome(MESSAGES / 2, ids, &count, indices, errors, sizes, users, LONG, client->context) == 1);
        else
            CHECK(BMI_testcontext(3, done, &count, errors, sizes, users, LONG, client->context) == 1);
        for (int k = 0; k < count; k++) {
            int i = (int)(((char *)users[k] - buffers) / room);
            CHECK(from_list ? indices[k] == i : done[k] == ids[i]);
            CHECK(errors[k] == 0 && !taken[i]++);
            CHECK(sizes[k] == (i % 2 ? LONG_SIZE / MESSAGES * i : i) && is_filled(users[k], sizes[k], 0));
        }
        left -= count;
    }
    free(buffers);
}

// A receive that nobody sends for and a long send that nobody receives are given up.
static void cancel(struct client *client)
{
    bmi_op_id_t ids[2];
    CHECK(BMI_post_recv(&ids[0], client->server, client->bytes, LONG_SIZE, NULL, BMI_EXT_ALLOC, client->tag + 900,
                        &ids[0], client->context, NULL) == 0);
    CHECK(BMI_post_send(&ids[1], client->server, client->more, LONG_SIZE, BMI_EXT_ALLOC, client->tag + 901, &ids[1],
                        client->context, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        int count = -1;
        bmi_error_code_t error;
        bmi_size_t size;
        void *user;
        CHECK(BMI_test(ids[i], &count, &error, &size, &user, 0, client->context) == 0 && count == 0);
        CHECK(BMI_cancel(ids[i], client->context) == 0);
        CHECK(BMI_test(ids[i], &count, &error, &size, &user, LONG, client->context) == 1);
        CHECK(count == 1 && error == -BMI_ECANCEL && user == &ids[i]);
    }
}

static void *run_client(void *number)
{
    struct client *client = calloc(1, sizeof *client);
    CHECK(client != NULL && BMI_open_context(&client->context) == 0);
    CHECK(BMI_addr_lookup(&client->server, address) == 0);
    client->tag = (bmi_msg_tag_t)(TAGS * (size_t)number);
    echo(client);
    put(client);
    get(client);
    get_many(client);
    cancel(client);
    echo(client);
    BMI_close_context(client->context);
    free(client);
    return NULL;
}

static void run_clients(void)
{
    pthread_t threads[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) CHECK(pthread_create(&threads[i], NULL, run_client, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < CLIENTS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    struct client *client = calloc(1, sizeof *client);
    CHECK(client != NULL && BMI_open_context(&client->context) == 0);
    CHECK(BMI_addr_lookup(&client->server, address) == 0);
    ask(client, STOP, 0, NULL, 0);
    CHECK(hear(client, client->bytes, LONG_SIZE) == LONG_SIZE);
    BMI_close_context(client->context);
    free(client);
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    address = arguments[1];
    int is_client = !strcmp(arguments[2], "client"), is_server = !strcmp(arguments[2], "server");
    if (is_client)
        CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    else
        CHECK(BMI_initialize(NULL, address, BMI_INIT_SERVER | BMI_AUTO_REF_COUNT) == 0);
    puts("ready");
    fflush(stdout);
    pthread_t thread;
    if (!is_client) CHECK(pthread_create(&thread, NULL, run_server, NULL) == 0);
    if (!is_server) run_clients();
    if (!is_client) CHECK(pthread_join(thread, NULL) == 0);
    CHECK(BMI_finalize() == 0);
    puts("all of it holds");
    return 0;
}
