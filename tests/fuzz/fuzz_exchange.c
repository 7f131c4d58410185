/* SPDX-License-Identifier: MIT */
/*
 * A target for libFuzzer: whole exchanges.  `make fuzz` runs it; the inputs in
 * corpus/exchange are replayed by `make test`.
 *
 * The input is a script for three connections.  Its bytes decide which
 * connection continues, what the clients and Redis send, and in what pieces.
 * They also decide when a timeout ends, a client leaves or memory runs out.  A
 * connection does no I/O itself, so a script needs no socket and no clock.
 *
 * After each step the data of the connection must be consistent, and each
 * response is parsed from its bytes (answers.c).  At the end each connection
 * that nothing disturbed (a timeout, a shortage, a new date) is served again,
 * with all its bytes at once: the responses must be the same.
 *
 * Run the target in the project's folder, because it serves that folder.
 */
#include "app/app.h"
#include "dialogue.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DIALOGUES   3
#define SCRIPT_TIME 1700000000

/* After the end of the script, makes steps until the connection ends. */
static void end(struct dialogue *dialogue) {
    must(worker.script.length == 0);
    for (int steps = 0; dialogue_need(dialogue) != NEED_CLOSE; steps++) {
        must(steps < 100000);
        dialogue_step(dialogue);
    }
}

/* Sends the next recorded reply, and removes it from `replies`. */
static void reply_again(struct dialogue *dialogue, struct view *replies) {
    uint64_t length;

    must(view_number(view_cut(replies, ' '), SIZE_MAX, &length));
    struct view bytes = view_slice(*replies, 0, (size_t)length);
    *replies = view_skip(*replies, (size_t)length);
    dialogue_reply(dialogue, bytes);
}

/* Serves the same bytes again, all at once, with the same replies. */
static void must_be_the_same_again(const struct dialogue *before,
                                   int requests) {
    struct view replies = buffer_view(&before->replies);
    struct dialogue again;

    dialogue_start(&again, requests);
    buffer_append(&again.outbox, buffer_view(&before->delivered));
    while (dialogue_need(&again) != NEED_CLOSE) {
        again.lied = true; /* skips the check of this reply */
        if (dialogue_need(&again) == NEED_ASK_REDIS)
            reply_again(&again, &replies);
        else
            dialogue_step(&again);
    }
    must(view_equal(buffer_view(&again.all), buffer_view(&before->all)));
    must(again.answers == before->answers && replies.length == 0);
    dialogue_free(&again);
}

static void begin(void) {
    if (worker.app.public == NULL)
        app_open(&worker.app, ".");
}

/* The address sanitizer reports a file that was not returned to its cache. */
__attribute__((destructor)) static void close_all(void) {
    if (worker.app.public != NULL)
        app_close(&worker.app);
}

static bool goes_on(const struct dialogue dialogues[DIALOGUES]) {
    bool all_closed = true;

    for (int i = 0; i < DIALOGUES; i++)
        all_closed &= dialogue_need(&dialogues[i]) == NEED_CLOSE;
    return worker.script.length > 0 && !all_closed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dialogue dialogues[DIALOGUES];
    bool time_changed = false; /* then responses differ in their Date */

    begin();
    worker.script = (struct view){(const char *)data, size};
    worker.allocations_left = -1;
    cached_time_set(&worker.cached_time, SCRIPT_TIME);
    int requests = (int)(script_next() % 8) + 1;
    for (int i = 0; i < DIALOGUES; i++)
        dialogue_start(&dialogues[i], requests);
    while (goes_on(dialogues)) {
        unsigned how = script_next();
        if (how == 0xff) {
            time_changed = true;
            cached_time_set(&worker.cached_time, SCRIPT_TIME + script_next());
        }
        for (unsigned steps = how / DIALOGUES % 8 + 1; steps > 0; steps--)
            dialogue_step(&dialogues[how % DIALOGUES]);
    }
    worker.script = VIEW("");
    for (int i = 0; i < DIALOGUES; i++) {
        end(&dialogues[i]);
        if (has_memory() && !time_changed && !dialogues[i].cut)
            must_be_the_same_again(&dialogues[i], requests);
        dialogue_free(&dialogues[i]);
    }
    buffer_free(&worker.redis.last);
    worker.redis = (struct false_redis){0};
    return 0;
}
