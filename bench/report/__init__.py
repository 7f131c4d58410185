# SPDX-License-Identifier: MIT
"""The report: one HTML page made from stored results, with pictures and exports next to it.

`zerohttpd report RESULTS_DIR [--output FILE]` writes it. The modules are listed from the stored
results to the page; each uses only those above it:

    study                     servers under test, scenarios, and their data points
    usl                       the scalability law, and its fit for each server
    hosts, topology           what each host did and which was the limit; the paths of requests
    holding, across           the levels that each server passes; effects of a changed condition
    instances                 several instances behind nginx
    findings, findings_across the titles of the charts; cost relative to the baseline
    choice, recommendation    which server to choose; the ranking
    charts/                   the charts, as Vega-Lite specifications
    page, export, build       the page; JSON, CSV, Markdown and the table of figures; all the files

All sentences that name a server are generated from the figures.
"""
