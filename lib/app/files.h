/* SPDX-License-Identifier: MIT */
/* Static files: all below public/, and nothing else. */
#ifndef APP_FILES_H
#define APP_FILES_H

#include "app/page.h"

page_handler files_page;

#endif
