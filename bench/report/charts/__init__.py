# SPDX-License-Identifier: MIT
"""The charts, as Vega-Lite specifications made with Altair.

    style        colours, marks of the subjects, the two themes
    rows         the data that the charts share
    base         what all charts are made of
    lines, bars, strips, loops      the kinds of charts
    catalogue    all charts of a report, with their titles
    export       SVG and PNG

A specification holds no data and no colour: data are referred to by name, colours are tokens
(`@ink`). The page puts CSS variables in their place, so that one switch turns all charts dark; the
exported pictures get the values of the light theme. Parameters of a chart (`scenario`, `level`,
`hidden`) are what the page's controls set.
"""
