# SPDX-License-Identifier: MIT
"""Loads for a server under test: ab, wrk and oha; a first request; crowds of clients."""
