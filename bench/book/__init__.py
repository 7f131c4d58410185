# SPDX-License-Identifier: MIT
"""Make the annotated source of the web site, and the slides and sheets of the course.

    listing        makes HTML of C files: comments next to the code, two files side by side
    directive      replaces directives in a document by HTML, e.g. source or a curve
    site           has hooks of MkDocs, which makes the web site (mkdocs.yml); links words to the
                   glossary
    course         makes slides, speaker notes and sheets; measures the figures of the sheets on
                   this machine

The chapters of the book are in docs/tutorial/book/. A directive that quotes a missing source file
is an error.
"""
