# SPDX-License-Identifier: MIT
"""End-to-end tests: real executables, real sockets, a real Redis, real clients."""
