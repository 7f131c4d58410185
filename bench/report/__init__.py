# SPDX-License-Identifier: MIT
"""The report: one HTML page made from stored results, with pictures and exports next to it.

`zerohttpd report RESULTS_DIR [--output FILE]` writes it. The modules are listed from the stored
results to the page; each uses only those above it:

    study                     servers under test, scenarios, and their data points
    limits                    the host at its limit; the levels that each server passes
    findings                  the titles of the charts, and which server to choose
    across                    effects of a changed condition; several instances behind nginx
    peers                     reference servers: published and measured ratios
    charts/                   the charts, as Vega-Lite specifications
    page/                     the page; JSON, CSV, Markdown and the table of figures; all the files

All sentences that name a server are generated from the figures.
"""
