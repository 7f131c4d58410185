# SPDX-License-Identifier: MIT
"""What puts a load on a subject: ab, oha, a first request read with care, idle connections."""
