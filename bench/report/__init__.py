# SPDX-License-Identifier: MIT
"""The report: one HTML page that is made from stored results, with pictures and exports.

`zerohttpd report RESULTS_DIR [--output FILE]` writes the report. The modules are listed from the
stored results to the page; each uses only modules above it:

    study                     servers under test, scenarios, and their data points
    limits                    the host at its limit; the levels that each server passes
    findings                  the titles of the charts, and which server to choose
    across                    effects of a changed condition; nginx and several instances
    peers                     reference servers: published and measured ratios
    charts/                   the charts, as Vega-Lite specifications
    page/                     the pages of a sweep, of costs and of a robustness test; the exports

All sentences that name a server are generated from the figures.
"""
