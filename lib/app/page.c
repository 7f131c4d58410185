/* SPDX-License-Identifier: MIT */
#include "app/page.h"

void page_ask(struct page *page, enum resp_type expected,
              const struct view *words, size_t count) {
    page->expected = expected;
    resp_append_command(&page->command, words, count);
}
