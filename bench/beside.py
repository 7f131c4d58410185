"""Helpers that run beside a load: the slow Redis, and the idle connections."""
