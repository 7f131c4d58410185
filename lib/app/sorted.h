/* SPDX-License-Identifier: MIT */
/*
 * A page that computes and never waits: 1,001 pseudo-random strings, sorted.
 * In an event loop all other clients wait meanwhile.
 */
#ifndef APP_SORTED_H
#define APP_SORTED_H

#include "app/page.h"

page_handler sorted_page;

#endif
