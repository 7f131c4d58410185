# SPDX-License-Identifier: MIT
"""The report: one HTML page made of stored results, with pictures and exports beside it.

Started as `zerohttpd report RESULTS_DIR [--output FILE]`. The modules, from what was stored
to what is shown; each uses only those above it:

    words, metrics            figures in words; which figures there are, and where they are read
    study                     the results in order: subjects, scenarios, a point for each cell
    usl, scaling, paper       the scalability law; what it says here; the curves of 2019
    hosts, topology           what each host did and which was the limit; the drawing of them
    holding, across           where each server stops holding; what one changed condition does
    instances, floors         several instances behind nginx; how far from its floor each is
    findings, findings_across the titles of the charts
    choice                    which server to choose
    charts/                   the charts, as Vega-Lite specifications
    figures_table, facts      the table of all figures; the machine, the settings, the commands
    page, export, build       the page; JSON, CSV and Markdown; all the files

No sentence that names a server is written here beforehand: all are made from the figures.
"""
