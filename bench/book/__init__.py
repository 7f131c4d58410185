# SPDX-License-Identifier: MIT
"""The book: the annotated source as pages that open from disk, and can be printed.

    source         a C file as passages: a comment, and the code that it speaks of
    difference     what is new since another file; two files side by side
    chapter        a chapter's text and its directives
    curve          what the newest results say of some servers
    render         pieces of HTML
    command        all pages of the book into one folder

The chapters are in docs/tutorial/book/. They quote the sources by name; a name that does not exist
is an error.
"""
