# SPDX-License-Identifier: MIT
"""What happens on a host during a run, in this process or behind an agent on another host."""
