# SPDX-License-Identifier: MIT
"""The benchmark over several hosts: prepare the hosts, sweep, collect results, clean up.

On the user's machine, this package starts the Ansible playbook (deploy/) and the sweep.
"""
