/* SPDX-License-Identifier: MIT */
#include "app/page.h"

#include "config.h"
#include "ops.h"

bool page_hold(struct page *page, size_t bytes) {
    size_t wanted = bytes > LARGE_RESPONSE ? bytes : 0;

    if (wanted > page->held && !budget_take(wanted - page->held)) {
        response_error(page->response, 503,
                       "Too many large pages are on their way to other "
                       "clients. Please try again in a moment.");
        response_field(page->response, VIEW("Retry-After"), VIEW("1"));
        return false;
    }
    if (wanted < page->held)
        budget_return(page->held - wanted);
    page->held = wanted;
    return true;
}

void page_ask(struct page *page, enum resp_type expected,
              const struct view *words, size_t count) {
    page->expected = expected;
    resp_append_command(&page->command, words, count);
}
