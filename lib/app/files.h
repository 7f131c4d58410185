/* SPDX-License-Identifier: MIT */
/* Static files: whatever lies below public/, and nothing else. */
#ifndef APP_FILES_H
#define APP_FILES_H

#include "app/page.h"

page_handler files_page;

#endif
