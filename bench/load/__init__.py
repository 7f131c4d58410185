# SPDX-License-Identifier: MIT
"""Loads for a server under test: generators (ab, wrk, oha), a first request, and crowds."""
