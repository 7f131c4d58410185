# SPDX-License-Identifier: MIT
"""What is measured: the servers, their floors, and strangers; found, started, ended."""
