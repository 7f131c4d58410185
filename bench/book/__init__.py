# SPDX-License-Identifier: MIT
"""Make the annotated source of the web site, and the slides and sheets of the course.

    source         splits a C file into passages, each a comment and its code
    render         makes HTML: a source file with marked new lines, two files side by side
    directive      replaces directives in a document by HTML, e.g. source or a curve
    glossary       links words to their entries
    site           has hooks of MkDocs, which makes the web site (mkdocs.yml)
    course         makes slides, speaker notes and sheets
    expected       measures the figures of the sheets on this machine

The chapters of the book are in docs/tutorial/book/. A directive that quotes a missing source file
is an error.
"""
