/* SPDX-License-Identifier: MIT */
/* Text in HTML; templates, which have placeholders such as $VISITOR_COUNT$. */
#pragma once

#include "proto/bytes.h"

/* Appends text so that it is shown as text, within an element or a quoted
   attribute: & < > " ' become character references.  U+FFFD replaces bytes that
   are not UTF-8, control characters except HTAB, LF and CR, and noncharacters
   such as U+FFFF.  It also replaces embeddings, overrides and isolates (Unicode
   Standard Annex 9), with which a visitor could reverse the words of others. */
void html_append_text(struct buffer *html, struct view text);

/* Appends the value of the placeholder with this name, given without dollar
   signs.  Returns false if there is no such placeholder. */
typedef bool template_value(struct buffer *html, struct view name,
                            const void *values);

/* Appends the template; `append_value` appends the value of each placeholder,
   as HTML.  Values are not searched for placeholders, so a visitor's text
   $VISITOR_COUNT$ is shown unchanged.  Unknown names stay as they are. */
void template_append(struct buffer *html, struct view text,
                     template_value *append_value, const void *values);
