# SPDX-License-Identifier: MIT
"""Services that a server under test needs: Redis, a slow Redis, nginx as a load balancer."""
