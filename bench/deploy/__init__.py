# SPDX-License-Identifier: MIT
"""The four-host benchmark from the controller: prepare the hosts, sweep, collect, clean up.

The Ansible playbook in deploy/ works on the hosts. This package starts the playbook and the sweep.
"""
