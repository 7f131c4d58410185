# SPDX-License-Identifier: MIT
"""The charts, as Vega-Lite specifications made with Altair.

    style        colours, marks of the subjects, the two themes
    rows         the data that the charts share
    base         what all charts are made of
    lines, bars  the kinds of charts
    exhibits     a chart with its titles
    catalogue, comparisons, peers   all charts of a report
    export       SVG and PNG

A specification holds no data and no colour: data are referred to by name, colours are tokens
(`@ink`). The page puts CSS variables in their place, so that one switch turns all charts dark; the
exported pictures get the values of the light theme. Parameters of a chart (`scenario`, `level`,
`hidden`) are what the page's controls set.
"""
