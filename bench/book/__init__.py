# SPDX-License-Identifier: MIT
"""Annotated source for the web site, the slides and the sheets.

    source         a C file as passages: a comment and its code
    render         pieces of HTML: a source file with its new lines marked, two files side by side
    directive      lines of a document that are replaced by a piece of HTML or the newest curve
    glossary       links from words to their entries
    site           hooks of MkDocs, which makes the web site (mkdocs.yml)
    course         slides, speaker notes and sheets, with the expected results of the sheets

The chapters of the book are in docs/tutorial/book/. A directive that quotes a missing source file
is an error.
"""
