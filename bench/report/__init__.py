# SPDX-License-Identifier: MIT
"""The report: one HTML page made from stored results, with pictures and exports next to it.

`zerohttpd report RESULTS_DIR [--output FILE]` writes it. The modules are listed from the stored
results to the page; each uses only those above it:

    words, metrics            figures in words; the list of figures and how each is read
    study                     servers under test, scenarios, and a data point per configuration
    usl, scaling, paper       the scalability law; its fit for each server; the curves of 2019
    hosts, topology           what each host did and which was the limit; the drawing of them
    holding, across           the levels that each server passes; effects of a changed condition
    instances, `floors`       several instances behind nginx; cost relative to the baseline
    findings, findings_across the titles of the charts
    choice                    which server to choose
    charts/                   the charts, as Vega-Lite specifications
    figures_table, facts      the table of all figures; the machine, the settings, the commands
    page, export, build       the page; JSON, CSV and Markdown; all the files

All sentences that name a server are generated from the figures.
"""
