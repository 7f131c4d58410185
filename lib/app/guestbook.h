/* SPDX-License-Identifier: MIT */
/*
 * The guestbook: remarks and a visitor count, kept in Redis under the keys of
 * the original ZeroHTTPd.
 *
 *     guestbook_remarks   a list of strings "remarks - name", oldest first
 *     visitor_count       a number
 */
#ifndef APP_GUESTBOOK_H
#define APP_GUESTBOOK_H

#include "app/page.h"

#define GUESTBOOK_TEMPLATE "guestbook/index.html"

page_handler guestbook_show; /* GET: three replies, one after another */
page_handler guestbook_sign; /* POST: one; three if the form is shown again */

#endif
