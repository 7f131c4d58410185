# SPDX-License-Identifier: MIT
"""The benchmark over several hosts: prepare the hosts, sweep, collect results, clean up.

On the controller, this package starts the sweep and the Ansible playbook (deploy/).
"""
