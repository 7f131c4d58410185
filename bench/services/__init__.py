# SPDX-License-Identifier: MIT
"""What a subject needs beside it: Redis, a slow Redis, nginx as a load balancer."""
