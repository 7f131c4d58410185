# SPDX-License-Identifier: MIT
"""Load generators for a server under test: ab, wrk, oha; a first request; idle connections."""
