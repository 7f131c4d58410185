# SPDX-License-Identifier: MIT
"""Annotated source for the web site, the slides and the sheets.

    source         a C file as passages: a comment and its code
    render         pieces of HTML: a source, what is new since another file, two side by side
    directive      the lines of a document that are replaced by such a piece, or by the newest curve
    glossary       links from words to their entries
    site           hooks of MkDocs, which makes the web site (mkdocs.yml)
    course         slides, speaker notes and sheets, with the expected results of the sheets

The chapters of the book are in docs/tutorial/book/. A directive that quotes a source that does not
exist is an error.
"""
