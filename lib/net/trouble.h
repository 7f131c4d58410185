/* SPDX-License-Identifier: MIT */
/* What is said when something cannot be had: at the start, and while serving.
 */
#ifndef NET_TROUBLE_H
#define NET_TROUBLE_H

/* Says in one line what cannot be had at the start, and what cures it; exits 1.
 */
__attribute__((format(printf, 1, 2), noreturn)) void
server_give_up(const char *format, ...);

/* Something has run out, and errno tells why: clients wait until some other one
   ends.  Said once, by whichever process is the first. */
void server_is_out_of(const char *what);

/* Call it before any fork, so that all processes know what has been said. */
void trouble_init(void);

#endif
