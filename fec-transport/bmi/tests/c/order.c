// Two processes send each other numbered messages of all lengths under one tag, with BMI's calls only, and check that
// each comes once, whole and in its order: order ADDRESS server|client. The client says when it has half of them.

#include "check.h"

// The last message is a long one: it is complete only once the peer has it, and with it all before it.
enum { LENGTHS = 7, MESSAGES = 60 * LENGTHS, WINDOW = 16, ROOM = 200000, TAG = 7 };

static const bmi_size_t lengths[LENGTHS] = {25, 400, 70000, 16000, 20000, 4, ROOM};

// A message that is under way, in one direction.
struct slot {
    int is_send, number;
    bmi_op_id_t id;
    bmi_size_t actual;
    char bytes[ROOM];
};

struct exchange {
    bmi_context_id context;
    BMI_addr_t peer;
    // Messages that were posted, and that are complete, to be received and to be sent.
    int posted[2], complete[2];
    int is_client;
    struct slot slots[2 * WINDOW];
};

static void end(struct exchange *exchange, struct slot *slot, bmi_size_t size)
{
    CHECK(size == lengths[slot->number % LENGTHS]);
    if (!slot->is_send) {
        int32_t number;
        memcpy(&number, slot->bytes, sizeof number);
        CHECK(number == slot->number);
        CHECK(is_filled(slot->bytes + sizeof number, size - (bmi_size_t)sizeof number, number));
    }
    exchange->complete[slot->is_send]++;
    if (exchange->is_client && !slot->is_send && exchange->complete[0] == MESSAGES / 2) {
        puts("half");
        fflush(stdout);
    }
}

static int post(struct exchange *exchange, struct slot *slot)
{
    if (!slot->is_send)
        return BMI_post_recv(&slot->id, exchange->peer, slot->bytes, ROOM, &slot->actual, BMI_EXT_ALLOC, TAG, slot,
                             exchange->context, NULL);
    int32_t number = slot->number;
    bmi_size_t size = lengths[number % LENGTHS];
    memcpy(slot->bytes, &number, sizeof number);
    fill(slot->bytes + sizeof number, size - (bmi_size_t)sizeof number, number);
    slot->actual = size;
    return BMI_post_send(&slot->id, exchange->peer, slot->bytes, size, BMI_EXT_ALLOC, TAG, slot, exchange->context, NULL);
}

// Posts the next messages of a slot's direction, until one is pending.
static void go_on(struct exchange *exchange, struct slot *slot)
{
    while (exchange->posted[slot->is_send] < MESSAGES) {
        slot->number = exchange->posted[slot->is_send]++;
        int posted = post(exchange, slot);
        CHECK(posted >= 0);
        if (posted == 0) return;
        end(exchange, slot, slot->actual);
    }
}

static void run(struct exchange *exchange)
{
    for (int i = 0; i < 2 * WINDOW; i++) {
        exchange->slots[i].is_send = i % 2;
        go_on(exchange, &exchange->slots[i]);
    }
    while (exchange->complete[0] + exchange->complete[1] < 2 * MESSAGES) {
        int count;
        bmi_op_id_t ids[WINDOW];
        bmi_error_code_t errors[WINDOW];
        bmi_size_t sizes[WINDOW];
        void *users[WINDOW];
        CHECK(BMI_testcontext(WINDOW, ids, &count, errors, sizes, users, LONG, exchange->context) == 1);
        for (int i = 0; i < count; i++) {
            struct slot *slot = users[i];
            CHECK(errors[i] == 0 && ids[i] == slot->id);
            end(exchange, slot, sizes[i]);
            go_on(exchange, slot);
        }
    }
}

static BMI_addr_t meet(struct exchange *exchange, const char *address)
{
    if (exchange->is_client) {
        bmi_op_id_t id;
        CHECK(BMI_addr_lookup(&exchange->peer, address) == 0);
        int posted = BMI_post_sendunexpected(&id, exchange->peer, "hello", 5, BMI_EXT_ALLOC, 0, NULL, exchange->context, NULL);
        CHECK(finish(posted, id, 5, NULL, exchange->context) == 5);
        return exchange->peer;
    }
    int count;
    struct BMI_unexpected_info hello;
    CHECK(BMI_testunexpected(1, &count, &hello, LONG) == 1 && hello.size == 5);
    CHECK(BMI_unexpected_free(hello.addr, hello.buffer) == 0);
    return hello.addr;
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    struct exchange *exchange = calloc(1, sizeof *exchange);
    CHECK(exchange != NULL);
    exchange->is_client = !strcmp(arguments[2], "client");
    if (exchange->is_client)
        CHECK(BMI_initialize(NULL, NULL, 0) == 0);
    else
        CHECK(BMI_initialize(NULL, arguments[1], BMI_INIT_SERVER) == 0);
    puts("ready");
    fflush(stdout);
    CHECK(BMI_open_context(&exchange->context) == 0);
    exchange->peer = meet(exchange, arguments[1]);
    run(exchange);
    BMI_close_context(exchange->context);
    CHECK(BMI_finalize() == 0);
    free(exchange);
    puts("all of it holds");
    return 0;
}
