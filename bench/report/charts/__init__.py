# SPDX-License-Identifier: MIT
"""The charts, as Vega-Lite specifications.

    style        colours and marks of the servers, the two themes
    rows         the data that the charts share
    specs        the specification of each chart
    catalogue    the charts of a report with their titles; SVG and PNG of each

A specification contains no data: it refers to data by name. Its colours are tokens (`@ink`), except
in `standing`. The page replaces the tokens with CSS variables, so one switch changes all charts.
Exported pictures have the colours of the light theme. The page's controls set the parameters of a
chart: `scenario`, `level`, `hidden`, `then2019` and `scaled2019`.
"""
