# SPDX-License-Identifier: MIT
"""The four-host benchmark from the controller: prepare the hosts, sweep, collect, clean up.

The Ansible playbook in deploy/ runs on the hosts. This package prepares and follows it.
"""
